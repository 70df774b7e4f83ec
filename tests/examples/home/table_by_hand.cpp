// Cross-validation of four nets on a table of categories and numbers; codes, classes and folds are
// made by hand, and the model looks the codes up.

#include "examples/home/programs.hpp"

#include <soma/data/array_source.hpp>
#include <soma/data/order.hpp>
#include <soma/models/mlp.hpp>
#include <soma/nn.hpp>
#include <soma/soma.hpp>
#include <soma/tables.hpp>

#include <algorithm>

using namespace soma;

namespace {

// A source has one tensor of inputs: codes stand as floats before the numbers.
struct Net {
  Net(const nn::Scope& scope, std::span<const std::size_t> sizes, std::size_t columns,
      std::size_t code_rows, std::size_t width)
      : codes(scope / "codes", code_rows, width), layers(scope / "layers", sizes), first(columns) {}
  Var operator()(Tape& tape, const Var& x) const {
    const Tensor& inputs = x.value();
    const std::size_t rows = inputs.size(0), all = inputs.size(1), numbers = all - first;
    std::vector<std::int32_t> ids;
    std::vector<float> values;
    for (std::size_t row = 0; row < rows; ++row) {
      const float* row_values = inputs.span<float>().data() + row * all;
      for (std::size_t i = 0; i < first; ++i)
        ids.push_back(static_cast<std::int32_t>(row_values[i]));
      values.insert(values.end(), row_values + first, row_values + all);
    }
    const Tensor id_rows =
        Tensor::from(tape.context(), std::span<const std::int32_t>(ids), Shape{rows, first});
    const Var known = nn::Flatten()(tape, codes(tape, tape.constant({id_rows, x.sequences()})));
    const Tensor number_rows =
        Tensor::from(tape.context(), std::span<const float>(values), Shape{rows, numbers});
    return layers(tape, concatenate(tape, {tape.constant({number_rows, x.sequences()}), known}, 1));
  }
  void collect(nn::Collector& collector) const {
    collector.part("codes", codes);
    collector.part("layers", layers);
  }
  nn::Embedding codes;
  models::Mlp layers;
  std::size_t first;
};

// The categories of the fitted rows of each column, as ids of one table; 0 of each is unknown.
struct Codes {
  Codes(const text::Table& table, std::span<const std::uint32_t> fitted) {
    for (const text::TableColumn& column : table.columns) {
      if (column.kind != text::ColumnKind::category || column.name == "income") continue;
      std::vector<std::int32_t> ids(column.categories.size(), 0);
      for (const std::uint32_t row : fitted)
        if (column.codes[row] >= 0) ids[static_cast<std::size_t>(column.codes[row])] = 1;
      std::int32_t next = 1;
      for (std::int32_t& id : ids)
        if (id != 0) id = next++;
      columns.push_back(&column);
      of.push_back(ids);
      first.push_back(rows);
      rows += static_cast<std::size_t>(next);
    }
  }
  std::vector<const text::TableColumn*> columns;
  std::vector<std::vector<std::int32_t>> of;
  std::vector<std::size_t> first;
  std::size_t rows = 0;
};

}  // namespace

double home::table_by_hand(const std::string& csv) {
  auto context = make_context({.threads = 1});
  const text::Table table = text::read_table_text(csv);
  text::Table numbers{.columns = {}, .rows = table.rows, .source = table.source};
  for (const text::TableColumn& column : table.columns)
    if (column.kind == text::ColumnKind::number) numbers.columns.push_back(column);
  numbers.columns.push_back(numbers.columns[1]);  // fit() wants a target of numbers
  numbers.columns.back().name = "target";
  const auto order = data::shuffled_order(table.rows, data::epoch_draw(1, 0, "folds"));
  const text::TableColumn& income = table.column("income");
  double best = 0;
  for (const std::size_t width : {2, 4})
    for (const std::size_t hidden : {8, 24}) {
      double sum = 0;
      for (std::size_t fold = 0; fold < 5; ++fold) {
        std::vector<std::uint32_t> train_rows, test_rows;
        for (std::size_t i = 0; i < order.size(); ++i)
          (i % 5 == fold ? test_rows : train_rows).push_back(order[i]);
        std::sort(train_rows.begin(), train_rows.end());
        std::sort(test_rows.begin(), test_rows.end());
        const auto encoder = text::TableEncoder::fit(numbers, "target", train_rows);
        const Codes codes(table, train_rows);
        const std::size_t columns = codes.columns.size(), all = columns + encoder.width();
        const auto source = [&](const std::vector<std::uint32_t>& rows, bool shuffle) {
          const Tensor encoded = encoder.encode(context, numbers, rows);
          std::vector<float> inputs;
          std::vector<std::int64_t> labels;
          for (std::size_t i = 0; i < rows.size(); ++i) {
            for (std::size_t c = 0; c < columns; ++c) {
              const std::int32_t code = codes.columns[c]->codes[rows[i]];
              const std::int32_t id = code < 0 ? 0 : codes.of[c][static_cast<std::size_t>(code)];
              inputs.push_back(static_cast<float>(codes.first[c]) + static_cast<float>(id));
            }
            const auto row = encoded.span<float>().subspan(i * encoder.width(), encoder.width());
            inputs.insert(inputs.end(), row.begin(), row.end());
            labels.push_back(income.codes[rows[i]]);
          }
          return data::ArraySource(
              context,
              Tensor::from(context, std::span<const float>(inputs), Shape{rows.size(), all}),
              Tensor::from(context, std::span<const std::int64_t>(labels), Shape{rows.size()}),
              {.batch_sequences = 64, .shuffle = shuffle, .seed = 1});
        };
        data::ArraySource training = source(train_rows, true), test = source(test_rows, false);
        const std::size_t sizes[] = {encoder.width() + width * columns, hidden, 2};
        const Net net({context, 1}, sizes, columns, codes.rows, width);
        nn::ClassificationTask task(net, 2);
        train::Trainer trainer(context, task, {.epochs = 4, .learning_rate = 1e-2});
        sum += trainer.fit(training, &test).metric("auc");
      }
      best = std::max(best, sum / 5);
    }
  return best;
}
