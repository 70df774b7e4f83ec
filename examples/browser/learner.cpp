// The functions that the page calls: a perceptron learns to read digits that it draws, in steps, so
// that the page can show how it gets on. build.sh compiles this for WebAssembly and puts it into
// digits.html.

#include "digits/digits.hpp"

#include <soma/soma.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#define EXPORTED(name) extern "C" __attribute__((export_name(#name), used))

namespace {

constexpr std::size_t batch_size = 50, training_images = 6000;
constexpr std::uint32_t planned_steps = 1200;  // the learning rate falls towards it

// The context comes first: all others have memory of it.
class Learner {
 public:
  explicit Learner(std::uint64_t seed)
      : seed_(seed),
        context_(soma::make_context()),
        model_({context_, seed, "mlp"}, std::span<const std::size_t>(sizes)),
        parameters_(soma::nn::parameters(model_)),
        optimizer_(context_, soma::optim::decay_groups(parameters_, 0.01f)),
        tape_(context_, {.seed = seed}),
        images_(training_images * digits::pixels) {}

  // Trains some steps; the mean loss of their images.
  float steps(int count) {
    double sum = 0;
    for (int i = 0; i < count; ++i) sum += step();
    return static_cast<float>(sum / count);
  }

  // The share of right answers for images that it has not learnt from.
  float accuracy(int count, std::uint32_t set) {
    const digits::Digits made = digits::make_digits(static_cast<std::size_t>(count), 2 * seed_ + 1,
                                                    std::uint64_t{set} << 20);
    const std::vector<int> answers = classify(made.images);
    int right = 0;
    for (std::size_t i = 0; i < answers.size(); ++i) right += answers[i] == made.labels[i] ? 1 : 0;
    return static_cast<float>(right) / static_cast<float>(count);
  }

  std::vector<int> classify(std::span<const float> images) {
    const std::size_t count = images.size() / digits::pixels;
    soma::Tape tape(context_, {.record = false, .training = false});
    const soma::Var logits = model_(
        tape, tape.constant(soma::Tensor::from<float>(context_, images, {count, digits::pixels})));
    std::vector<int> answers;
    for (std::size_t i = 0; i < count; ++i) {
      const std::span<const float> row = logits.value().select(0, i).span<float>();
      answers.push_back(static_cast<int>(std::ranges::max_element(row) - row.begin()));
    }
    return answers;
  }

 private:
  static constexpr std::size_t sizes[] = {digits::pixels, 256, 128, digits::classes};

  double step() {
    const std::size_t first = step_ * batch_size % training_images;
    std::vector<std::int32_t> labels(batch_size);
    for (std::size_t i = 0; i < batch_size; ++i) {
      labels[i] = digits::label(first + i);
      if (step_ * batch_size < training_images)  // the first time round
        digits::draw_image(2 * seed_, first + i, image(first + i));
    }
    tape_.reset(step_);
    const soma::Var rows = tape_.constant(
        soma::Tensor::from<float>(context_,
                                  std::span<const float>(images_.data() + first * digits::pixels,
                                                         batch_size * digits::pixels),
                                  {batch_size, digits::pixels}));
    const soma::Var loss = cross_entropy(
        tape_, model_(tape_, rows),
        tape_.constant(soma::Tensor::from<std::int32_t>(context_, labels, {batch_size})));
    tape_.backward(loss);
    const soma::optim::Schedule rate{.rate = 2e-3,
                                     .decay = soma::optim::Decay::cosine,
                                     .warmup = 40,
                                     .steps = planned_steps,
                                     .final_ratio = 0.05};
    const double norm = soma::optim::gradient_norm(context_, parameters_);
    optimizer_.step(
        {.rate = rate(step_), .gradient_factor = soma::optim::clipping_factor(norm, 1.0)});
    clear_gradients(parameters_);
    ++step_;
    return static_cast<double>(loss.value().item<float>());
  }

  std::span<float, digits::pixels> image(std::size_t index) {
    return std::span<float, digits::pixels>(images_.data() + index * digits::pixels,
                                            digits::pixels);
  }

  std::uint64_t seed_;
  soma::Context context_;
  soma::models::Mlp model_;
  soma::Parameters parameters_;
  soma::optim::AdamW optimizer_;
  soma::Tape tape_;
  std::vector<float> images_;  // [training_images, pixels]
  std::uint32_t step_ = 0;
};

std::optional<Learner> learner;
float picture_of_page[digits::pixels];

}  // namespace

// Begins anew.
EXPORTED(begin) void begin(std::uint32_t seed) { learner.emplace(seed); }

EXPORTED(steps) float steps(int count) { return learner->steps(count); }

EXPORTED(images_of_a_step) int images_of_a_step() { return static_cast<int>(batch_size); }

EXPORTED(accuracy) float accuracy(int count, std::uint32_t set) {
  return learner->accuracy(count, set);
}

// 16 x 16 grey values, row by row, which the page and answer() share.
EXPORTED(picture) float* picture() { return picture_of_page; }

// Draws a digit that the learner has not seen; returns which one it is.
EXPORTED(draw) int draw(std::uint32_t index) {
  digits::draw_image(991, index, std::span<float, digits::pixels>(picture_of_page));
  return digits::label(index);
}

// The digit that the learner sees in the picture.
EXPORTED(answer) int answer() { return learner->classify(picture_of_page)[0]; }
