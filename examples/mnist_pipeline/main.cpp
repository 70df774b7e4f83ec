// A small convolutional network learns digits as a pipeline: cut into two partitions, each batch
// into two micro-batches, interleaved, optimised for memory. If mpirun starts it, its processes are
// the ranks. Started alone, it trains three times, by itself and with threads as ranks, and shows
// that the weights are the same to the last bit.

#include <soma/data/idx.hpp>
#include <soma/io/state_hash.hpp>
#include <soma/parallel/in_process.hpp>
#include <soma/pipeline.hpp>
#include <soma/soma.hpp>
#ifdef MNIST_PIPELINE_MPI
#include <soma/mpi.hpp>
#endif

#include "digits/digits.hpp"

#include <CLI/CLI.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

struct Options {
  std::string images, labels, decision;
  std::size_t count = 4000, epochs = 2, partitions = 2, microbatches = 2;
};

void add_options(CLI::App& app, Options& options) {
  const CLI::Range some(std::size_t{1}, std::size_t{1'000'000});
  CLI::Option* images = app.add_option("--images", options.images, "IDX file, not compressed");
  CLI::Option* labels = app.add_option("--labels", options.labels, "IDX file, not compressed");
  images->needs(labels);
  labels->needs(images);
  app.add_option("--count", options.count, "number of generated digits, without --images")
      ->check(some)
      ->capture_default_str();
  app.add_option("--epochs", options.epochs)->check(some)->capture_default_str();
  app.add_option("--partitions", options.partitions,
                 "stages, one rank each; further ranks are replicas")
      ->check(some)
      ->capture_default_str();
  app.add_option("--microbatches", options.microbatches, "parts of a batch, a power of two")
      ->check(some)
      ->capture_default_str();
  app.add_option("--decision", options.decision, "file of the cuts between stages");
}

struct Dataset {
  soma::Tensor images;  // [count, 1, height, width], 0 to 1
  soma::Tensor labels;  // [count]
};

Dataset load(soma::Context& context, const Options& options) {
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  std::size_t height = digits::side, width = digits::side;
  if (options.images.empty()) {
    digits::Digits made = digits::make_digits(options.count, 1);
    pixels = std::move(made.images);
    labels.assign(made.labels.begin(), made.labels.end());
  } else {
    const soma::Tensor images = soma::data::load_idx(context, options.images);
    const soma::Tensor classes = soma::data::load_idx(context, options.labels);
    if (images.rank() != 3 || classes.rank() != 1 || images.size(0) != classes.size(0))
      throw std::runtime_error("images are " + images.describe() + " and labels " +
                               classes.describe() + ", wanted as many labels as images");
    height = images.size(1);
    width = images.size(2);
    for (const std::uint8_t grey : images.span<std::uint8_t>())
      pixels.push_back(static_cast<float>(grey) / 255);
    for (const std::uint8_t label : classes.span<std::uint8_t>()) labels.push_back(label);
  }
  const std::size_t count = labels.size();
  return {soma::Tensor::from(context, pixels, {count, 1, height, width}),
          soma::Tensor::from(context, labels, {count})};
}

// Three pieces; the model's call operator runs the same pieces.
class DigitNet {
 public:
  DigitNet(const soma::nn::Scope& scope, std::size_t height, std::size_t width)
      : convolution_(scope / "convolution", 1, 32, 3),
        hidden_(scope / "hidden", 32 * (height - 2) * (width - 2), 128),
        output_(scope / "output", 128, 10, {.edge = true}) {}

  soma::Var operator()(soma::Tape& tape, const soma::Var& images) const {
    return run(2, tape, run(1, tape, run(0, tape, images)));
  }
  soma::nn::Pieces pieces() const {
    soma::nn::Pieces pieces;
    for (std::size_t i = 0; i < 3; ++i) {
      const char* const names[] = {"convolution", "hidden", "output"};
      soma::Parameters own;
      soma::nn::Collector collector(own);
      if (i == 0) collector.part(names[i], convolution_);
      if (i != 0) collector.part(names[i], i == 1 ? hidden_ : output_);
      pieces.emplace_back(
          names[i], std::move(own),
          [this, i](soma::Tape& tape, const soma::Var& x, const soma::data::Batch& batch) {
            return run(i, tape, i == 0 ? tape.constant(batch.inputs) : x);
          });
    }
    return pieces;
  }
  void collect(soma::nn::Collector& collector) const {
    collector.part("convolution", convolution_);
    collector.part("hidden", hidden_);
    collector.part("output", output_);
  }

 private:
  soma::Var run(std::size_t piece, soma::Tape& tape, const soma::Var& x) const {
    if (piece == 0) return relu(tape, convolution_(tape, x));
    if (piece == 2) return output_(tape, x);
    const soma::Shape rows{x.shape()[0], hidden_.weight.shape()[1]};
    return hidden_(tape, reshape(tape, x, rows), {.activation = soma::Activation::relu});
  }

