// Tape: gradients of composed expressions, who collects them, and what a recording is.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <vector>

using namespace soma;
using soma_test::bits;
using soma_test::floats;
using soma_test::gradient_values;
using soma_test::random_parameter;
using soma_test::values;

namespace {

using Loss = std::function<Var(Tape&, const std::vector<Var>&)>;
using DoubleLoss = std::function<double(const std::vector<std::vector<double>>&)>;

// Gradients by the tape against central differences of the same formula in double, element by
// element. With h = 1e-5 the differences are good to about 1e-9; what remains is fp32: `depth`
// roundings, each of at most 2^-24 of the largest magnitude that occurs, `largest`.
void check_gradients(const std::vector<Shape>& shapes, const Loss& loss, const DoubleLoss& formula,
                     double depth, double largest) {
  auto context = make_context({.threads = 1});
  std::vector<Var> parameters;
  std::vector<std::vector<double>> numbers;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    parameters.push_back(random_parameter(context, shapes[i], "p" + std::to_string(i)));
    const std::vector<float> all = values(context, parameters.back().value());
    numbers.emplace_back(all.begin(), all.end());
  }
  Tape tape(context);
  const Var result = loss(tape, parameters);
  CHECK(std::fabs(static_cast<double>(result.value().item<float>()) - formula(numbers)) <=
        depth * largest * 0x1p-24);
  tape.backward(result);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::vector<float> gradient = gradient_values(context, parameters[i]);
    for (std::size_t j = 0; j < gradient.size(); ++j) {
      constexpr double h = 1e-5;
      const double middle = numbers[i][j];
      numbers[i][j] = middle + h;
      const double above = formula(numbers);
      numbers[i][j] = middle - h;
      const double below = formula(numbers);
      numbers[i][j] = middle;
      INFO("parameter " << i << " element " << j);
      CHECK(std::fabs(static_cast<double>(gradient[j]) - (above - below) / (2 * h)) <=
            depth * largest * 0x1p-24 + 1e-8);
    }
  }
}

}  // namespace

TEST_CASE("gradients of element-wise expressions are those of the formula", "[unit][tape]") {
  // mean((a b + sin a)^2 / (3 + b)) with a [4, 5] and b [5] repeated.
  check_gradients(
      {Shape{4, 5}, Shape{5}},
      [](Tape& tape, const std::vector<Var>& p) {
        const Var three = tape.constant(Tensor::scalar(tape.context(), 3.0f));
        const Var top = square(tape, add(tape, mul(tape, p[0], p[1]), sin(tape, p[0])));
        return mean(tape, div(tape, top, add(tape, p[1], three)));
      },
      [](const std::vector<std::vector<double>>& p) {
        double total = 0;
        for (std::size_t i = 0; i < 20; ++i) {
          const double a = p[0][i], b = p[1][i % 5], top = a * b + std::sin(a);
          total += top * top / (3 + b);
        }
        return total / 20;
      },
      40, 4);
}

TEST_CASE("gradients of products, views and rows are those of the formula", "[unit][tape]") {
  // Rows of x times the transposed w, halves of which are exchanged and summed through exp.
  check_gradients(
      {Shape{3, 4}, Shape{6, 4}},
      [](Tape& tape, const std::vector<Var>& p) {
        const Var y = matmul(tape, p[0], transpose(tape, p[1], 0, 1));
        const Var turned = concatenate(tape, {slice(tape, y, 1, 3, 6), slice(tape, y, 1, 0, 3)}, 1);
        return sum(tape, mul(tape, reshape(tape, exp(tape, turned), Shape{18}),
                             reshape(tape, y, Shape{18})));
      },
      [](const std::vector<std::vector<double>>& p) {
        double total = 0;
        for (std::size_t i = 0; i < 3; ++i) {
          double y[6] = {};
          for (std::size_t j = 0; j < 6; ++j)
            for (std::size_t k = 0; k < 4; ++k) y[j] += p[0][i * 4 + k] * p[1][j * 4 + k];
          for (std::size_t j = 0; j < 6; ++j) total += std::exp(y[(j + 3) % 6]) * y[j];
        }
        return total;
      },
      60, 30);
}

