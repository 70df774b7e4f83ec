// Models of [N, T, C] whose batch does not stay in front: one hash for one process, ranks,
// micro-batches and stages, in every preset. The series are as long as a batch has rows, so a
// number of rows says nothing.

#include <soma/nn.hpp>
#include <soma/pipeline.hpp>

#include "train/parallel_run.hpp"

#include "catch.hpp"
#include "support/precisions.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

constexpr std::size_t rows = 40, batch = 16, steps = 16, width = 8;

struct GruRows {
  Var operator()(Tape& tape, const Var& x) const { return gru(tape, x).rows; }
  void collect(nn::Collector& collector) const { gru.collect(collector); }
  nn::Gru gru;
};

// Positions, dropout, a norm and a layer over [T, N, C], a recurrent layer, a convolution of each
// series as an image, weights over time, a mean over time.
nn::Sequential series(Context& context) {
  const nn::Scope root{context, 5};
  nn::Sequential model;
  model.add("positions", nn::PositionEmbedding(root / "positions", steps, width));
  model.add("type", [](Tape& tape, const Var& x) {
    const DType type = tape.options().activations;
    return type == DType::fp32 ? x : cast(tape, x, type);
  });
  model.add("drop", nn::Dropout(root / "drop", 0.2f));
  model.add("time", [](Tape& tape, const Var& x) { return transpose(tape, x, 0, 1); });
  model.add("norm", nn::LayerNorm(root / "norm", width));
  model.add("mix", nn::Linear(root / "mix", width, width));
  model.add("drop again", nn::Dropout(root / "drop again", 0.1f));
  model.add("merged", [](Tape& tape, const Var& x) {
    return reshape(tape, x, Shape{x.shape()[0] * x.shape()[1], width});
  });
  model.add("tokens", nn::Linear(root / "tokens", width, width));
  model.add("apart", [](Tape& tape, const Var& x) {
    return transpose(tape, reshape(tape, x, Shape{steps, x.shape()[0] / steps, width}), 0, 1);
  });
  model.add("gru", GruRows{nn::Gru(root / "gru", width, width)});
  model.add("image", [](Tape& tape, const Var& x) {
    return reshape(tape, x, Shape{x.shape()[0], 1, steps, width});
  });
  model.add("convolution", nn::Conv2d(root / "convolution", 1, 2, 3));
  model.add("flat", [](Tape& tape, const Var& x) { return mean(tape, x, 1u << 1); });
  model.add("weights", [](Tape& tape, const Var& x) {
    return mean(tape, mul(tape, x, softmax(tape, x, 1)), 1u << 1);
  });
  model.add("last", nn::Linear(root / "last", width - 2, 3, {.edge = true}));
  model.add("logits", [](Tape& tape, const Var& x) { return cast(tape, x, DType::fp32); });
  return model;
}

struct Topology {
  int replicas = 1;
  std::size_t microbatches = 1;
  std::vector<std::string> cuts{};
  bool plain = false;
};

struct Result {
  std::uint64_t bits = 0;
  std::string error{};
};

Result train_series(const Precision& precision, const Topology& topology) {
  const int ranks = topology.replicas * static_cast<int>(topology.cuts.size() + 1);
  InProcessGroup group(ranks);
  std::vector<Result> results(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Result& own = results[static_cast<std::size_t>(rank)];
      try {
        auto context = make_context({.threads = 1});
        InProcessCommunicator communicator(group, rank);
        communicator.set_time_limit(60);
        nn::Sequential model = series(context);
        nn::ClassificationTask<nn::Sequential> task(model, 3);
        std::vector<std::int64_t> labels;
        for (std::size_t i = 0; i < rows; ++i)
          labels.push_back(static_cast<std::int64_t>(i * i % 3));
        data::ArraySource source(context,
                                 nn::normal(context, Shape{rows, steps, width}, 1,
                                            {.seed = 4, .stream = stream_id("x", "test")}),
                                 Tensor::from(context, labels, Shape{rows}),
                                 {.batch_sequences = batch});
        train::TrainerOptions options{.epochs = 1, .learning_rate = 1e-2, .precision = precision};
        if (topology.plain) {
          train::TrainerBase trainer(context, task, options);
          trainer.fit(source, nullptr);
        } else {
          options.communicator = &communicator;
          options.pipeline.partitions = topology.cuts.size() + 1;
          options.pipeline.microbatches = topology.microbatches;
          options.pipeline.cuts = topology.cuts;
          train::PipelineTrainer trainer(context, task, options);
          trainer.fit(source, nullptr);
          trainer.gather(true);
        }
        own.bits = bits_of(context, task.parameters());
      } catch (const Error& error) {
        own.error = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  Result result = results.front();
  for (const Result& own : results) {
    if (result.error.empty()) result.error = own.error;
    CHECK((own.bits == result.bits || !own.error.empty()));
  }
  return result;
}

}  // namespace

TEST_CASE("batches that move between dimensions have one hash in every preset", "[unit]") {
  for (const Precision& preset : precision_presets()) {
    const Precision precision = with_convolutions(preset, {"convolution"});
    INFO(precision.name);
    const Result one = train_series(precision, {.plain = true});
    REQUIRE(one.error == "");
    // Scales of whole tensors are refused for micro-batches.
    const bool cuts_batches =
        precision.name != "fp8_current" && precision.name != "nvfp4" && precision.name != "cfp8";
    std::vector<Topology> all = {{.replicas = 1}, {.replicas = 2}, {.replicas = 4}};
    if (cuts_batches) {
      all.push_back({.microbatches = 2});
      all.push_back({.microbatches = 4});
      all.push_back({.replicas = 2, .microbatches = 2});
      // Cuts with the batch in dimension 1, and in a dimension with all rows several times.
      all.push_back({.microbatches = 2, .cuts = {"norm"}});
      all.push_back({.microbatches = 2, .cuts = {"tokens"}});
      all.push_back({.replicas = 2, .microbatches = 4, .cuts = {"convolution"}});
    }
    for (const Topology& topology : all) {
      INFO(topology.replicas << " replicas, " << topology.microbatches << " micro-batches, cut at "
                             << (topology.cuts.empty() ? "nothing" : topology.cuts.front()));
      const Result result = train_series(precision, topology);
      CHECK(result.error == "");
      CHECK(result.bits == one.bits);
    }
  }
}
