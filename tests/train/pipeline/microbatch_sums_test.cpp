// Gradients of micro-batches, summed as MicrobatchSums does, are those of the whole batch; in
// another order, or with ordinals of their own, they are not.

#include <soma/data/part.hpp>
#include <soma/parallel/microbatch_sums.hpp>

#include "support/errors.hpp"
#include "train/small_run.hpp"

#include "catch.hpp"

#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

enum class Sabotage { none, running_sum, ordinals };

// Gives each sum to its parameter.
struct Adding final : GradientReceiver {
  explicit Adding(Context& own) : context(own) {}
  void receive(const Var& parameter, Gradient addend) override {
    Gradient total = parameter.gradient();
    parameter.clear_gradient();
    context.built_in().accumulate(context, total, std::move(addend));
    parameter.set_gradient(std::move(total));
  }
  Context& context;
};

std::uint64_t hash_of(Context& context, const Parameters& parameters) {
  data::ContentHash hash;
  for (const Parameter& parameter : parameters) {
    const Gradient& gradient = parameter.var.gradient();
    const Tensor values = contiguous(context, gradient.values);
    hash.add_bytes({values.raw(), values.bytes()});
    if (gradient.sparse()) hash.add_list(gradient.rows.span<std::int64_t>());
  }
  return hash.value();
}

std::uint64_t gradients(std::size_t microbatches, Sabotage sabotage = Sabotage::none) {
  auto context = make_context({.threads = 1});
  SmallModel small(context);
  data::TokenSource source(context, token_lists(24), {.batch_sequences = 24, .shuffle = false});
  data::Batch batch;
  source.next(batch);
  Adding adding(context);
  MicrobatchSums sums(context, adding);
  Tape tape(context, {.seed = 5, .receiver = &sums});
  const auto weight = static_cast<float>(1 / small.task.loss_count(batch));
  for (std::size_t i = 0; i < microbatches; ++i) {
    const std::size_t each = 8 / microbatches;
    data::Batch part = data::part_of(context, batch, i * each, each);
    if (sabotage == Sabotage::ordinals) {
      std::vector<std::size_t> lengths;
      for (std::size_t k = 0; k < part.inputs.sequences.count(); ++k)
        lengths.push_back(part.inputs.sequences.length(k));
      part.inputs.sequences = Sequences::from_lengths(context, lengths, {.shards = each});
    }
    if (sabotage == Sabotage::running_sum)
      sums.begin(0, 1);  // each goes on by itself, and is added to those before
    else
      sums.begin(i, microbatches);
    tape.reset(3);
    tape.backward(small.task.forward(tape, part).loss, weight);
    sums.end();
  }
  // Parameters get sums of addends: another association than without micro-batches only where a
  // parameter has two, which these have not.
  return hash_of(context, small.task.parameters());
}

}  // namespace

TEST_CASE("micro-batches meet in the tree of the shards", "[unit]") {
  const std::uint64_t one = gradients(1);
  for (const std::size_t microbatches : {2u, 4u, 8u}) CHECK(gradients(microbatches) == one);
  CHECK(gradients(2, Sabotage::running_sum) == one);  // a sum of two has no order
  CHECK(gradients(4, Sabotage::running_sum) != one);
  CHECK(gradients(8, Sabotage::running_sum) != one);
  CHECK(gradients(4, Sabotage::ordinals) != one);
}

TEST_CASE("micro-batches with other gradients than the first are refused", "[unit]") {
  auto context = make_context({.threads = 1});
  const Var a = Var::parameter(context, Tensor::zeros(context, {2}));
  const Var b = Var::parameter(context, Tensor::zeros(context, {2}));
  const auto addend = [&] { return Gradient{Tensor::full(context, {2}, 1.0f), {}}; };
  Adding adding(context);
  const auto run = [&](const std::vector<const Var*>& second) {
    MicrobatchSums sums(context, adding);
    sums.begin(0, 2);
    sums.receive(a, addend());
    sums.receive(b, addend());
    sums.end();
    sums.begin(1, 2);
    for (const Var* parameter : second) sums.receive(*parameter, addend());
    sums.end();
  };
  CHECK_NOTHROW(run({&a, &b}));
  CHECK(a.gradient().values.span<float>()[0] == 2);
  CHECK(id_of([&] { run({&b, &a}); }) == "parallel.gradient");
  CHECK(id_of([&] { run({&a}); }) == "parallel.gradient");
  CHECK(id_of([&] { run({&a, &b, &b}); }) == "parallel.gradient");
}
