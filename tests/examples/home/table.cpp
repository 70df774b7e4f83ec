// Cross-validation of four nets on a table of categories and numbers, with soma's parts for data.

#include "examples/home/programs.hpp"

#include <soma/data/array_source.hpp>
#include <soma/data/split.hpp>
#include <soma/models/mlp.hpp>
#include <soma/nn.hpp>
#include <soma/soma.hpp>
#include <soma/tables.hpp>

#include <algorithm>

using namespace soma;

namespace {

// Numbers beside the embeddings of categories.
struct Net {
  Net(const nn::Scope& scope, std::span<const std::size_t> sizes, std::size_t code_rows,
      std::size_t width)
      : codes(scope / "codes", code_rows, width), layers(scope / "layers", sizes) {}
  Var operator()(Tape& tape, const data::Batch& batch) const {
    const Var known = nn::Flatten()(tape, codes(tape, tape.constant(batch.at("codes"))));
    return layers(tape, concatenate(tape, {tape.constant(batch.inputs), known}, 1));
  }
  void collect(nn::Collector& collector) const {
    collector.part("codes", codes);
    collector.part("layers", layers);
  }
  nn::Embedding codes;
  models::Mlp layers;
};

}  // namespace

double home::table(const std::string& csv) {
  auto context = make_context({.threads = 1});
  const text::Table table = text::read_table_text(csv);
  double best = 0;
  for (const std::size_t width : {2, 4})
    for (const std::size_t hidden : {8, 24}) {
      double sum = 0;
      for (const data::RowSplit& fold : data::split_folds(table.rows, 5, 1)) {
        const auto encoder = text::TableEncoder::fit(table, "income", fold.train, {.codes = true});
        const auto source = [&](std::span<const std::uint32_t> rows, bool shuffle) {
          const Tensor codes = encoder.codes(context, table, rows);
          return data::ArraySource(context,
                                   {.inputs = encoder.encode(context, table, rows),
                                    .labels = encoder.targets(context, table, rows),
                                    .fields = {{"codes", codes}}},
                                   {.batch_sequences = 64, .shuffle = shuffle, .seed = 1});
        };
        data::ArraySource training = source(fold.train, true),
                          test = source(fold.validation, false);
        constexpr std::size_t columns = 3;  // work, school, town
        const std::size_t sizes[] = {encoder.width() + width * columns, hidden, 2};
        const Net net({context, 1}, sizes, encoder.code_rows(), width);
        nn::ClassificationTask task(net, 2);
        train::Trainer trainer(context, task, {.epochs = 4, .learning_rate = 1e-2});
        sum += trainer.fit(training, &test).metric("auc");
      }
      best = std::max(best, sum / 5);
    }
  return best;
}
