// digits_batch_norm: a small convolutional network learns to read drawn digits (digits/digits.hpp)
// with the trainer, once with and once without batch normalisation. The statistics of its layers
// cover whole batches, so the weights are the same for every number of threads and of ranks.

#include "digits/digits.hpp"

#include <soma/curves.hpp>
#include <soma/data/array_source.hpp>
#include <soma/nn.hpp>
#include <soma/soma.hpp>
#include <soma/train.hpp>

#include <CLI/CLI.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

namespace {

struct Options {
  std::uint64_t epochs = 2;
  std::size_t images = 5000;
  std::string plot;
};

// Images [N, 1, 16, 16] to scores [N, 10]: twice a convolution, a norm, a ReLU, and 2 x 2 max
// pooling.
soma::nn::Sequential make_net(const soma::nn::Scope& scope, bool norms) {
  soma::nn::Sequential net;
  std::size_t channels = 1;
  for (const std::size_t next : {16, 32}) {
    const std::string block = std::to_string(next);
    // The norm has a bias, so that the convolution needs none.
    net.add("conv" + block,
            soma::nn::Conv2d(scope / ("conv" + block), channels, next, 3,
                             {.setting = {.pad_height = 1, .pad_width = 1}, .bias = !norms}));
    if (norms) net.add("norm" + block, soma::nn::BatchNorm2d(scope / ("norm" + block), next));
    net.add("relu" + block, [](soma::Tape& tape, const soma::Var& x) { return relu(tape, x); });
    net.add("pool" + block,
            [](soma::Tape& tape, const soma::Var& x) { return max_pool2d(tape, x); });
    channels = next;
  }
  net.add("flat", soma::nn::Flatten());
  net.add("head", soma::nn::Linear(scope / "head", channels * 16, digits::classes));
  return net;
}

soma::data::ArraySource source_of(soma::Context& context, std::size_t count, std::uint64_t seed,
                                  bool shuffle) {
  const digits::Digits made = digits::make_digits(count, seed);
  return soma::data::ArraySource(
      context,
      soma::Tensor::from<float>(context, made.images, {count, 1, digits::side, digits::side}),
      soma::Tensor::from<std::int32_t>(context, made.labels, {count}),
      {.batch_sequences = 50, .shuffle = shuffle, .seed = 1});
}

void run(const Options& options) {
  auto context = soma::make_context();
  soma::data::ArraySource training = source_of(context, options.images, 2, true),
                          held_out = source_of(context, 1000, 3, false);
  for (const bool norms : {true, false}) {
    const soma::nn::Sequential net = make_net({context, 1}, norms);
    soma::nn::ClassificationTask task(net, digits::classes);
    soma::train::Trainer trainer(context, task,
                                 {.epochs = options.epochs, .learning_rate = 2e-3});
    soma::train::RunCurves curves({.title = "digits", .file = norms ? options.plot : ""});
    trainer.add(curves);
    const soma::train::Report report = trainer.fit(training, &held_out);
    std::printf("%-21s accuracy %.4f, loss %.4f after %llu steps\n",
                norms ? "with batch norms" : "without", report.metric("accuracy"),
                report.evaluation_loss, static_cast<unsigned long long>(report.steps));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int count, char** given) {
  CLI::App app(
      "Trains a net with batch normalisation and one without on 16 x 16 images of digits.");
  Options options;
  app.add_option("--epochs", options.epochs, "passes over the training images")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}))
      ->capture_default_str();
  app.add_option("--images", options.images, "training images; 1000 more are held out")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}))
      ->capture_default_str();
  app.add_option("--plot", options.plot,
                 "SVG picture with the curves of the run with batch normalisation");
  try {
    app.parse(count, given);
    run(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {  // soma::Error is one
    std::fprintf(stderr, "digits_batch_norm: %s\n", error.what());
    return 1;
  }
}
