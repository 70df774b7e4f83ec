// Four custom operators in a classifier of digits: an operator from two expressions
// (bent_line.hpp), an operator on tensors with attributes and saved values (standard_rows.hpp), an
// operator from a shared library (soft_limit.c), and an operator whose kernels are written for the
// accelerator's processors (relu.cpp). The program checks each operator, then trains the whole
// network.

#include "bent_line.hpp"
#include "standard_rows.hpp"

#include "digits/digits.hpp"

#include <soma/processors.hpp>
#include <soma/soma.hpp>
#include <soma/testing.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <span>
#include <string>
#include <vector>

namespace {

constexpr std::size_t side = 28, pixels = side * side;

// 784-120-84-10. The model finds operators by name, so that it need not know who registered them.
class Classifier {
 public:
  explicit Classifier(const soma::nn::Scope& scope)
      : standard_(soma::find_operator<example::Standard>(scope.context.operators(),
                                                         "example::standard_rows")),
        bend_(soma::find_operator(scope.context.operators(), "example::bent_line")),
        relu_(soma::find_operator(scope.context.operators(), "example::relu")),
        first_(scope / "first", pixels, 120),
        second_(scope / "second", 120, 84),
        third_(scope / "third", 84, digits::classes) {}

  // Images [N, 784] to scores [N, 10].
  soma::Var operator()(soma::Tape& tape, const soma::Var& images) const {
    const soma::Var x = standard_(tape, images, {.epsilon = 1e-2f});
    const soma::Var h = bend_(tape, first_(tape, x));
    return soma::apply(tape, "example::soft_limit", {third_(tape, relu_(tape, second_(tape, h)))});
  }
  void collect(soma::nn::Collector& collector) const {
    collector.part("first", first_);
    collector.part("second", second_);
    collector.part("third", third_);
  }

 private:
  soma::OperatorFunction<example::Standard> standard_;
  soma::OperatorFunction<> bend_, relu_;
  soma::nn::Linear first_, second_, third_;
};

bool check(soma::Context& context, const char* name, const soma::OperatorSamples& samples) {
  const soma::testing::Report report =
      soma::testing::check_operator(context, context.operators().at(name), samples);
  std::cout << report;
  return report.passed();
}

double accuracy(soma::Context& context, const Classifier& classifier, const digits::Digits& data) {
  soma::Tape tape(context, {.record = false, .training = false});
  const std::size_t count = data.labels.size();
  const soma::Tensor images = soma::Tensor::adopt(context, std::span(data.images), {count, pixels});
  const soma::Tensor scores = classifier(tape, tape.constant(images)).value();
  std::size_t right = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<const float> row = scores.select(0, i).span<float>();
    right += std::ranges::max_element(row) - row.begin() == data.labels[i] ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(count);
}

int run(const std::string& library, const std::string& kernels, std::size_t count, double wanted) {
  auto context = soma::make_context();
  example::register_bent_line(context);
  example::register_standard_rows(context);
  soma::load_operators(context, library);
  soma::load_operators(context, kernels);
  soma::register_differentiable(context.operators(), "example::relu", "kernels::relu",
                                {"kernels::relu_gradient"});

  soma::OperatorSamples rows;
  rows.samples = {{.name = "[3, 8]", .inputs = {{.shape = {3, 8}}}}};
  bool good =
      check(context, "example::bent_line", context.operators().at("example::bent_line").samples());
  good = check(context, "example::standard_rows", rows) && good;
  good = check(context, "example::soft_limit", rows) && good;
  good = check(context, "example::relu", rows) && good;

  constexpr std::uint32_t epochs = 3;
  constexpr std::size_t batch = 50;
  const digits::Digits training = digits::make_digits<side>(count, 2);
  const digits::Digits held_out = digits::make_digits<side>(1000, 3);
  const Classifier classifier({context, 1, "classifier"});
  const soma::Parameters parameters = soma::nn::parameters(classifier);
  soma::optim::AdamW optimizer(context, soma::optim::decay_groups(parameters, 0.01f));
  const std::size_t steps = epochs * (count / batch);
  const soma::optim::Schedule rate{.rate = 2e-3,
                                   .decay = soma::optim::Decay::cosine,
                                   .warmup = steps / 20,
                                   .steps = steps,
                                   .final_ratio = 0.01};
  soma::Tape tape(context);
  std::uint32_t step = 0;
  double reached = 0;
  for (std::uint32_t epoch = 1; epoch <= epochs; ++epoch) {
    for (std::size_t first = 0; first + batch <= count; first += batch, ++step) {
      const auto images = std::span(training.images).subspan(first * pixels, batch * pixels);
      const auto labels = std::span(training.labels).subspan(first, batch);
      tape.reset(step);
      const soma::Var scores =
          classifier(tape, tape.constant(soma::Tensor::adopt(context, images, {batch, pixels})));
      tape.backward(cross_entropy(tape, scores,
                                  tape.constant(soma::Tensor::adopt(context, labels, {batch}))));
      optimizer.step({.rate = rate(step)});
      clear_gradients(parameters);
    }
    reached = accuracy(context, classifier, held_out);
    std::printf("epoch %u: %.4f of 1000 held-out digits\n", epoch, reached);
  }
  // The counts are those of the last call, with all held-out digits.
  const double modelled =
      soma::processor_report(context.operators().at("kernels::relu")).nanoseconds;
  std::printf("relu of [1000, 84] on eight modelled processors: %.0f microseconds\n",
              modelled / 1000);
  return good && reached >= wanted ? 0 : 1;
}

}  // namespace

// custom_operator [library kernels [training images [least accuracy]]]
int main(int argc, char** argv) {
  try {
    const bool given = argc > 2;
    return run(given ? argv[1] : SOMA_EXAMPLE_LIBRARY, given ? argv[2] : SOMA_EXAMPLE_KERNELS,
               argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 4000,
               argc > 4 ? std::strtod(argv[4], nullptr) : 0.95);
  } catch (const std::exception& error) {  // soma::Error is one
    std::fprintf(stderr, "custom_operator: %s\n", error.what());
    return 1;
  }
}
