// Trainings of convolutions in narrow formats: the same bits from any number of threads and ranks,
// recomputed, and resumed; which convolutions are converted, and which precisions are refused.

#include <soma/data/array_source.hpp>
#include <soma/models/conv_net.hpp>
#include <soma/nn.hpp>
#include <soma/parallel/in_process.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "train/batch_norm/images.hpp"
#include "train/small_run.hpp"

#include <cstdint>
#include <exception>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

// Convolutions of all three kinds, a norm and a linear head. Nobody is an edge.
struct Net {
  explicit Net(const nn::Scope& root, bool recomputed)
      : first(root / "first", 2, 4, 3, {.setting = {.pad_height = 1, .pad_width = 1}}),
        norm(root / "norm", 4),
        wide(root / "wide", 4, 3, 3, {.setting = {{.stride_height = 2}, 1, 0}}),
        line(root / "line", 3, 5, 3, {.stride = 2, .pad = 1}),
        head(root / "head", 5, 3),
        again(recomputed) {}
  Var block(Tape& tape, const Var& x) const {
    return wide(tape, relu(tape, norm(tape, first(tape, x))));
  }
  Var operator()(Tape& tape, const Var& x) const {
    Var y = again ? recompute(tape, std::span<const Var>(&x, 1),
                              [this](Tape& inner, std::span<const Var> inputs) {
                                return block(inner, inputs[0]);
                              })
                  : block(tape, x);
    const Shape shape = y.shape();
    y = line(tape, reshape(tape, y, Shape{shape[0], shape[1], shape[2] * shape[3]}));
    return head(tape, mean(tape, y, 1u << 2));
  }
  void collect(nn::Collector& collector) const {
    collector.part("first", first);
    collector.part("norm", norm);
    collector.part("wide", wide);
    collector.part("line", line);
    collector.part("head", head);
  }
  nn::Conv2d first;
  nn::BatchNorm2d norm;
  nn::ConvTranspose2d wide;
  nn::Conv1d line;
  nn::Linear head;
  bool again;
};

struct How {
  int threads = 1;
  Communicator* communicator = nullptr;
  bool recomputed = false;
  std::size_t accumulate = 1;
  CheckpointStore* store = nullptr;
  bool resume = false;
  std::uint64_t stop_after = 0;
};

struct Result {
  std::uint64_t bits = 0;
  double loss = 0;
  std::string products{}, error{};
};

Result train_images(const Precision& precision, const How& how) {
  auto context = make_context({.threads = how.threads});
  const Net model(nn::Scope{context, how.resume ? 12u : 11u}, how.recomputed);
  nn::ClassificationTask task(model, 3);
  const LabelledImages data(context);
  // The last batch is short: some shards, and some ranks, have no image.
  data::ArraySource source(context, data.images, data.classes, {.batch_sequences = 20, .seed = 3});
  train::Trainer trainer(context, task,
                         {.epochs = 3,
                          .accumulate = how.accumulate,
                          .learning_rate = 1e-2,
                          .seed = 5,
                          .precision = precision,
                          .checkpoints = how.store,
                          .resume = how.resume,
                          .communicator = how.communicator});
  Follower follower(how.stop_after);
  trainer.add(follower);
  const train::Report report = trainer.fit(source, nullptr, &follower.stop);
  return {bits_of(context, task.parameters()), report.loss, to_string(trainer.precision()), {}};
}

std::vector<Precision> policies() {
  std::vector<Precision> all{Precision::tf32(), Precision::bf16(),         Precision::bf16_sr(),
                             Precision::fp16(), Precision::fp8_current(),  Precision::fp8_delayed(),
                             Precision::cfp8(), Precision::cfp8(9, 11, 20)};
  Precision draws = Precision::fp8_current();
  draws.name = "stochastic";
  draws.gemm_activations.rounding = draws.gemm_weights.rounding = draws.gemm_gradients.rounding =
      Rounding::stochastic;
  all.push_back(draws);
  return all;
}

}  // namespace

TEST_CASE("a training of convolutions has the same bits from all threads, and recomputed",
          "[unit]") {
  std::map<std::uint64_t, std::string> seen{{train_images(Precision::fp32(), {}).bits, "fp32"}};
  for (const Precision& precision : policies()) {
    INFO(precision.name);
    const Result one = train_images(precision, {});
    CHECK(seen.emplace(one.bits, precision.name).second);  // every recipe is another training
    CHECK(one.loss < 1.5);
    for (const int threads : {2, 7})
      CHECK(train_images(precision, {.threads = threads}).bits == one.bits);
    CHECK(train_images(precision, {.recomputed = true}).bits == one.bits);
  }
}

