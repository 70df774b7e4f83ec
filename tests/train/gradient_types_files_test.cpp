// Presets, layers and topologies together: what stands between a layer and the loss (a mean, a
// transposed weight, the first rows) and beside it, must not show in the bits of one process, ranks
// and micro-batches, in any preset.

#include <soma/nn.hpp>
#include <soma/pipeline.hpp>

#include "train/parallel_run.hpp"

#include "catch.hpp"
#include "support/precisions.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

enum class Layer { linear, gru, lstm, attention, product, views, shared };

const char* name_of(Layer layer) {
  constexpr const char* names[] = {"linear",  "gru",   "lstm",  "attention",
                                   "product", "views", "shared"};
  return names[static_cast<std::size_t>(layer)];
}

// Tokens, the layer, the first row of each sequence, a hidden layer, and its mean beside logits.
struct Model {
  static constexpr std::size_t width = 8;
  Model(const nn::Scope& scope, Layer which)
      : layer(which),
        table(scope / "table", 24, width),
        before(scope / "before", width, 3 * width),
        gru(scope / "gru", width, width),
        lstm(scope / "lstm", width, width),
        weight(nn::initial_parameter(scope, Shape{width, width},
                                     {nn::Initial::uniform(0.5f, scope.draw("weight"))})),
        gain(nn::initial_parameter(scope, Shape{width},
                                   {nn::Initial::uniform(0.5f, scope.draw("gain"))})),
        hidden(scope / "hidden", width, width),
        last(scope / "last", width, 2, {.edge = true}) {}

  Var between(Tape& tape, const Var& x) const {
    switch (layer) {
      case Layer::linear:
        return hidden(tape, x);
      case Layer::gru:
        return gru(tape, x).rows;
      case Layer::lstm:
        return lstm(tape, x).rows;
      case Layer::attention:
        return attention(tape, before(tape, x), {.heads = 2});
      case Layer::product:
        return matmul(tape, x, weight);
      case Layer::views:
        return mul(tape,
                   matmul(tape, x, transpose(tape, reshape(tape, weight, weight.shape()), 0, 1)),
                   gain);
      case Layer::shared:
        return matmul(tape, tanh(tape, linear(tape, x, weight)), transpose(tape, weight, 0, 1));
    }
    return {};
  }
  Var operator()(Tape& tape, const Var& ids) const {
    Var h = table(tape, ids);
    if (const DType type = tape.options().activations; type != DType::fp32) h = cast(tape, h, type);
    h = sequence_first(tape, add(tape, h, between(tape, h)));
    h = hidden(tape, h);
    const Var middle = reshape(tape, mean(tape, h, 1u << 1), Shape{h.shape()[0], 1});
    return add(tape, cast(tape, last(tape, relu(tape, h)), DType::fp32), middle);
  }
  void collect(nn::Collector& collector) const {
    collector.part("table", table);
    if (layer == Layer::attention) collector.part("before", before);
    if (layer == Layer::gru) collector.part("gru", gru);
    if (layer == Layer::lstm) collector.part("lstm", lstm);
    if (layer >= Layer::product) collector.add("weight", weight);
    if (layer == Layer::views) collector.add("gain", gain);
    collector.part("hidden", hidden);
    collector.part("last", last);
  }

  Layer layer;
  nn::Embedding table;
  nn::Linear before;
  nn::Gru gru;
  nn::Lstm lstm;
  Var weight, gain;
  nn::Linear hidden, last;
};

// Images: a convolution, a transposed one, a mean over pixels.
struct Images {
  explicit Images(const nn::Scope& scope)
      : first(scope / "first", 1, 4, 3),
        second(scope / "second", 4, 3, 2),
        last(scope / "last", 3, 2) {}
  Var operator()(Tape& tape, const Var& x) const {
    Var h = x;
    if (const DType type = tape.options().activations; type != DType::fp32) h = cast(tape, h, type);
    h = second(tape, relu(tape, first(tape, h)));
    return cast(tape, last(tape, mean(tape, h, 12)), DType::fp32);
  }
  void collect(nn::Collector& collector) const {
    collector.part("first", first);
    collector.part("second", second);
    collector.part("last", last);
  }
  nn::Conv2d first;
  nn::ConvTranspose2d second;
  nn::Linear last;
};

struct Topology {
  int ranks = 0;                 // 0: no communicator
  std::size_t microbatches = 1;  // above 1: a pipeline of one stage
};

struct Result {
  std::uint64_t bits = 0;
  std::string error{};
};

train::TrainerOptions options_of(const Precision& precision, std::size_t accumulate) {
  return {.epochs = 1, .accumulate = accumulate, .learning_rate = 1e-2, .precision = precision};
}

