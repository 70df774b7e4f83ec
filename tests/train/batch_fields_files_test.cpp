// Ragged sequences with fields, changed by a function of batches: the same bits over ranks, stages,
// micro-batches, other numbers of threads, and a break.

#include <soma/data/array_source.hpp>
#include <soma/data/mapped_source.hpp>
#include <soma/data/prefetch.hpp>
#include <soma/nn.hpp>
#include <soma/parallel/in_process.hpp>
#include <soma/pipeline.hpp>
#include <soma/soma.hpp>
#include <soma/train.hpp>

#include "catch.hpp"
#include "train/small_run.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

// Rows with their marks through a recurrent layer; its last states beside a code's embedding.
struct Series {
  explicit Series(const nn::Scope& scope)
      : gru(scope / "gru", 4, 6), table(scope / "table", 9, 3), drop(scope / "drop", 0.25f) {}
  Var operator()(Tape& tape, const data::Batch& batch) const {
    const Sequences& sequences = batch.inputs.sequences;
    const Var marks = tape.constant({reshape_rows(batch.at("marks")), sequences});
    const Var rows = concatenate(tape, {tape.constant(batch.inputs), marks}, 1);
    const Var code = table(tape, tape.constant(batch.at("code")));
    return drop(tape, concatenate(tape, {gru(tape, rows).last(tape), code}, 1));
  }
  void collect(nn::Collector& collector) const {
    collector.part("gru", gru);
    collector.part("table", table);
  }
  static Tensor reshape_rows(const Tensor& marks) { return marks.reshape({marks.size(0), 1}); }
  nn::Gru gru;
  nn::Embedding table;
  nn::Dropout drop;
};

constexpr std::size_t count = 19;

data::Columns columns_of(Context& context) {
  DrawSequence draws({.seed = 5, .stream = 3});
  data::Columns columns;
  std::vector<std::int32_t> codes;
  std::vector<std::int64_t> labels;
  std::size_t rows = 0;
  for (std::size_t i = 0; i < count; ++i) {
    columns.lengths.push_back(1 + draws.below(6));
    rows += columns.lengths.back();
    codes.push_back(static_cast<std::int32_t>(draws.below(9)));
    labels.push_back(draws.below(2));
  }
  columns.inputs = nn::uniform(context, Shape{rows, 3}, 1, {.seed = 6});
  columns.labels = Tensor::from(context, std::span<const std::int64_t>(labels), Shape{count});
  columns.fields = {
      {"marks", nn::uniform(context, Shape{rows}, 1, {.seed = 7}), true},
      {"code", Tensor::from(context, std::span<const std::int32_t>(codes), Shape{count})}};
  return columns;
}

struct Way {
  int ranks = 1, threads = 1;
  std::size_t stages = 1, microbatches = 1;
  std::uint64_t stop_after = 0;
};

std::uint64_t rank_bits(const Way& way, int rank, Communicator* communicator,
                        CheckpointStore* store, std::uint64_t stop_after, bool resume) {
  auto context = make_context({.threads = way.threads});
  const nn::Scope scope{context, 3 + static_cast<std::uint64_t>(rank)};
  nn::Sequential layers;
  layers.add("series", Series(scope / "series"));
  layers.add("middle", nn::Linear(scope / "middle", 9, 8));
  layers.add("same", [](Tape& tape, const Var& x) { return tanh(tape, x); });
  layers.add("head", nn::Linear(scope / "head", 8, 2));
  nn::ClassificationTask task(layers, 2);
  data::ArraySource rows(context, columns_of(context), {.batch_sequences = 8, .seed = 3});
  data::MappedSource noisy(rows, "noise", 9, [](data::Batch& batch, const data::ItemDraws& draws) {
    const Sequences& sequences = batch.inputs.sequences;
    const std::span<float> numbers = batch.inputs.rows.mutable_span<float>();
    for (std::size_t i = 0; i < sequences.count(); ++i) {
      DrawSequence draw = draws(i);
      for (std::size_t j = 3 * sequences.begin(i); j < 3 * sequences.end(i); ++j)
        numbers[j] += static_cast<float>(draw.below(100)) * 0.001f;
    }
  });
  data::Prefetch source(noisy);
  train::TrainerOptions options{.epochs = 2,
                                .learning_rate = 0.02,
                                .seed = 5,
                                .checkpoints = store,
                                .resume = resume,
                                .communicator = communicator};
  options.pipeline.partitions = way.stages;
  options.pipeline.microbatches = way.microbatches;
  std::optional<train::PipelineTrainer> pipeline;
  std::optional<train::TrainerBase> plain;
  if (way.stages > 1 || way.microbatches > 1)
    pipeline.emplace(context, task, options);
  else
    plain.emplace(context, task, options);
  train::TrainerBase& trainer = pipeline ? *pipeline : *plain;
  Follower follower(rank == 0 ? stop_after : 0);
  trainer.add(follower);
  trainer.fit(source, nullptr, &follower.stop);
  if (pipeline) pipeline->gather(true);
  return bits_of(context, task.parameters());
}

std::uint64_t bits_after(const Way& way) {
  auto memory = make_context({.threads = 1});
  MemoryStore store(memory);
  const std::size_t all = static_cast<std::size_t>(way.ranks) * way.stages;
  if (all == 1 && way.microbatches == 1) {
    if (way.stop_after != 0) rank_bits(way, 0, nullptr, &store, way.stop_after, false);
    return rank_bits(way, 0, nullptr, way.stop_after != 0 ? &store : nullptr, 0,
                     way.stop_after != 0);
  }
  InProcessGroup group(static_cast<int>(all));
  std::vector<std::uint64_t> bits(all);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < all; ++rank)
    threads.emplace_back([&, rank] {
      InProcessCommunicator communicator(group, static_cast<int>(rank));
      communicator.set_time_limit(20);
      bits[rank] = rank_bits(way, static_cast<int>(rank), &communicator, nullptr, 0, false);
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::uint64_t other : bits) CHECK(other == bits[0]);
  return bits[0];
}

}  // namespace

TEST_CASE("fields and functions of batches keep the bits in every way to run", "[unit]") {
  const std::uint64_t one = bits_after({});
  CHECK(bits_after({.threads = 3}) == one);
  CHECK(bits_after({.ranks = 2}) == one);
  CHECK(bits_after({.ranks = 4, .threads = 2}) == one);
  CHECK(bits_after({.microbatches = 4}) == one);
  CHECK(bits_after({.stages = 2, .microbatches = 2}) == one);
  CHECK(bits_after({.ranks = 2, .stages = 2, .microbatches = 2}) == one);
  CHECK(bits_after({.stop_after = 2}) == one);
}
