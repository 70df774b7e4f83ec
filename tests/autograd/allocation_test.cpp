// A training step that is no larger than those before asks for no memory: not from operator new,
// and not from the context's memory.

#include <soma/data/prefetch.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/allocations.hpp"
#include "support/tensors.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

using namespace soma;

namespace {

constexpr models::BertConfig config{.vocabulary = 101,
                                    .width = 48,
                                    .layers = 2,
                                    .heads = 4,
                                    .inner = 96,
                                    .positions = 64,
                                    .dropout = 0.1f,
                                    .attention_dropout = 0.1f};

models::BertConfig recomputing(bool recompute) {
  models::BertConfig result = config;
  result.recompute = recompute;
  return result;
}

struct Asked {
  std::uint64_t calls, blocks;
  friend bool operator==(const Asked&, const Asked&) = default;
};

// A training loop as a user writes one, with batches made here.
class Training {
 public:
  explicit Training(int threads, bool recompute = false)
      : context_(make_context({.threads = threads})),
        model_(nn::Scope{context_, 3}, recomputing(recompute), 3) {}

  void step(std::span<const std::size_t> lengths) {
    tape_.reset(step_);
    const Sequences sequences =
        Sequences::from_lengths(context_, lengths, {.first_ordinal = step_ * 100});
    const Tensor ids = Tensor::empty(context_, Shape{sequences.rows()}, DType::int64);
    auto* id = ids.mutable_data<std::int64_t>();
    for (std::size_t i = 0; i < sequences.rows(); ++i)
      id[i] = static_cast<std::int64_t>((i * 31 + step_ * 17) % config.vocabulary);
    const Tensor labels = Tensor::zeros(context_, Shape{lengths.size()}, DType::int32);

    const Var tokens = tape_.constant(ids, sequences);
    const Var logits = model_(tape_, tokens);
    tape_.backward(cross_entropy(tape_, logits, tape_.constant(labels)));
    const double norm = optim::gradient_norm(context_, parameters_);
    optimizer_.step({.rate = schedule_(step_), .gradient_factor = optim::clipping_factor(norm, 1)});
    clear_gradients(parameters_);
    ++step_;
  }
  Asked asked() const { return {soma_test::new_calls(), context_.memory_use().allocations}; }
  Context& context() { return context_; }

 private:
  Context context_;
  models::BertClassifier model_;
  Parameters parameters_ = nn::parameters(model_);
  optim::AdamW optimizer_{context_, optim::decay_groups(parameters_, 0.01f)};
  optim::Schedule schedule_{
      .rate = 1e-4, .decay = optim::Decay::linear, .warmup = 5, .steps = 1000};
  Tape tape_{context_, {.seed = 11}};
  std::uint32_t step_ = 0;
};

constexpr std::size_t sequences = 8, longest = 40;
using Lengths = std::array<std::size_t, sequences>;

Lengths lengths_of(std::uint32_t number) {
  Lengths lengths;
  for (std::size_t i = 0; i < sequences; ++i)
    lengths[i] = 1 + random_word({.seed = 1, .stream = number, .index = i}) % longest;
  return lengths;
}

}  // namespace

TEST_CASE("a training step no larger than those before asks for no memory", "[unit][allocation]") {
  // Two steps of the largest batch: the first makes the optimizer's states and starts the threads,
  // the second is the first that has all of them beside it. Then batches of every other kind.
  for (const int threads : {1, 2})
    for (const bool recomputes : {false, true}) {
      INFO(threads << " threads, recompute " << recomputes);
      Training training(threads, recomputes);
      Lengths largest;
      largest.fill(longest);
      for (int i = 0; i < 2; ++i) training.step(largest);
      const Asked before = training.asked();
      const std::size_t in_use = training.context().heap().bytes_in_use();
      for (std::uint32_t i = 0; i < 100; ++i) training.step(lengths_of(i));
      training.step(largest);
      training.step(std::array<std::size_t, 1>{1});
      CHECK(training.asked() == before);
      // And keeps none.
      CHECK(training.context().heap().bytes_in_use() == in_use);
    }
}