template <class MakeModel, class Source>
std::uint64_t train_one(Context& context, const MakeModel& make, Source& source,
                        train::TrainerOptions options, Communicator* communicator,
                        std::size_t microbatches) {
  const auto model = make(nn::Scope{context, 5});
  nn::ClassificationTask task(model, 2);
  options.communicator = communicator;
  options.pipeline.microbatches = microbatches;
  std::optional<train::PipelineTrainer> pipeline;
  std::optional<train::TrainerBase> plain;
  if (microbatches > 1)
    pipeline.emplace(context, task, options);
  else
    plain.emplace(context, task, options);
  train::TrainerBase& trainer = microbatches > 1 ? *pipeline : *plain;
  trainer.fit(source, nullptr);
  return bits_of(context, task.parameters());
}

template <class Run>
Result on_ranks(const Topology& topology, const Run& run) {
  Result result;
  const int ranks = std::max(topology.ranks, 1);
  InProcessGroup group(ranks);
  std::vector<std::thread> threads;
  std::vector<Result> results(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Result& own = results[static_cast<std::size_t>(rank)];
      try {
        auto context = make_context({.threads = 1});
        InProcessCommunicator communicator(group, rank);
        communicator.set_time_limit(60);
        const bool alone = topology.ranks == 0 && topology.microbatches == 1;
        own.bits = run(context, alone ? nullptr : &communicator);
      } catch (const Error& error) {
        own.error = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const Result& own : results)
    if (!own.error.empty()) result.error = own.error;
  result.bits = results.front().bits;
  return result;
}

Result of_tokens(Layer layer, const Precision& precision, std::size_t accumulate,
                 const Topology& topology) {
  return on_ranks(topology, [&](Context& context, Communicator* communicator) {
    data::TokenSource source(context, token_lists(48), {.batch_sequences = 16, .seed = 3});
    return train_one(
        context, [&](const nn::Scope& scope) { return Model(scope, layer); }, source,
        options_of(precision, accumulate), communicator, topology.microbatches);
  });
}

Result of_images(const Precision& precision, std::size_t accumulate, const Topology& topology) {
  return on_ranks(topology, [&](Context& context, Communicator* communicator) {
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < 48; ++i) labels.push_back(i * i % 3 % 2);
    data::ArraySource source(
        context,
        nn::normal(context, Shape{48, 1, 6, 6}, 1, {.seed = 4, .stream = stream_id("x", "test")}),
        Tensor::from(context, labels, Shape{48}), {.batch_sequences = 16});
    return train_one(
        context, [](const nn::Scope& scope) { return Images(scope); }, source,
        options_of(precision, accumulate), communicator, topology.microbatches);
  });
}

// Scales of whole tensors are refused for micro-batches.
bool takes_microbatches(const Precision& precision) {
  return precision.name != "fp8_current" && precision.name != "nvfp4" && precision.name != "cfp8";
}

template <class Run>
void expect_one_hash(const Precision& precision, const Run& run) {
  const Result one = run(Topology{});
  CHECK(one.error == "");
  for (const int ranks : {1, 2, 4}) {
    INFO(ranks << " ranks");
    const Result many = run(Topology{.ranks = ranks});
    CHECK(many.error == "");
    CHECK(many.bits == one.bits);
  }
  if (!takes_microbatches(precision)) return;
  for (const std::size_t microbatches : {2u, 4u}) {
    INFO(microbatches << " micro-batches");
    const Result cut = run(Topology{.ranks = 1, .microbatches = microbatches});
    CHECK(cut.error == "");
    CHECK(cut.bits == one.bits);
  }
}

}  // namespace

TEST_CASE("every preset and layer: one process, ranks and micro-batches have one hash", "[unit]") {
  for (const Precision& precision : precision_presets())
    for (const Layer layer : {Layer::linear, Layer::gru, Layer::lstm, Layer::attention,
                              Layer::product, Layer::views, Layer::shared}) {
      INFO(precision.name << ", " << name_of(layer));
      expect_one_hash(precision, [&](const Topology& topology) {
        return of_tokens(layer, precision, 1, topology);
      });
    }
}

TEST_CASE("every preset: convolutions have one hash", "[unit]") {
  for (const Precision& preset : precision_presets()) {
    const Precision precision = with_convolutions(preset, {"first", "second"});
    INFO(precision.name);
    expect_one_hash(precision,
                    [&](const Topology& topology) { return of_images(precision, 1, topology); });
  }
}

TEST_CASE("steps of several batches have one hash, and are rounded once", "[unit]") {
  for (const Precision& precision : {Precision::bf16(), Precision::bf16_sr()}) {
    INFO(precision.name);
    expect_one_hash(precision, [&](const Topology& topology) {
      return of_tokens(Layer::shared, precision, 3, topology);
    });
    expect_one_hash(precision,
                    [&](const Topology& topology) { return of_images(precision, 3, topology); });
  }
}
