// Predicts the pitch of series of unequal lengths, with soma's parts for data.

#include "examples/home/programs.hpp"

#include <soma/data/array_source.hpp>
#include <soma/nn.hpp>
#include <soma/soma.hpp>
#include <soma/tables.hpp>

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

}  // namespace

double home::series(const std::string& training, const std::string& held_out) {
  auto context = make_context({.threads = 1});
  const text::Table known = text::read_table_text(training);
  const auto encoder = text::TableEncoder::fit(
      known, "pitch", text::RowGroups(known, "series").rows, {.left_out = {"series"}});
  const auto source = [&](const text::Table& table, bool shuffle) {
    const text::RowGroups groups(table, "series");
    return data::ArraySource(context,
                             {.inputs = encoder.encode(context, table, groups.rows),
                              .lengths = groups.lengths,
                              .labels = encoder.targets(context, table, groups.first_rows)},
                             {.batch_sequences = 16, .shuffle = shuffle, .seed = 1});
  };
  data::ArraySource batches = source(known, true),
                    test = source(text::read_table_text(held_out), false);
  const Net net({context, 1}, encoder.width());
  nn::RegressionTask task(net);
  train::Trainer trainer(context, task, {.epochs = 12, .learning_rate = 1e-2});
  return trainer.fit(batches, &test).metric("mae");
}
