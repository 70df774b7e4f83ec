// NaN and infinity: they go where the formulas send them, and can be stopped where they arise.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <limits>
#include <vector>

using namespace soma;
using soma_test::contains;
using soma_test::floats;
using soma_test::gradient_values;
using soma_test::message_of;
using soma_test::values;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

// Two linear layers over three rows; one element of the input is given.
struct Model {
  Context context{{.threads = 1}, make_context().targets()};
  models::Mlp mlp{nn::Scope{context, 1}, std::vector<std::size_t>{4, 5, 2}, Activation::relu};
  Parameters parameters = nn::parameters(mlp);

  Var operator()(Tape& tape, float bad, std::size_t at) {
    const Tensor x = soma_test::random_tensor(context, Shape{3, 4}, "x");
    x.mutable_data<float>()[at] = bad;
    return mlp(tape, tape.constant(x));
  }
};

}  // namespace

TEST_CASE("a NaN reaches its own row of the results, and every weight's gradient", "[unit][tape]") {
  Model model;
  Tape tape(model.context);
  const Var y = model(tape, not_a_number, 5);  // row 1, column 1
  const std::vector<float> logits = values(model.context, y.value());
  for (std::size_t i = 0; i < 6; ++i) CHECK(std::isnan(logits[i]) == (i / 2 == 1));
  tape.backward(sum(tape, square(tape, y)));
  for (const float g : gradient_values(model.context, model.mlp.layers[1].weight))
    CHECK(std::isnan(g));
  CHECK_FALSE(optim::gradients_finite(model.context, model.parameters));
  CHECK(std::isnan(optim::gradient_norm(model.context, model.parameters)));
}

TEST_CASE("an infinity becomes what the formula says", "[unit][tape]") {
  Model model;
  Tape tape(model.context);
  const Var y = model(tape, infinity, 0);
  // ReLU leaves 0 or infinity, and the next layer adds infinities of the weights' signs.
  const std::vector<float> logits = values(model.context, y.value());
  for (std::size_t i = 0; i < 2; ++i) CHECK_FALSE(std::isfinite(logits[i]));
  for (std::size_t i = 2; i < 6; ++i) CHECK(std::isfinite(logits[i]));

  auto& context = model.context;
  const Var x = Var::parameter(context, floats(context, {0, 1, infinity, -infinity}));
  const std::vector<float> exponentials = values(context, exp(tape, x).value());
  CHECK(exponentials[2] == infinity);
  CHECK(exponentials[3] == 0);
  CHECK(values(context, reciprocal(tape, x).value()) == std::vector<float>{infinity, 1, 0, 0});
  CHECK(values(context, log(tape, x).value())[0] == -infinity);
  CHECK(std::isnan(values(context, log(tape, x).value())[3]));
  tape.backward(sum(tape, sqrt(tape, x)));
  const std::vector<float> g = gradient_values(context, x);
  CHECK(g[0] == infinity);
  CHECK(g[1] == 0.5f);
  CHECK(g[2] == 0);
  CHECK(std::isnan(g[3]));
}

TEST_CASE("the first operator that makes one is named, forward", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var w = Var::parameter(context, floats(context, {1, -2, 3}));
  Tape tape(context, {.stop_at_non_finite = true});
  const Var y = square(tape, w);
  CHECK(message_of([&] { exp(tape, mul(tape, y, log(tape, w))); }) ==
        "logarithm: result is [3] fp32 with NaN or infinity, wanted finite numbers "
        "[autograd.not_finite]");
  // Without the option it goes through.
  Tape silent(context);
  CHECK(std::isnan(values(context, exp(silent, log(silent, w)).value())[1]));
}

TEST_CASE("the first operator that makes one is named, backward", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var w = Var::parameter(context, floats(context, {1, 0, 4}));
  Tape tape(context, {.stop_at_non_finite = true});
  const Var one = tape.constant(floats(context, {1, 1, 1}));
  const Var loss = sum(tape, add(tape, mul(tape, sqrt(tape, mul(tape, w, one)), one), one));
  CHECK(std::isfinite(loss.value().item<float>()));
  CHECK(message_of([&] { tape.backward(loss); }) ==
        "square_root (backward): result is [3] fp32 with NaN or infinity, wanted finite numbers "
        "[autograd.not_finite]");
  CHECK_FALSE(w.gradient().defined());
  CHECK(tape.size() == 0);
}

TEST_CASE("recompute() is looked into, both ways", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var w = Var::parameter(context, floats(context, {1, 0, 4}));
  Tape tape(context, {.stop_at_non_finite = true});
  const auto root = [](Tape& inner, std::span<const Var> inputs) {
    return square(inner, sqrt(inner, inputs[0]));
  };
  const Var loss = sum(tape, recompute(tape, std::span<const Var>(&w, 1), root));
  // d sqrt at 0 is infinite, and infinity times d square at 0 is NaN.
  CHECK(message_of([&] { tape.backward(loss); }) ==
        "square_root (backward): result is [3] fp32 with NaN or infinity, wanted finite numbers "
        "[autograd.not_finite]");
  const Var below = tape.constant(floats(context, {-1}));
  CHECK(soma_test::id_of([&] { recompute(tape, std::span<const Var>(&below, 1), root); }) ==
        "autograd.not_finite");
}

