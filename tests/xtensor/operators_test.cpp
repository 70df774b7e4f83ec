// Operators written as xtensor expressions.

#include <soma/soma.hpp>
#include <soma/testing.hpp>
#include <soma/xtensor.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#if __has_include(<xtensor/views/xview.hpp>)
#include <xtensor/views/xview.hpp>
#else
#include <xtensor/xview.hpp>
#endif

#include <vector>

using namespace soma;
using soma_test::floats;
using soma_test::gradient_values;
using soma_test::message_of;
using soma_test::values;

namespace {

struct Power {
  float exponent = 3;
};

void expect_passed(const testing::Report& report) {
  INFO(to_string(report));
  CHECK(report.passed());
  CHECK(report.checks > 20);
}

}  // namespace

TEST_CASE("two expressions are an operator", "[unit][grad]") {
  auto context = make_context({.threads = 2});
  const auto op = soma::xtensor::register_elementwise(
      context.operators(), "test::squared_relu",
      [](const auto& x) { return xt::square(xt::maximum(x, 0.0f)); },
      [](const auto& x, const auto& dy) { return 2.0f * xt::maximum(x, 0.0f) * dy; });
  expect_passed(testing::check_operator(context, "test::squared_relu"));
  Tape tape(context);
  const Var x = Var::parameter(context, floats(context, {-1, 3, 2}));
  const Var y = op(tape, x);
  CHECK(values(context, y.value()) == std::vector<float>{0, 9, 4});
  tape.backward(sum(tape, y));
  CHECK(gradient_values(context, x) == std::vector<float>{0, 6, 4});

  // More elements than a chunk has, in bf16 and with gaps.
  const Var many = soma_test::random_parameter(context, {3, 4000}, "x");
  const Var narrow = slice(tape, cast(tape, many, DType::bf16), 1, 0, to_end, 3);
  const std::vector<float> in = values(context, cast(tape, narrow, DType::fp32).value());
  const Var out = op(tape, narrow);
  CHECK(out.value().dtype() == DType::bf16);
  const std::vector<float> got = values(context, cast(tape, out, DType::fp32).value());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < in.size(); ++i)
    wrong += got[i] != static_cast<float>(bf16(in[i] > 0 ? in[i] * in[i] : 0));
  CHECK(wrong == 0);
}

TEST_CASE("expressions take attributes", "[unit][grad]") {
  auto context = make_context({.threads = 1});
  const auto op = soma::xtensor::register_elementwise<Power>(
      context.operators(), "test::power",
      [](const auto& x, const Power& power) { return xt::pow(x, power.exponent); },
      [](const auto& x, const auto& dy, const Power& power) {
        return power.exponent * xt::pow(x, power.exponent - 1) * dy;
      });
  expect_passed(testing::check_operator(context, "test::power"));
  Tape tape(context);
  const Var x = tape.constant(floats(context, {2, 3}));
  CHECK(values(context, op(tape, x, {.exponent = 2}).value()) == std::vector<float>{4, 9});
}

TEST_CASE("a general operator gets views of its tensors", "[unit][grad]") {
  auto context = make_context({.threads = 1});
  // [R, C] times [C], and the sum of each row beside it.
  const CustomOperator<> scaled{
      .inputs = 2,
      .outputs = 2,
      .shape =
          [](const ShapeCall& call) {
            detail::check_rank("test::scaled", "x", call.inputs[0], 2);
            detail::check_shape("test::scaled", "scale", call.inputs[1],
                                Shape{call.inputs[0].size(1)});
            call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
            call.outputs[1] = {Shape{call.inputs[0].size(0)}, DType::fp32};
          },
      .samples =
          [] {
            OperatorSamples samples;
            samples.samples = {{.name = "[4, 3]", .inputs = {{.shape = {4, 3}}, {.shape = {3}}}}};
            return samples;
          }};
  const auto op = soma::xtensor::register_operator(
      context.operators(), "test::scaled", scaled,
      [](const auto& in, auto& out) {
        out[0] = in[0] * in[1];
        out[1] = xt::sum(in[0] * in[1], {1});
      },
      [](const auto& in, const auto&, const auto& dout, auto& din) {
        const xt::xarray<float> dy = dout[0] + xt::view(dout[1], xt::all(), xt::newaxis());
        din[0] = dy * in[1];
        din[1] = xt::sum(dy * in[0], {0});
      });
  expect_passed(testing::check_operator(context, "test::scaled"));

  Tape tape(context);
  const Var x = Var::parameter(context, Tensor::from<float>(context, {1, 2, 3, 4}, {2, 2}));
  const Var scale = Var::parameter(context, floats(context, {10, 1}));
  const VarOutputs outputs = op.all(tape, {x, scale});
  CHECK(values(context, outputs[0].value()) == std::vector<float>{10, 2, 30, 4});
  CHECK(values(context, outputs[1].value()) == std::vector<float>{12, 34});
  tape.backward(sum(tape, outputs[1]));  // through the second output only
  CHECK(gradient_values(context, x) == std::vector<float>{10, 1, 10, 1});
  CHECK(gradient_values(context, scale) == std::vector<float>{4, 6});

  const auto wrong = soma::xtensor::register_operator(
      context.operators(), "test::turned",
      CustomOperator<>{.shape =
                           [](const ShapeCall& call) {
                             call.outputs[0] = {call.inputs[0].shape(), DType::fp32};
                           }},
      [](const auto& in, auto& out) { out[0] = xt::transpose(in[0]); });
  const Var wide = tape.constant(Tensor::full(context, {2, 3}, 1.0f));
  CHECK(message_of([&] { wrong(tape, wide); }) ==
        "xtensor::register_operator: expression is [3, 2], wanted [2, 3] fp32 [tensor.shape]");
}