TEST_CASE("a variable that is used several times gets the sum", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var x = Var::parameter(context, floats(context, {1, -2, 3}));
  Tape tape(context);
  // x^2 + x^2 + x twice as both inputs: 4 x + 1 + 1 ... whole numbers, so exact.
  const Var twice = square(tape, x);
  tape.backward(sum(tape, add(tape, add(tape, twice, twice), add(tape, x, x))));
  CHECK(gradient_values(context, x) == std::vector<float>{6, -6, 14});
  // One operator with the same variable in both places: d(x x) = 2 x.
  Var(x).clear_gradient();
  tape.backward(sum(tape, mul(tape, x, x)));
  CHECK(gradient_values(context, x) == std::vector<float>{2, -4, 6});
}

TEST_CASE("gradients that came as one tensor are not added into each other", "[unit][tape]") {
  // add() hands the same gradient to both inputs: adding to one must not change the other.
  auto context = make_context({.threads = 1});
  const Var a = Var::parameter(context, floats(context, {1, 2}));
  const Var b = Var::parameter(context, floats(context, {3, 4}));
  Tape tape(context);
  const Tensor seed = floats(context, {1, 10});
  for (int i = 0; i < 3; ++i) tape.backward(add(tape, a, b), seed);
  tape.backward(neg(tape, b), seed);
  CHECK(gradient_values(context, a) == std::vector<float>{3, 30});
  CHECK(gradient_values(context, b) == std::vector<float>{2, 20});
  CHECK(values(context, seed) == std::vector<float>{1, 10});
}

TEST_CASE("parameters collect from several tapes that live at once", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var w = Var::parameter(context, floats(context, {2, 5}));
  Tape first(context), second(context);
  const Var a = sum(first, square(first, w));  // 2 w
  const Var b = sum(second, mul(second, w, second.constant(floats(context, {7, 11}))));
  second.backward(b);
  CHECK(gradient_values(context, w) == std::vector<float>{7, 11});
  first.backward(a);
  CHECK(gradient_values(context, w) == std::vector<float>{11, 21});
}

TEST_CASE("passes add up until they are cleared, each with its scale", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var w = Var::parameter(context, floats(context, {2, 5}));
  Parameters parameters{{"w", w}};
  Tape tape(context);
  for (const float scale : {1.0f, 0.5f, 4.0f}) tape.backward(sum(tape, square(tape, w)), scale);
  CHECK(gradient_values(context, w) == std::vector<float>{22, 55});
  clear_gradients(parameters);
  CHECK_FALSE(w.gradient().defined());
  tape.backward(sum(tape, w));
  CHECK(gradient_values(context, w) == std::vector<float>{1, 1});
}

TEST_CASE("any result can be differentiated with a gradient of its shape", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var w = Var::parameter(context, floats(context, {2, 5, -1}));
  Tape tape(context);
  tape.backward(square(tape, w), floats(context, {1, 0, -3}));
  CHECK(gradient_values(context, w) == std::vector<float>{4, 0, 6});
}

TEST_CASE("what is detached has its value and no history", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var w = Var::parameter(context, floats(context, {2, 5}));
  Tape tape(context);
  const Var y = square(tape, w), still = tape.detach(y);
  CHECK_FALSE(still.requires_gradient());
  CHECK(still.is_leaf());
  CHECK(still.value().storage() == y.value().storage());
  tape.backward(sum(tape, mul(tape, w, still)));  // w^3 with w^2 held: w^2
  CHECK(gradient_values(context, w) == std::vector<float>{4, 25});
}

TEST_CASE("nothing is recorded inside of no_gradient, nor with record = false", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var w = Var::parameter(context, floats(context, {2, 5}));
  Tape tape(context);
  Var inside;
  {
    const auto outer = tape.no_gradient();
    CHECK_FALSE(tape.recording());
    {
      const auto again = tape.no_gradient();
      inside = square(tape, w);
    }
    CHECK_FALSE(tape.recording());
    CHECK(tape.size() == 0);
  }
  CHECK(tape.recording());
  CHECK(inside.is_leaf());
  CHECK_FALSE(inside.requires_gradient());
  tape.backward(sum(tape, mul(tape, w, inside)));
  CHECK(gradient_values(context, w) == std::vector<float>{4, 25});

  Tape values_only(context, {.record = false});
  const Var y = square(values_only, w);
  CHECK(values_only.size() == 0);
  CHECK(values(context, y.value()) == std::vector<float>{4, 25});
  CHECK(soma_test::id_of([&] { values_only.backward(sum(values_only, y)); }) ==
        "autograd.no_gradient");
}

