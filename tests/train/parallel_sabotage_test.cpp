// Tests the power of the comparison of bits: a step done by hand on several ranks has the gradients
// of one rank, and other gradients as soon as one precondition is left out.

#include <soma/optim/gradients.hpp>
#include <soma/train/many_ranks.hpp>

#include "train/parallel_run.hpp"

#include "catch.hpp"

using namespace soma;
using namespace soma_test;

namespace {

enum class Sabotage { none, order, ordinals, maxima, norm, rounding };

data::Batch batch_of(Context& context) {
  data::TokenSource source(context, token_lists(24), {.batch_sequences = 24, .shuffle = false});
  data::Batch batch;
  source.next(batch);
  return batch;
}

// Gradients and their norm.
std::uint64_t hash_of(Context& context, const Parameters& parameters, double norm) {
  data::ContentHash hash;
  for (const Parameter& parameter : parameters) {
    const Gradient gradient = parameter.gradient();
    const Tensor values = contiguous(context, gradient.values);
    hash.add_text(parameter.name + values.describe());
    hash.add_bytes({values.raw(), values.bytes()});
    if (gradient.sparse()) hash.add_list(gradient.rows.span<std::int64_t>());
  }
  hash.add_bytes(std::as_bytes(std::span(&norm, 1)));
  return hash.value();
}

std::uint64_t of_one_rank(const Precision& precision) {
  auto context = make_context({.threads = 1});
  SmallModel small(context);
  PrecisionState state(context, precision, 5);
  Tape tape(context, {.seed = 5, .activations = state.activations(), .precision = &state});
  tape.backward(small.task.forward(tape, batch_of(context)).loss);
  const Parameters& parameters = small.task.parameters();
  return hash_of(context, parameters, optim::gradient_norm(context, parameters));
}

// This rank's part, as the sabotage has it. With as many ranks as shards each part is one shard.
data::Batch part_for(Context& context, const data::Batch& batch, int rank, int ranks,
                     Sabotage sabotage) {
  // Ranks 1 and 2 change places: (0 + 2) + (1 + 3).
  if (sabotage == Sabotage::order && (rank == 1 || rank == 2)) rank = 3 - rank;
  const Part own = owned_shards(batch.inputs.sequences.shards(), rank, ranks);
  data::Batch part = data::part_of(context, batch, own.begin, own.count);
  if (sabotage == Sabotage::ordinals) {
    std::vector<std::size_t> lengths;
    for (std::size_t i = 0; i < part.inputs.sequences.count(); ++i)
      lengths.push_back(part.inputs.sequences.length(i));
    part.inputs.sequences = Sequences::from_lengths(context, lengths, {.shards = 1});
  }
  return part;
}

// Rank 0's.
std::uint64_t of_ranks(const Precision& precision, int ranks, Sabotage sabotage) {
  InProcessGroup group(ranks);
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto context = make_context({.threads = 1});
      InProcessCommunicator communicator(group, rank);
      train::ManyRanks others(context, communicator, {});
      SmallModel small(context);
      const Parameters& parameters = small.task.parameters();
      PrecisionState state(context, precision, 5);
      state.use_parts(sabotage == Sabotage::maxima ? GlobalMaximum{} : others.maximum());
      const data::Batch batch = batch_of(context);
      const data::Batch part = part_for(context, batch, rank, ranks, sabotage);
      TapeOptions options{.seed = 5, .activations = state.activations(), .precision = &state};
      const float weight = 1 / static_cast<float>(small.task.loss_count(batch));
      double norm = 0;
      if (sabotage == Sabotage::norm) {
        PrecisionState local(context, precision, 5);
        TapeOptions without = options;
        without.precision = &local;
        Tape alone(context, without);
        alone.backward(small.task.forward(alone, part).loss, weight);
        norm = optim::gradient_norm(context, parameters);
        clear_gradients(parameters);
      }
      // Rounds before the sum, which the reducer cannot know.
      struct Rounding final : GradientReceiver {
        Rounding(Context& own, GradientReceiver& next) : context(own), target(next) {}
        void receive(const Var& parameter, Gradient addend) override {
          for (const DType type : {DType::bf16, DType::fp32})
            addend.values = run(context, *context.built_in().cast, CastSetting{.dtype = type},
                                {addend.values})[0];
          target.receive(parameter, std::move(addend));
        }
        void complete(const Var& parameter, DType type) override {
          target.complete(parameter, type);
        }
        Context& context;
        GradientReceiver& target;
      } rounding(context, *others.receiver());
      options.receiver = others.receiver();
      if (sabotage == Sabotage::rounding) options.receiver = &rounding;
      Tape tape(context, options);
      tape.backward(small.task.forward(tape, part).loss, weight);
      others.finish_gradients();
      if (sabotage != Sabotage::norm) norm = optim::gradient_norm(context, parameters);
      hashes[static_cast<std::size_t>(rank)] = hash_of(context, parameters, norm);
    });
  for (std::thread& thread : threads) thread.join();
  return hashes.front();
}

}  // namespace

TEST_CASE("what the bits rest on: left out, they change", "[unit]") {
  for (const Precision& precision :
       {Precision::fp32(), Precision::bf16_sr(), Precision::fp8_current()}) {
    INFO(precision.name);
    const std::uint64_t one = of_one_rank(precision);
    CHECK(of_ranks(precision, 2, Sabotage::none) == one);
    CHECK(of_ranks(precision, 8, Sabotage::none) == one);
    CHECK(of_ranks(precision, 8, Sabotage::order) != one);
    CHECK(of_ranks(precision, 8, Sabotage::ordinals) != one);
    CHECK(of_ranks(precision, 8, Sabotage::norm) != one);
  }
  // Only scales of whole tensors know of other ranks.
  const Precision scaled = Precision::fp8_current(), narrow = Precision::bf16_sr();
  CHECK(of_ranks(scaled, 8, Sabotage::maxima) != of_one_rank(scaled));
  CHECK(of_ranks(narrow, 8, Sabotage::rounding) != of_one_rank(narrow));
}