TEST_CASE("ranks that train convolutions have the bits of one process", "[unit]") {
  for (const Precision& precision : policies())
    for (const std::size_t accumulate : {1u, 2u}) {
      const Result one = train_images(precision, {.accumulate = accumulate});
      for (const int ranks : {2, 8}) {
        INFO(precision.name << ", " << ranks << " ranks, " << accumulate << " batches a step");
        InProcessGroup group(ranks);
        std::vector<Result> results(static_cast<std::size_t>(ranks));
        std::vector<std::thread> threads;
        for (int rank = 0; rank < ranks; ++rank)
          threads.emplace_back([&, rank] {
            Result& result = results[static_cast<std::size_t>(rank)];
            try {
              InProcessCommunicator communicator(group, rank);
              communicator.set_time_limit(60);
              result = train_images(precision,
                                    {.communicator = &communicator, .accumulate = accumulate});
            } catch (const std::exception& error) {
              result.error = error.what();
            }
          });
        for (std::thread& thread : threads) thread.join();
        for (const Result& result : results) {
          CHECK(result.error == "");
          CHECK(result.bits == one.bits);
        }
      }
    }
}

TEST_CASE("a resumed training of convolutions ends with the same weights", "[unit]") {
  auto context = make_context();
  for (const Precision& precision : policies()) {
    INFO(precision.name);
    const Result whole = train_images(precision, {});
    MemoryStore store(context);
    train_images(precision, {.store = &store, .stop_after = 4});
    CHECK(train_images(precision, {.store = &store, .resume = true}).bits == whole.bits);
  }
}

TEST_CASE("convolutions are products with a name and a reason", "[unit]") {
  Precision precision = Precision::fp8_current();
  precision.stored = {"w*"};
  const std::string converted =
      ": x fp8_e4m3fn, current tensor fp32 scale; weight fp8_e4m3fn, current tensor fp32 scale; "
      "gradient fp8_e5m2, current tensor fp32 scale (converted)";
  CHECK(train_images(precision, {}).products ==
        to_string(precision) + "\n  first" + converted + "\n  head" + converted + "\n  line" +
            converted + "\n  wide: x fp32; weight fp32; gradient fp32 (named in `stored`)");
}

TEST_CASE("the first convolution and the classifier of ConvNet are edges", "[unit]") {
  auto context = make_context({.threads = 1});
  PrecisionState state(context, Precision::fp8_current(), 1);
  const models::ConvNet model(
      {context},
      {.channels = 2, .height = 6, .width = 5, .labels = 3, .blocks = {4, 4}, .hidden = 8});
  Tape tape(context, {.precision = &state});
  model(tape, tape.constant(LabelledImages(context).images));
  std::string found;
  for (const PrecisionProduct& product : state.products())
    found += product.layer + " " + std::string(to_string(product.reason)) + "\n";
  CHECK(found == "block.0 edge\nblock.1 converted\nclassifier edge\nhidden converted\n");

  // With a convolution and a classifier only, nothing is converted.
  PrecisionState none(context, Precision::fp8_current(), 1);
  const nn::Conv2d first(nn::Scope{context} / "first", 2, 4, 3, {.edge = true});
  const nn::ConvTranspose2d last(nn::Scope{context} / "last", 4, 2, 3, {.edge = true});
  Tape two(context, {.precision = &none});
  const Var images = two.constant(LabelledImages(context).images);
  const Var y = last(two, first(two, images));
  CHECK(effect_of(none).warning.find("has no effect: of 2 products 2 are edges") !=
        std::string::npos);
  Tape plain(context);
  const Var z = last(plain, first(plain, plain.constant(images.value())));
  const std::span<const float> a = y.value().span<float>(), b = z.value().span<float>();
  CHECK(std::vector<float>(a.begin(), a.end()) == std::vector<float>(b.begin(), b.end()));
}

TEST_CASE("a convolution refuses scales of parts of a tensor and narrow sums, by its name",
          "[unit]") {
  Precision sums = Precision::bf16();
  sums.accumulation = {.format = formats::bf16, .chunk = 2, .promote = 16};
  const std::string wanted =
      " for a convolution (Precision::stored names layers that read stored numbers)";
  const auto refusal = [](const Precision& precision) {
    return message_of([&] { train_images(precision, {}); });
  };
  CHECK(refusal(Precision::fp8_rowwise()) ==
        "\"first\": gemm_activations.scaling.granularity is row, wanted tensor" + wanted +
            " [train.precision]");
  CHECK(refusal(Precision::fp8_block()).find("granularity is 1x128, wanted tensor" + wanted) !=
        std::string::npos);
  CHECK(refusal(Precision::mxfp8()).find("granularity is 32, wanted tensor" + wanted) !=
        std::string::npos);
  CHECK(refusal(sums) ==
        "\"first\": accumulation is bf16 after each 2, to fp32 after 16, wanted "
        "fp32" +
            wanted + " [train.precision]");
  // Named, they read stored numbers, and the linear layer is converted.
  Precision named = Precision::mxfp8();
  named.stored = {"first", "wide", "line"};
  const std::string products = train_images(named, {}).products;
  CHECK(products.find("\n  head: x fp8_e4m3fn, current 32 e8m0 scale") != std::string::npos);
  CHECK(products.find("\n  first: x fp32; weight fp32; gradient fp32 (named in `stored`)") !=
        std::string::npos);
}