namespace {

// The same batch again and again, for which nothing is asked.
class OneBatch final : public data::BatchSource {
 public:
  bool next(data::Batch& batch) override {
    batch = data::Batch();
    ++position_.batch;
    return true;
  }
  data::Position position() const override { return position_; }
  void seek(data::Position position) override { position_ = position; }
  std::uint64_t batches(std::uint64_t) const override { return 0; }
  std::uint64_t hash() const override { return 1; }
  std::size_t largest_rows() const override { return 1; }
  std::size_t largest_sequences() const override { return 1; }

 private:
  data::Position position_{};
};

}  // namespace

TEST_CASE("batches made in the background wait in places that are there", "[unit][allocation]") {
  OneBatch source;
  data::Prefetch prefetched(source, 3);
  data::Batch batch;
  CHECK(prefetched.next(batch));
  const std::uint64_t before = soma_test::new_calls();
  bool all = true;
  for (int i = 0; i < 1000; ++i) all = prefetched.next(batch) && all;
  CHECK(soma_test::new_calls() == before);
  CHECK(all);
}

TEST_CASE("images, other optimizers and watched numbers ask for no memory either",
          "[unit][allocation]") {
  auto context = make_context({.threads = 2});
  const models::ConvNet model(nn::Scope{context, 1},
                              {.height = 12, .width = 12, .labels = 4, .blocks = {4, 6}});
  const Parameters parameters = nn::parameters(model);
  const optim::StepStorage storage{.state = DType::bf16,
                                   .state_rounding = Rounding::stochastic,
                                   .weight_rounding = Rounding::stochastic};
  optim::Sgd sgd(context, parameters, {.momentum = 0.9f, .storage = storage});
  optim::Lamb lamb(context, optim::decay_groups(parameters, 0.01f), {.storage = storage});
  optim::LossScaler scaler;
  Tape tape(context, {.stop_at_non_finite = true});
  const auto step = [&](std::uint32_t number, std::size_t images) {
    tape.reset(number);
    const Var x = tape.constant(
        Tensor::full(context, Shape{images, 1, 12, 12}, static_cast<float>(number % 7)));
    const Var labels = tape.constant(Tensor::zeros(context, Shape{images}, DType::int32));
    tape.backward(cross_entropy(tape, model(tape, x), labels), scaler.scale());
    if (scaler.update(optim::gradients_finite(context, parameters))) {
      const optim::Step how{.rate = 1e-3, .gradient_factor = scaler.inverse()};
      sgd.step(how);
      lamb.step(how);
    }
    clear_gradients(parameters);
  };
  for (std::uint32_t i = 0; i < 2; ++i) step(i, 20);
  const Asked before{soma_test::new_calls(), context.memory_use().allocations};
  for (std::uint32_t i = 2; i < 30; ++i) step(i, 1 + i * 7 % 20);
  CHECK(Asked{soma_test::new_calls(), context.memory_use().allocations} == before);
}

TEST_CASE("an answer of a net asks for no memory", "[unit][allocation]") {
  auto context = make_context({.threads = 1});
  const std::size_t sizes[] = {8, 64, 64, 4};
  const models::Mlp net({context, 1}, sizes);
  Tape tape(context, {.record = false, .training = false});
  const Tensor x = Tensor::zeros(context, {1, 8});
  float sum = 0;
  const auto answer = [&](int number) {
    tape.reset(0);
    x.mutable_span<float>()[0] = static_cast<float>(number);
    sum += net(tape, tape.constant(x)).value().span<float>()[0];
  };
  answer(0);
  const Asked before{soma_test::new_calls(), context.memory_use().allocations};
  for (int i = 1; i < 50; ++i) answer(i);
  CHECK(Asked{soma_test::new_calls(), context.memory_use().allocations} == before);
  CHECK(sum != 0);
}
