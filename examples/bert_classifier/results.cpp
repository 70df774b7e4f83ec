#include "bert_classifier/results.hpp"

#include <soma/base/fixed.hpp>
#include <soma/io/atomic_file.hpp>
#include <soma/io/confusion_csv.hpp>
#include <soma/io/record_json.hpp>

#include <iostream>

using soma::fixed, soma::metrics::shown;

namespace {

// A line for each pair of classes that occurs.
std::string confusion_list(const std::vector<std::string>& labels,
                           const soma::metrics::Classification& metrics) {
  std::string text = "actual,predicted,rows\r\n";
  for (const soma::metrics::Confusion& cell : metrics.confusions())
    text.append(soma::csv_cell(labels[cell.label]))
        .append(",")
        .append(soma::csv_cell(labels[cell.prediction]))
        .append(",")
        .append(std::to_string(cell.cases))
        .append("\r\n");
  return text;
}

}  // namespace

void write_confusion(const char* operation, const std::string& path,
                     const std::vector<std::string>& labels,
                     const soma::metrics::Classification& metrics) {
  if (path.empty()) return;
  soma::AtomicFile file(operation, path);
  if (metrics.classes() <= soma::metrics::Classification::most_matrix_classes)
    file.write(soma::confusion_csv(labels, metrics.confusion()));
  else
    file.write(confusion_list(labels, metrics));
  file.commit();
}

void print_json(const soma::metrics::Classification& metrics, double loss,
                const soma::Record& more) {
  const soma::metrics::Interval interval = metrics.accuracy_interval();
  soma::Record record("evaluation");
  record.set("rows", metrics.cases());
  record.set("accuracy", metrics.accuracy());
  record.set("accuracy_low", interval.low);
  record.set("accuracy_high", interval.high);
  record.set("macro_f1", metrics.macro_f1());
  record.set("majority_share", metrics.majority_share());
  if (metrics.classes() == 2) record.set("auc", metrics.area_under_curve());
  record.set("loss", loss);
  for (const auto& [name, value] : more.entries()) record.set(name, value.number);
  std::cout << soma::to_json_with_null(record) << '\n';
}

void print_json(const soma::metrics::Values& values, std::uint64_t rows, double loss,
                const soma::Record& more) {
  soma::Record record("evaluation");
  record.set("rows", rows);
  for (const soma::metrics::Value& value : values) record.set(value.name, value.value);
  record.set("loss", loss);
  for (const auto& [name, value] : more.entries()) record.set(name, value.number);
  std::cout << soma::to_json_with_null(record) << '\n';
}

void print_values(const soma::metrics::Values& values, std::uint64_t rows, double loss) {
  for (const soma::metrics::Value& value : values)
    std::cout << value.title << '\t' << shown(value.value) << '\n';
  std::cout << "loss\t" << fixed(loss, 4) << "\nrows\t" << rows << '\n';
}

void print_summary(const soma::metrics::Classification& metrics,
                   const std::vector<std::string>& labels, double loss) {
  const soma::metrics::Interval interval = metrics.accuracy_interval();
  std::cout << "accuracy " << fixed(metrics.accuracy(), 4) << " (95 %: " << fixed(interval.low, 4)
            << " to " << fixed(interval.high, 4) << "), macro F1 " << shown(metrics.macro_f1());
  if (metrics.classes() == 2) std::cout << ", AUC " << shown(metrics.area_under_curve());
  std::cout << ", loss " << fixed(loss, 4) << ", " << metrics.cases() << " rows\n";
  if (metrics.only_prediction())
    std::cout << "predicts one class only, " << labels[*metrics.only_prediction()]
              << "; always guessing the most frequent one gets "
              << fixed(metrics.majority_share(), 4) << '\n';
}

void print_classes(const soma::metrics::Classification& metrics,
                   const std::vector<std::string>& labels) {
  std::cout << "class\tprecision\trecall\tF1\n";
  for (std::size_t i = 0; i < metrics.classes(); ++i)
    std::cout << labels[i] << '\t' << shown(metrics.precision(i)) << '\t'
              << shown(metrics.recall(i)) << '\t' << shown(metrics.f1(i)) << '\n';
}