TEST_CASE("a loss scale that is too large is found by the scaler", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var w = Var::parameter(context, floats(context, {1e30f, 2}));
  const Parameters parameters{{"w", w}};
  Tape tape(context);
  optim::LossScaler scaler({.initial = 1024});
  int skipped = 0;
  for (int i = 0; i < 12; ++i) {
    clear_gradients(parameters);
    tape.backward(sum(tape, mul(tape, w, tape.constant(floats(context, {1e37f, 1})))),
                  scaler.scale());
    skipped += scaler.update(optim::gradients_finite(context, parameters)) ? 0 : 1;
  }
  // 1e37 times 32 is finite, times 64 is not.
  CHECK(skipped == 5);
  CHECK(scaler.scale() == 32);
}

TEST_CASE("a gradient that is a number is one, whatever it goes through", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const auto gradients = [&](Var (*function)(Tape&, const Var&, const Var&), float a, float b,
                             float dy) {
    const Var x = Var::parameter(context, Tensor::full(context, Shape{1}, a)),
              z = Var::parameter(context, Tensor::full(context, Shape{1}, b));
    Tape tape(context);
    tape.backward(function(tape, x, z), Tensor::full(context, Shape{1}, dy));
    return std::pair(gradient_values(context, x)[0], gradient_values(context, z)[0]);
  };
  CHECK(gradients(div, 0, 1e-30f, 1e9f).second == 0);
  CHECK(gradients(div, 0, 1e-35f, 65536).second == 0);
  CHECK(std::abs(gradients(div, 1e-20f, 1e-12f, 1e28f).second / -1e32f - 1) < 1e-6f);
  const Var x = Var::parameter(context, Tensor::full(context, Shape{1}, 1e20f));
  Tape tape(context);
  tape.backward(reciprocal(tape, x), Tensor::full(context, Shape{1}, 1e38f));
  CHECK(std::abs(gradient_values(context, x)[0] / -0.01f - 1) < 1e-6f);
  // Where a maximum is NaN, its gradient goes to the NaN.
  for (const auto function : {maximum, minimum}) {
    CHECK(gradients(function, not_a_number, 1, 1) == std::pair(1.0f, 0.0f));
    CHECK(gradients(function, 1, not_a_number, 1) == std::pair(0.0f, 1.0f));
    CHECK(gradients(function, not_a_number, not_a_number, 1) == std::pair(1.0f, 0.0f));
  }
}

TEST_CASE("an infinite gradient stays out of units that relu has cut off", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  // The root and the logarithm have an infinite slope at 0, where relu is flat.
  for (const auto function : {static_cast<Var (*)(Tape&, const Var&)>(sqrt),
                              static_cast<Var (*)(Tape&, const Var&)>(log)}) {
    const Var x = Var::parameter(context, Tensor::from<float>(context, {-1, 0, 4}, Shape{3}));
    const Var zero = Var::parameter(context, Tensor::zeros(context, Shape{1}));
    for (const bool by_maximum : {false, true}) {
      Tape tape(context);
      const Var cut = by_maximum ? maximum(tape, zero, x) : relu(tape, x);
      tape.backward(sum(tape, function(tape, cut)));
      CHECK(gradient_values(context, x) == std::vector<float>{0, 0, 0.25f});
      x.clear_gradient();
    }
  }
  // A NaN input is not cut off: its gradient passes.
  const Var x = Var::parameter(context, Tensor::full(context, Shape{1}, not_a_number));
  Tape tape(context);
  tape.backward(relu(tape, x), Tensor::full(context, Shape{1}, 3.0f));
  CHECK(gradient_values(context, x)[0] == 3);
}

TEST_CASE("relu inside a linear layer lets no infinity into a row", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  LinearFormats formats;  // nothing is converted
  for (const bool quantized : {false, true})
    for (const float bad : {infinity, -infinity, not_a_number}) {
      const Var x = Var::parameter(context, Tensor::full(context, Shape{1, 2}, 1.0f));
      const Var weight =
          Var::parameter(context, Tensor::from<float>(context, {-1, 0, 1, 0}, Shape{2, 2}));
      const Var bias = Var::parameter(context, Tensor::zeros(context, Shape{2}));
      Tape tape(context);
      // The units give -1 and 1 to relu.
      const Var y =
          quantized
              ? tape.apply(*tape.operators().quantized_linear,
                           QuantizedLinearSetting{
                               .activation = Activation::relu, .formats = &formats, .record = true},
                           {x, weight, bias})
              : linear(tape, x, weight, bias, {.activation = Activation::relu});
      tape.backward(y, Tensor::from<float>(context, {bad, 1}, Shape{1, 2}));
      CHECK(gradient_values(context, x) == std::vector<float>{1, 0});
      CHECK(gradient_values(context, weight) == std::vector<float>{0, 0, 1, 1});
      CHECK(gradient_values(context, bias) == std::vector<float>{0, 1});
    }
}

TEST_CASE("of equal inputs the first takes the gradient of maximum and minimum", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  for (const auto function : {maximum, minimum})
    for (const float b : {0.0f, -0.0f}) {
      const Var x = Var::parameter(context, Tensor::zeros(context, Shape{1}));
      const Var z = Var::parameter(context, Tensor::full(context, Shape{1}, b));
      Tape tape(context);
      tape.backward(function(tape, x, z), Tensor::full(context, Shape{1}, 5.0f));
      CHECK(gradient_values(context, x)[0] == 5);
      CHECK(gradient_values(context, z)[0] == 0);
    }
}

TEST_CASE("images without pixels are refused", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  Tape tape(context);
  const Var x = tape.constant(Tensor::zeros(context, Shape{1, 1, 0, 4}));
  CHECK_THAT(message_of([&] { max_pool2d(tape, x, {.steps = {.pad_height = 1, .pad_width = 1}}); }),
             contains("one pixel at least [tensor.shape]"));
}