TEST_CASE("an operator without gradients among its inputs is not recorded", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  Tape tape(context);
  const Var x = tape.constant(floats(context, {1, 2}));
  const Var y = square(tape, x);
  CHECK(tape.size() == 0);
  CHECK_FALSE(y.requires_gradient());
  const Var w = Var::parameter(context, floats(context, {1, 2}));
  CHECK(mul(tape, y, w).requires_gradient());
  CHECK(tape.size() == 1);
}

TEST_CASE("values outlive the recording that made them", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var w = Var::parameter(context, floats(context, {2, 5}));
  Var y, loss;
  {
    Tape tape(context);
    y = square(tape, w);
    loss = sum(tape, y);
    tape.backward(loss);
    CHECK(tape.size() == 0);
    CHECK(loss.value().item<float>() == 29);
  }
  CHECK(values(context, y.value()) == std::vector<float>{4, 25});
  CHECK(loss.value().item<float>() == 29);
}

TEST_CASE("a tape is used again, with other random numbers for another step", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var w = soma_test::random_parameter(context, Shape{64}, "w");
  Tape tape(context, {.seed = 3});
  const auto step = [&](Tape& on) {
    const Var y = dropout(on, w, 0.5f, stream_id("here", "dropout"));
    on.backward(sum(on, y));
    const auto result = gradient_values(context, w);
    Var(w).clear_gradient();
    return result;
  };
  const auto first = step(tape);
  tape.reset(0);
  CHECK(step(tape) == first);  // the same step: the same draws
  tape.reset(1);
  const auto second = step(tape);
  CHECK(second != first);
  Tape fresh(context, {.seed = 3, .step = 1});
  CHECK(step(fresh) == second);
  Tape other_seed(context, {.seed = 4, .step = 1});
  CHECK(step(other_seed) != second);
  // A recording that is thrown away leaves nothing behind.
  static_cast<void>(square(tape, w));
  CHECK(tape.size() == 1);
  tape.reset();
  CHECK(tape.size() == 0);
  CHECK(tape.options().step == 1);
  CHECK(step(tape) == second);
}

TEST_CASE("rows keep their sequences where an operator keeps rows", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  Tape tape(context);
  const std::size_t lengths[] = {2, 0, 3};
  const Sequences sequences = Sequences::from_lengths(context, lengths);
  const Var x = tape.constant(soma_test::random_tensor(context, Shape{5, 4}, "x"), sequences);
  CHECK(square(tape, x).sequences().count() == 3);
  CHECK(add(tape, tape.constant(floats(context, {1, 2, 3, 4})), x).sequences().count() == 3);
  CHECK_FALSE(sum(tape, x).sequences().defined());
  CHECK(tape.detach(x).sequences().count() == 3);
  CHECK_FALSE(slice(tape, x, 0, 1).sequences().defined());
}

TEST_CASE("threads with tapes of their own share a context", "[unit][tape]") {
  auto context = make_context({.threads = 2});
  const Var shared = random_parameter(context, Shape{40, 40}, "shared");  // only read
  const auto train = [&](std::size_t number) {
    const Var own = random_parameter(context, Shape{40, 40}, "own" + std::to_string(number));
    Tape tape(context);
    for (int i = 0; i < 20; ++i) {
      const Var fixed = tape.constant(shared.value());
      tape.backward(sum(tape, sin(tape, matmul(tape, fixed, own))));
    }
    return bits(context, own.gradient().values);
  };
  std::array<std::vector<std::byte>, 3> wanted, given;
  for (std::size_t i = 0; i < 3; ++i) wanted[i] = train(i);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 3; ++i) threads.emplace_back([&, i] { given[i] = train(i); });
  for (std::thread& thread : threads) thread.join();
  CHECK(given == wanted);
}
