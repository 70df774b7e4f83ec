// Predicts the pitch of series of unequal lengths, with a source of its own.

#include "examples/home/programs.hpp"

#include <soma/data/indexed_source.hpp>
#include <soma/nn.hpp>
#include <soma/soma.hpp>
#include <soma/tables.hpp>

#include <algorithm>
#include <numeric>

using namespace soma;

namespace {

struct Net {
  Net(const nn::Scope& scope, std::size_t width)
      : gru(scope / "gru", width, 16), head(scope / "head", 16, 1) {}
  Var operator()(Tape& tape, const Var& x) const { return head(tape, gru(tape, x).last(tape)); }
  void collect(nn::Collector& collector) const {
    collector.part("gru", gru);
    collector.part("head", head);
  }
  nn::Gru gru;
  nn::Linear head;
};

struct Series {
  Tensor rows, labels;
  std::vector<std::size_t> begins;  // where each series begins, and the end
};

class SeriesSource final : public data::IndexedSource {
 public:
  SeriesSource(Context& context, Series series, const data::BatchOptions& options)
      : IndexedSource("SeriesSource", context, options), context_(context), series_(series) {
    start(series_.begins.size() - 1);
  }

 private:
  std::size_t length(std::size_t item) const override {
    return series_.begins[item + 1] - series_.begins[item];
  }
  void add_content(data::ContentHash& hash) const override {
    for (const Tensor& tensor : {series_.rows, series_.labels})
      hash.add_bytes({tensor.raw(), tensor.bytes()});
    for (const std::size_t begin : series_.begins) hash.add(begin);
  }
  data::Batch make(std::span<const std::uint32_t> items) const override {
    const std::size_t width = series_.rows.size(1);
    std::vector<float> rows, labels;
    std::vector<std::size_t> lengths;
    for (const std::uint32_t item : items) {
      const auto from =
          series_.rows.span<float>().subspan(series_.begins[item] * width, length(item) * width);
      rows.insert(rows.end(), from.begin(), from.end());
      labels.push_back(series_.labels.span<float>()[item]);
      lengths.push_back(length(item));
    }
    data::Batch batch;
    batch.inputs.sequences =
        Sequences::from_lengths(context_, lengths, {.shards = options().shards});
    batch.inputs.rows =
        Tensor::from(context_, std::span<const float>(rows), Shape{rows.size() / width, width});
    batch.labels = Tensor::from(context_, std::span<const float>(labels), Shape{labels.size()});
    batch.items.assign(items.begin(), items.end());
    return batch;
  }

  Context& context_;
  Series series_;
};

}  // namespace

double home::series_by_hand(const std::string& training, const std::string& held_out) {
  auto context = make_context({.threads = 1});
  const text::TableOptions numbers{.left_out = {"series"}};
  const text::Table known = text::read_table_text(training, numbers);
  std::vector<std::uint32_t> all(known.rows);
  std::iota(all.begin(), all.end(), 0u);
  const auto encoder = text::TableEncoder::fit(known, "pitch", all);
  const auto source = [&](const std::string& csv, bool shuffle) {
    const text::Table with_series = text::read_table_text(csv);
    const text::TableColumn& series = with_series.column("series");
    Series made;
    std::vector<std::uint32_t> rows, first_rows;
    for (std::uint32_t row = 0; row < with_series.rows; ++row) {
      if (row == 0 || series.codes[row] != series.codes[row - 1]) {
        made.begins.push_back(row);
        first_rows.push_back(row);
      }
      rows.push_back(row);
    }
    made.begins.push_back(rows.size());
    const text::Table table = text::read_table_text(csv, numbers);
    made.rows = encoder.encode(context, table, rows);
    made.labels = encoder.targets(context, table, first_rows);
    return SeriesSource(context, made, {.batch_sequences = 16, .shuffle = shuffle, .seed = 1});
  };
  SeriesSource batches = source(training, true), test = source(held_out, false);
  const Net net({context, 1}, encoder.width());
  nn::RegressionTask task(net);
  train::Trainer trainer(context, task, {.epochs = 12, .learning_rate = 1e-2});
  return trainer.fit(batches, &test).metric("mae");
}