  soma::nn::Conv2d convolution_;
  soma::nn::Linear hidden_, output_;
};

struct Result {
  std::uint64_t hash = 0;
  soma::train::Report report{};
};

// Runs one rank; nullptr: a single process.
Result train(const Options& given, soma::Communicator* ranks, soma::train::Pipeline schedule) {
  auto context = soma::make_context({.threads = 1});
  const Dataset data = load(context, given);
  soma::nn::Later later;  // a rank makes only the parameters of its stage
  const soma::nn::Scope scope{context, 1, "", ranks == nullptr ? nullptr : &later};
  const DigitNet net(scope, data.images.size(2), data.images.size(3));
  soma::nn::ClassificationTask task(net, 10);
  soma::data::ArraySource batches(context, data.images, data.labels, {.batch_sequences = 64});
  soma::data::ArraySource test(context, data.images, data.labels,
                               {.batch_sequences = 64, .shuffle = false});
  soma::train::TrainerOptions options{.epochs = given.epochs, .learning_rate = 2e-3};
  if (ranks == nullptr) {
    soma::train::Trainer trainer(context, task, options);
    Result result{0, trainer.fit(batches, &test)};
    result.hash = soma::state_hash(soma::nn::state_dict(task.parameters()));
    return result;
  }
  options.communicator = ranks;
  options.pipeline = {.partitions = given.partitions,
                      .microbatches = given.microbatches,
                      .schedule = schedule,
                      .optimize = soma::train::Optimize::memory,
                      .decision = given.decision,
                      .later = &later};
  soma::train::PipelineTrainer trainer(context, task, options);
  Result result{0, trainer.fit(batches, &test)};
  // The first rank hashes the whole network, whose stages send it one tensor at a time.
  trainer.on_first([&](soma::TensorSource& tensors) { result.hash = soma::state_hash(tensors); });
  return result;
}

Result train_with_threads(const Options& options, soma::train::Pipeline schedule) {
  soma::InProcessGroup group(static_cast<int>(options.partitions));
  std::vector<std::thread> threads;
  Result first;
  std::mutex mutex;
  std::exception_ptr problem;
  for (int rank = 0; rank < group.size(); ++rank)
    threads.emplace_back([&, rank] {
      soma::InProcessCommunicator communicator(group, rank);
      try {
        Result result = train(options, &communicator, schedule);
        if (rank == 0) first = std::move(result);
      } catch (const std::exception& error) {
        communicator.abort(error.what());
        const std::lock_guard lock(mutex);
        if (problem == nullptr) problem = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (problem != nullptr) std::rethrow_exception(problem);
  return first;
}

void print(const char* name, const Result& result) {
  std::printf("%-12s loss %.6f  accuracy %.4f  weights %016llx\n", name, result.report.loss,
              result.report.metric("accuracy"), static_cast<unsigned long long>(result.hash));
  std::fputs(result.report.pipeline.c_str(), stdout);
}

#ifdef MNIST_PIPELINE_MPI
bool started_as_several() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* size = std::getenv(name); size != nullptr && std::atoi(size) > 1) return true;
  return false;
}
#endif

int run(const Options& options) {
#ifdef MNIST_PIPELINE_MPI
  if (started_as_several()) {
    soma::mpi::Environment environment;
    soma::mpi::Communicator ranks;
    const Result result = train(options, &ranks, soma::train::Pipeline::interleaved);
    if (ranks.rank() == 0) print("interleaved", result);
    return 0;
  }
#endif
  const Result alone = train(options, nullptr, soma::train::Pipeline::interleaved);
  print("one process", alone);
  const Result simple = train_with_threads(options, soma::train::Pipeline::simple);
  print("simple", simple);
  const Result interleaved = train_with_threads(options, soma::train::Pipeline::interleaved);
  print("interleaved", interleaved);
  const bool same = alone.hash == simple.hash && alone.hash == interleaved.hash;
  std::printf("%s\n", same ? "the same weights, to the last bit" : "the weights differ");
  return same ? 0 : 1;
}

}  // namespace

int main(int count, char** given) {
  CLI::App app(
      "Trains a small convolutional net on digits, as a pipeline of stages. Without mpirun it "
      "trains "
      "in one process, then with threads as ranks.",
      "mnist_pipeline");
  app.footer(
      "Exit code: 0; 1 if something failed or the weights differ; 2 if the options cannot be "
      "understood.");
  Options options;
  add_options(app, options);
  try {
    app.parse(count, given);
    return run(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mnist_pipeline: %s\n", error.what());
    return 1;
  }
}
