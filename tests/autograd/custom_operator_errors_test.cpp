// These tests check what operators of one's own are refused for: missing parts, settings of another
// type, and results that do not fit.

#include <soma/soma.hpp>
#include <soma/testing.hpp>

#include "autograd/custom_operators.hpp"
#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cstdint>
#include <span>
#include <vector>

using namespace soma;
using soma_test::Fixture;
using soma_test::floats;
using soma_test::id_of;
using soma_test::message_of;
using soma_test::unit_rows;
using soma_test::values;

namespace one {
inline Attributes made() {
  struct Setting {
    int value;
  };
  return Setting{1};
}
}  // namespace one
namespace two {
inline float read(const Attributes& attributes) {
  struct Setting {
    float value;
  };
  return attributes.as<Setting>().value;
}
}  // namespace two

TEST_CASE("settings of another type of the same name are refused", "[unit][custom]") {
  // clang prints the same name for the first two types, g++ for the other two.
  CHECK(id_of([] { two::read(one::made()); }) == "operator.attributes");
  auto first = [value = 1] { return value; };
  auto second = [value = 1.0f] { return static_cast<int>(value); };
  CHECK(id_of([&] { Attributes(first).as<decltype(second)>(); }) == "operator.attributes");
  CHECK(Attributes(first).as<decltype(first)>()() == 1);
}

TEST_CASE("a part that is missing is named where it is needed", "[unit]") {
  Fixture f;
  const auto op =
      register_elementwise(f.operators, "test::step", [](float x) { return x > 0 ? 1.0f : 0.0f; });
  const Var x = Var::parameter(f.context, floats(f.context, {-1, 1}));
  CHECK(values(f.context, op(f.tape, f.tape.detach(x)).value()) == std::vector<float>{0, 1});
  CHECK(message_of([&] { op(f.tape, x); }) ==
        "test::step: operator is without a gradient, wanted one that has it, or constant inputs "
        "(Tape::detach) [autograd.not_differentiable]");
  CustomOperator<> no_shape = unit_rows();
  no_shape.shape = nullptr;
  CHECK(message_of([&] { register_operator(f.operators, "test::no_shape", no_shape); }) ==
        "OperatorRegistry::add: operator is \"test::no_shape\" without a shape rule, wanted one, "
        "or allocates_outputs [operator.incomplete]");
  CHECK(message_of([&] { register_operator(f.operators, "test::empty", CustomOperator<>{}); }) ==
        "OperatorRegistry::add: operator is \"test::empty\" without a host kernel, wanted a "
        "function that computes it [operator.incomplete]");
  CustomOperator<> no_samples = unit_rows();
  no_samples.samples = nullptr;
  register_operator(f.operators, "test::no_samples", no_samples);
  const testing::Report report = testing::check_operator(f.context, "test::no_samples");
  CHECK(report.checks == 0);
  CHECK(to_string(report) ==
        "test::no_samples: not checked, 0 checks\n"
        "  not checked: anything: the operator has no samples\n");
}

TEST_CASE("a gradient of one's own that fits no input is refused by name", "[unit][custom]") {
  Fixture f;
  CustomOperator<> custom{
      .shape =
          [](const ShapeCall& call) {
            call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
          },
      .host = [](const OperatorCall& call) { copy(call.inputs[0], call.outputs[0]); },
      .gradient =
          [](const GradientCall& call) {
            call.input_gradients[0].values = Tensor::full(call.context, Shape{1}, 1.0f);
          }};
  const auto short_one = register_operator(f.operators, "test::short", custom);
  custom.gradient = [](const GradientCall& call) {
    call.input_gradients[0].values =
        Tensor::full(call.context, call.inputs[0].shape(), std::int32_t{1});
  };
  const auto integer = register_operator(f.operators, "test::integer", custom);
  // Where the kernel behind would read the gradient at its own sizes.
  const Var image =
      Var::parameter(f.context, soma_test::random_tensor(f.context, Shape{2, 4, 8, 8}, "image"));
  const auto backward = [&](const OperatorFunction<>& op) {
    return message_of([&] {
      const Var pooled = max_pool2d(f.tape, image, {});
      f.tape.backward(sum(f.tape, op(f.tape, pooled)));
    });
  };
  CHECK(backward(short_one) ==
        "test::short: gradient of input 0 is [1] fp32, wanted [2, 4, 4, 4] [tensor.shape]");
  CHECK(backward(integer) ==
        "test::integer: gradient of input 0 is [2, 4, 4, 4] int32, wanted a floating type "
        "[tensor.dtype]");
  CHECK_FALSE(image.gradient().defined());
}

TEST_CASE("a shape rule that leaves an output out is refused by name", "[unit][custom]") {
  Fixture f;
  const auto first_only = register_operator(
      f.operators, "test::first_only",
      CustomOperator<>{.outputs = 2,
                       .shape = [](const ShapeCall& call) { call.outputs[0] = {}; },
                       .host = [](const OperatorCall&) {}});
  CHECK(message_of([&] { first_only(f.tape, f.tape.constant(Tensor::scalar(f.context, 1.0f))); }) ==
        "test::first_only: output 1 is left out by the shape rule, wanted its sizes and its type "
        "[operator.outputs]");
}

TEST_CASE("a formula that gives no variable is refused by name", "[unit][custom]") {
  Fixture f;
  for (const bool as_given : {false, true}) {
    const auto nothing = register_operator(
        f.operators, as_given ? "test::nothing" : "test::nothing_plain",
        CustomOperator<>{.compose = [](Tape&, std::span<const Var>) { return Var(); },
                         .as_given = as_given});
    for (const DType dtype : {DType::fp32, DType::bf16}) {
      const Var x = Var::parameter(f.context, Tensor::zeros(f.context, Shape{3}, dtype));
      CHECK(id_of([&] { nothing(f.tape, x); }) == "operator.outputs");
    }
  }
}
