// Learns to read digits that it draws itself (digits.hpp): with a multi-layer perceptron, then with
// a convolutional network. The loop to copy is train(); around it are the data, the networks and
// the output. The weights are the same to the last bit for any number of threads: on one core
// (taskset -c 0 build/release/bin/digits) the program prints the same hashes.

#include "digits.hpp"

#include <soma/data/array_source.hpp>
#include <soma/data/content_hash.hpp>
#include <soma/soma.hpp>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

// Change these first.
constexpr std::size_t training_images = 10000, held_out_images = 2000;
constexpr std::uint64_t epochs = 3;
constexpr std::uint64_t seed = 1;  // of the images, the initial weights and the order

// ---- data

struct Dataset {
  soma::Tensor images;  // [count, 1, side, side]
  soma::Tensor labels;  // [count]

  std::size_t count() const { return labels.elements(); }
  // Views of images first .. last - 1.
  Dataset slice(std::size_t first, std::size_t last) const {
    return {images.slice(0, first, last), labels.slice(0, first, last)};
  }
};

soma::Shape image_shape(std::size_t count) { return {count, 1, digits::side, digits::side}; }

Dataset make_dataset(soma::Context& context, std::size_t count, std::uint64_t images) {
  const digits::Digits made = digits::make_digits(count, images);
  return {soma::Tensor::from<float>(context, made.images, image_shape(count)),
          soma::Tensor::from<std::int32_t>(context, made.labels, {count})};
}

// ---- networks

struct Network {
  std::string name;
  soma::Parameters parameters;
  std::function<soma::Var(soma::Tape&, const soma::Var& images)> logits;  // [count, classes]
};

Network make_mlp(soma::Context& context) {
  const std::size_t sizes[] = {digits::pixels, 256, 128, digits::classes};
  const soma::models::Mlp model({context, seed, "mlp"}, sizes);
  return {"mlp", soma::nn::parameters(model), [model](soma::Tape& tape, const soma::Var& images) {
            return model(tape, reshape(tape, images, {images.shape()[0], digits::pixels}));
          }};
}

Network make_convnet(soma::Context& context) {
  const soma::models::ConvNet model({context, seed, "convnet"}, {.height = digits::side,
                                                                 .width = digits::side,
                                                                 .labels = digits::classes,
                                                                 .blocks = {16, 32},
                                                                 .hidden = 64});
  return {"convnet", soma::nn::parameters(model), model};
}

// ---- training

// The network's prediction for each image.
std::vector<int> classify(soma::Context& context, const Network& network, const Dataset& data) {
  constexpr std::size_t batch = 250;
  soma::Tape tape(context, {.record = false, .training = false});
  std::vector<int> answers;
  for (std::size_t first = 0; first < data.count(); first += batch) {
    const Dataset part = data.slice(first, std::min(first + batch, data.count()));
    const soma::Var logits = network.logits(tape, tape.constant(part.images));
    for (std::size_t i = 0; i < part.count(); ++i) {
      const std::span<const float> row = logits.value().select(0, i).span<float>();
      answers.push_back(static_cast<int>(std::max_element(row.begin(), row.end()) - row.begin()));
    }
  }
  return answers;
}

double accuracy(const std::vector<int>& answers, const Dataset& data) {
  const std::span<const std::int32_t> labels = data.labels.span<std::int32_t>();
  std::size_t right = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) right += answers[i] == labels[i] ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(answers.size());
}

struct Result {
  std::string name;
  std::vector<int> answers{};  // the answers for the held-out images
  double loss = 0, accuracy = 0, seconds = 0;
};

