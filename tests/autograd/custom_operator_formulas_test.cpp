// These tests check operators of one's own that are a formula of one element or of other operators.

#include <soma/soma.hpp>
#include <soma/testing.hpp>

#include "autograd/custom_operators.hpp"
#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cstddef>
#include <span>
#include <vector>

using namespace soma;
using soma_test::expect_passed;
using soma_test::Fixture;
using soma_test::floats;
using soma_test::gradient_values;
using soma_test::id_of;
using soma_test::random_parameter;
using soma_test::Slope;
using soma_test::unit_rows;
using soma_test::values;

namespace {

const auto leaky = [](float x, const Slope& slope) { return x > 0 ? x : slope.value * x; };
const auto leaky_gradient = [](float x, float dy, const Slope& slope) {
  return x > 0 ? dy : slope.value * dy;
};

}  // namespace

TEST_CASE("a scalar function and its derivative are an operator", "[unit][grad]") {
  Fixture f;
  const auto op = register_elementwise<Slope>(f.operators, "test::leaky", leaky, leaky_gradient);
  const Var x = Var::parameter(f.context, floats(f.context, {-4, 2, -1}));
  CHECK(values(f.context, op(f.tape, x).value()) == std::vector<float>{-1, 2, -0.25f});
  const Var y = op(f.tape, x, {.value = 0.5f});
  CHECK(values(f.context, y.value()) == std::vector<float>{-2, 2, -0.5f});
  f.tape.backward(sum(f.tape, y));
  CHECK(gradient_values(f.context, x) == std::vector<float>{0.5f, 1, 0.5f});

  // By name: the defaults, attributes of its own, and those of somebody else.
  CHECK(values(f.context, apply(f.tape, "test::leaky", {x}).value())[0] == -1);
  CHECK(values(f.context, apply(f.tape, "test::leaky", {x}, Slope{2}).value())[0] == -8);
  CHECK(values(f.context,
               find_operator<Slope>(f.operators, "test::leaky")(f.tape, x, {2}).value())[0] == -8);
  CHECK(id_of([&] { apply(f.tape, "test::leaky", {x}, 2.0f); }) == "operator.attributes");
  CHECK(id_of([&] { apply(f.tape, "test::leaki", {x}); }) == "operator.unknown");
  CHECK(id_of([&] { op(f.tape, f.tape.constant(soma_test::ints(f.context, {1}))); }) ==
        "tensor.dtype");
  expect_passed(testing::check_operator(f.context, "test::leaky"));
}

TEST_CASE("element-wise functions see any layout and any number of elements", "[unit]") {
  Fixture f;
  const auto op = register_elementwise(
      f.operators, "test::cube", [](float x) { return x * x * x; },
      [](float x, float dy) { return 3 * x * x * dy; });
  for (const Shape& shape :
       {Shape{1, 5}, Shape{5, 1}, Shape{513, 3}, Shape{2, 700}, Shape{70000}}) {
    const Var x = random_parameter(f.context, shape, "x");
    const std::size_t last = shape.rank() - 1;
    const Var turned = transpose(f.tape, x, 0, last);
    const Var half = slice(f.tape, x, last, 0, to_end, 2);
    for (const Var& view : {x, turned, half}) {
      const std::vector<float> in = values(f.context, view.value());
      const std::vector<float> out = values(f.context, op(f.tape, view).value());
      REQUIRE(in.size() == out.size());
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < in.size(); ++i) wrong += out[i] != in[i] * in[i] * in[i];
      CHECK(wrong == 0);
    }
  }
  // A single column has no stride to speak of, for built-in operators neither.
  const Var column =
      f.tape.constant(Tensor::from<float>(f.context, {1, 2, 3, 4}, {1, 4}).transpose(0, 1));
  CHECK(values(f.context, square(f.tape, column).value()) == std::vector<float>{1, 4, 9, 16});
}

TEST_CASE("what captures is told apart at compile time", "[unit]") {
  int seen = 0;
  const auto capturing = [&seen](float x) { return x + static_cast<float>(seen); };
  static_assert(!detail::captures_nothing<decltype(capturing)>);
  static_assert(!detail::captures_nothing<float (*)(float)>);
  static_assert(detail::captures_nothing<decltype(leaky)>);
  CHECK(capturing(1) == 1);
}

TEST_CASE("a formula of other operators is differentiated by recording it", "[unit][grad]") {
  Fixture f;
  register_elementwise<Slope>(f.operators, "test::leaky", leaky, leaky_gradient);
  const auto op = register_operator(
      f.operators, "test::gated",
      CustomOperator<Slope>{.inputs = 2,
                            .optional_inputs = 1,
                            .compose =
                                [](Tape& tape, std::span<const Var> in, const Slope& slope) {
                                  const Var gate = apply(tape, "test::leaky", {in[1]}, slope);
                                  const Var y = mul(tape, in[0], sigmoid(tape, gate));
                                  return in.size() > 2 ? add(tape, y, in[2]) : y;
                                },
                            .samples =
                                [] {
                                  OperatorSamples samples;
                                  samples.samples = {
                                      {.name = "[3, 4]",
                                       .inputs = {{.shape = {3, 4}}, {.shape = {3, 4}}},
                                       .attributes = Slope{}},
                                      {.name = "with a third",
                                       .inputs = {{.shape = {5}}, {.shape = {5}}, {.shape = {5}}},
                                       .attributes = Slope{}}};
                                  return samples;
                                }});
  expect_passed(testing::check_operator(f.context, "test::gated"));

  const auto direct = [&](Tape& tape, const Var& x, const Var& gate) {
    return mul(tape, x, sigmoid(tape, apply(tape, "test::leaky", {gate}, Slope{0.5f})));
  };
  std::vector<float> found[2];
  for (const bool composed : {false, true}) {
    const Var x = random_parameter(f.context, {6}, "x"),
              gate = random_parameter(f.context, {6}, "g");
    const Var y = composed ? op(f.tape, x, gate, {.value = 0.5f}) : direct(f.tape, x, gate);
    f.tape.backward(sum(f.tape, square(f.tape, y)));
    found[composed] = gradient_values(f.context, x);
    const std::vector<float> more = gradient_values(f.context, gate);
    found[composed].insert(found[composed].end(), more.begin(), more.end());
  }
  CHECK(found[0] == found[1]);

  // A formula that is no more than its input.
  const auto same = register_operator(
      f.operators, "test::same",
      CustomOperator<>{.compose = [](Tape&, std::span<const Var> in) { return in[0]; }});
  const Var w = Var::parameter(f.context, floats(f.context, {1, 2}));
  f.tape.backward(sum(f.tape, square(f.tape, same(f.tape, w))));
  CHECK(gradient_values(f.context, w) == std::vector<float>{2, 4});

  CustomOperator<> both = unit_rows();
  both.compose = [](Tape&, std::span<const Var> in) { return in[0]; };
  CHECK(id_of([&] { register_operator(f.operators, "test::both", both); }) ==
        "operator.incomplete");
}

TEST_CASE("a custom operator allocates nothing that a built-in one would not", "[unit]") {
  Fixture f;
  const auto op = register_elementwise<Slope>(f.operators, "test::leaky", leaky, leaky_gradient);
  const Var x = random_parameter(f.context, {64}, "x");
  const auto step = [&] {
    f.tape.backward(sum(f.tape, op(f.tape, x)));
    x.clear_gradient();
  };
  step();
  step();
  const std::size_t before = f.context.memory_use().allocations;
  for (int i = 0; i < 10; ++i) step();
  CHECK(f.context.memory_use().allocations == before);
}