Result train(soma::Context& context, Network& network, const Dataset& training,
             const Dataset& held_out) {
  constexpr std::size_t batch_size = 50;
  soma::data::ArraySource source(context, training.images, training.labels,
                                 {.batch_sequences = batch_size, .seed = seed});
  const auto batches = static_cast<std::size_t>(source.batches(0));
  const soma::optim::Schedule rate{.rate = 2e-3,
                                   .decay = soma::optim::Decay::cosine,
                                   .warmup = batches / 4,
                                   .steps = batches * epochs,
                                   .final_ratio = 0.01};
  soma::optim::AdamW optimizer(context, soma::optim::decay_groups(network.parameters, 0.01f));
  soma::Tape tape(context, {.seed = seed});
  Result result{.name = network.name};
  std::uint32_t step = 0;

  std::printf("\n%s\n  epoch     loss  held-out  images/s     rate\n", network.name.c_str());
  for (std::uint64_t epoch = 1; epoch <= epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    double total_loss = 0;
    for (soma::data::Batch batch; source.next(batch); ++step) {
      // Every step: forward, backward, and an update of the weights along the gradients. The number
      // of the step is the key of dropout's draws, in networks with dropout.
      tape.reset(step);
      const soma::Var logits = network.logits(tape, tape.constant(batch.inputs.rows));
      const soma::Var loss = cross_entropy(tape, logits, tape.constant(batch.labels));
      tape.backward(loss);
      const double norm = soma::optim::gradient_norm(context, network.parameters);
      optimizer.step(
          {.rate = rate(step), .gradient_factor = soma::optim::clipping_factor(norm, 1.0)});
      clear_gradients(network.parameters);

      const auto count = static_cast<double>(batch.labels.elements());
      total_loss += static_cast<double>(loss.value().item<float>()) * count;
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;

    const auto images = static_cast<double>(training.count());
    result.seconds += taken.count();
    result.loss = total_loss / images;
    result.answers = classify(context, network, held_out);
    result.accuracy = accuracy(result.answers, held_out);
    std::printf("  %5" PRIu64 "  %7.4f    %.4f  %8.0f  %.1e\n", epoch, result.loss, result.accuracy,
                images / taken.count(), rate(step - 1));
    std::fflush(stdout);
  }
  return result;
}

// ---- results

// Returns a hash of all weights, to compare runs.
std::uint64_t hash(const soma::Parameters& parameters) {
  soma::data::ContentHash result;
  for (const soma::Parameter& parameter : parameters)
    result.add_list(parameter.value().span<float>());
  return result.value();
}

// Prints images side by side, two rows of pixels in one of text, and the networks' predictions
// below each.
void print_images(const Dataset& data, std::size_t first, std::size_t last,
                  const std::vector<Result>& results) {
  constexpr std::string_view shades = " .-+*#@";
  const soma::View<const float> grey = data.images.view<float>();
  for (std::size_t y = 0; y < digits::side; y += 2) {
    for (std::size_t i = first; i < last; ++i) {
      for (std::size_t x = 0; x < digits::side; ++x) {
        const float mean = (grey(i, 0, y, x) + grey(i, 0, y + 1, x)) / 2;
        std::putchar(shades[static_cast<std::size_t>(mean * 6.99f)]);
      }
      std::fputs(i + 1 < last ? "  " : "\n", stdout);
    }
  }
  for (const Result& result : results) {
    for (std::size_t i = first; i < last; ++i)
      std::printf("%8s: %-6d  ", result.name.c_str(), result.answers[i]);
    std::putchar('\n');
  }
}

void run() {
  auto context = soma::make_context();
  // Two seeds, so no image is in both sets.
  const Dataset training = make_dataset(context, training_images, 2 * seed);
  const Dataset held_out = make_dataset(context, held_out_images, 2 * seed + 1);

  std::vector<Network> networks{make_mlp(context), make_convnet(context)};
  std::vector<Result> results;
  for (Network& network : networks) results.push_back(train(context, network, training, held_out));

  std::printf("\nheld-out images, and the answers of the networks\n\n");
  print_images(held_out, 0, 5, results);
  print_images(held_out, 5, 10, results);

  std::printf("\n%-8s  parameters     loss  held-out  seconds  hash of the weights\n", "network");
  for (std::size_t i = 0; i < networks.size(); ++i) {
    std::size_t elements = 0;
    for (const soma::Parameter& parameter : networks[i].parameters)
      elements += parameter.value().elements();
    std::printf("%-8s  %10zu  %7.4f    %.4f  %7.1f  %016" PRIx64 "\n", results[i].name.c_str(),
                elements, results[i].loss, results[i].accuracy, results[i].seconds,
                hash(networks[i].parameters));
  }
}

}  // namespace

int main() {
  try {
    run();
  } catch (const std::exception& error) {  // soma::Error is one
    std::fprintf(stderr, "digits: %s\n", error.what());
    return 1;
  }
}
