// The three products of a linear layer with scales for groups: rotation, formats of one product,
// the scale of a tensor, and numbers that are not finite.

#include <soma/ops/product/quantized_linear.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "ops/product/microscaling.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

// A linear layer of 384 ragged rows, forward and backward.
struct Layer {
  explicit Layer(Context& context)
      : sequences(Sequences::from_lengths(
            context, std::vector<std::size_t>{5, 40, 0, 61, 133, 7, 1, 90, 12, 35})) {
    x = random(context, Shape{384, 70}, 51);
    weight = random(context, Shape{150, 70}, 52);
    dy = random(context, Shape{384, 150}, 53);
    for (std::uint32_t i = 0; i < 3; ++i) formats.signs[i] = {.seed = 6, .stream = 60 + i};
  }
  static Tensor random(Context& context, const Shape& shape, std::uint32_t stream) {
    std::vector<float> values(shape.elements());
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(normal(stream, i));
    return Tensor::from(context, values, shape);
  }
  // y, dx, dW.
  std::vector<Tensor> run_both(Context& context, std::uint32_t step = 3) {
    Tape tape(context, {.step = step});
    const Var input = tape.input(x, sequences), kernel = Var::parameter(context, weight);
    const Var y = tape.apply(
        ops::quantized_linear,
        QuantizedLinearSetting{.formats = &formats, .step = step, .training = true, .record = true},
        {input, kernel});
    const Tensor value = y.value();
    tape.backward(y, dy);
    return {value, input.gradient().values, kernel.gradient().values};
  }
  Sequences sequences;
  Tensor x, weight, dy;
  LinearFormats formats{};
};

double farthest(const Tensor& a, const Tensor& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.elements(); ++i)
    worst = (std::max)(worst, std::fabs(double{a.data<float>()[i]} - double{b.data<float>()[i]}));
  return worst;
}

}  // namespace

// Without a narrow format a rotation must not be seen, in any of the three products: both operands
// have the same matrix, signs and parts.
TEST_CASE("all three products rotate both operands alike", "[unit][microscaling]") {
  auto context = make_context({.threads = 2});
  Layer layer(context);
  const std::vector<Tensor> plain = layer.run_both(context);
  for (const std::uint8_t size : rotation_sizes)
    for (const Rotation::Signs signs : {Rotation::Signs::fixed, Rotation::Signs::drawn})
      for (const std::uint32_t step : {3u, 4u}) {
        for (LinearOperand* operand :
             {&layer.formats.x, &layer.formats.weight, &layer.formats.gradient})
          operand->quantizer.rotation = {size, signs};
        const std::vector<Tensor> turned = layer.run_both(context, step);
        INFO(int{size} << ", step " << step);
        for (std::size_t i = 0; i < 3; ++i) {
          CHECK(farthest(plain[i], turned[i]) < 384 * 8 * 0x1p-23);
          if (size <= 32) CHECK(farthest(plain[i], turned[i]) > 0);
        }
      }
}

TEST_CASE("each product reads its own formats", "[unit][microscaling]") {
  auto context = make_context({.threads = 2});
  Layer wide(context), narrow(context);
  const Quantizer four = groups(formats::fp4_e2m1, ScaleRule::up);
  for (LinearOperand* operand :
       {&narrow.formats.x, &narrow.formats.weight, &narrow.formats.gradient})
    operand->quantizer = four;
  const std::vector<Tensor> fp32 = wide.run_both(context), fp4 = narrow.run_both(context);
  const auto same = [](const Tensor& a, const Tensor& b) { return farthest(a, b) == 0; };
  for (std::size_t i = 0; i < 3; ++i) REQUIRE_FALSE(same(fp32[i], fp4[i]));
  for (const int product : {0, 1, 2}) {  // the one that stays wide
    Layer layer(context);
    LinearOperand &x = layer.formats.x, &w = layer.formats.weight, &d = layer.formats.gradient;
    x.quantizer = w.quantizer = product == 0 ? Quantizer{} : four;
    d.quantizer = product == 1 ? Quantizer{} : four;
    w.second = product == 1 ? Quantizer{} : four;
    x.second = d.second = product == 2 ? Quantizer{} : four;
    const std::vector<Tensor> got = layer.run_both(context);
    for (int i = 0; i < 3; ++i) {
      INFO("wide " << product << ", looked at " << i);
      CHECK(same(got[static_cast<std::size_t>(i)],
                 (i == product ? fp32 : fp4)[static_cast<std::size_t>(i)]));
    }
  }
}

TEST_CASE("the tensor's scale of nvfp4 multiplies all three products", "[unit][microscaling]") {
  auto context = make_context({.threads = 2});
  Layer one(context), thousand(context);
  float* values = thousand.x.mutable_data<float>();
  for (std::size_t i = 0; i < thousand.x.elements(); ++i) values[i] *= 1024;
  for (Layer* layer : {&one, &thousand})
    layer->formats.x.quantizer = layer->formats.weight.quantizer =
        layer->formats.gradient.quantizer = nvfp4();
  const std::vector<Tensor> a = one.run_both(context), b = thousand.run_both(context);
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}})
    for (std::size_t j = 0; j < a[i].elements(); j += 7)
      CHECK(b[i].data<float>()[j] == 1024 * a[i].data<float>()[j]);
  CHECK(farthest(a[1], b[1]) == 0);
}

TEST_CASE("what a group with a number that is not finite becomes is seen by the watch",
          "[unit][microscaling]") {
  auto context = make_context({.threads = 1});
  for (const Quantizer& quantizer :
       {groups(formats::fp4_e2m1, ScaleRule::floor), groups(formats::fp6_e3m2, ScaleRule::up),
        groups(formats::fp8_e5m2, ScaleRule::floor), nvfp4()}) {
    Layer layer(context);
    layer.x.mutable_data<float>()[70 * 3 + 1] = std::numeric_limits<float>::infinity();
    layer.formats.x.quantizer = layer.formats.weight.quantizer = quantizer;
    const Tensor y = layer.run_both(context)[0];
    for (std::size_t j = 0; j < 150; ++j) CHECK(std::isnan(y.data<float>()[150 * 3 + j]));
  }
}

// Without a scale, or with one that is remembered, nothing else can carry the NaN.
TEST_CASE("a tensor in a format without NaN reads NaN where one number is not finite",
          "[unit][microscaling]") {
  auto context = make_context({.threads = 2});
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const FloatFormat& format : {formats::fp4_e2m1, formats::fp6_e2m3, formats::fp6_e3m2})
    for (const ScalePolicy policy : {ScalePolicy::none, ScalePolicy::delayed, ScalePolicy::current})
      for (const Rounding rounding : {Rounding::nearest_even, Rounding::stochastic})
        for (const float bad : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
          const Quantizer quantizer{
              .format = format, .rounding = rounding, .scaling = {.policy = policy}};
          Layer layer(context);
          float* x = layer.x.mutable_data<float>();
          x[0] = 9;
          const auto made = [&] {
            const QuantizeSetting setting{.quantizer = quantizer, .scale = 2};
            return run(context, ops::quantize, setting, {layer.x}, layer.sequences);
          };
          const Outputs healthy = made();
          x[70 * 200 + 3] = bad;
          const Outputs ill = made();
          bool finite = true, any = false;
          const Tensor good = soma::detail::plain_fp32(context, healthy[0]);
          const Tensor spoilt = soma::detail::plain_fp32(context, ill[0]);
          for (std::size_t i = 0; i < good.elements(); ++i) {
            finite = finite && std::isfinite(good.data<float>()[i]);
            any = any || !std::isnan(spoilt.data<float>()[i]);
          }
          CHECK(finite);
          CHECK_FALSE(any);
          CHECK(ill[2].data<float>()[0] == 9);  // the history of scales counts what is finite
          layer.formats.x = {.quantizer = quantizer, .scale = 2};
          CHECK(std::isnan(layer.run_both(context)[0].data<float>()[0]));
        }
}

// Ranks agree on the largest magnitude, and an infinite one is a number that is not finite.
TEST_CASE("a number of another rank that is not finite is seen here", "[unit][microscaling]") {
  auto context = make_context({.threads = 1});
  Layer layer(context);
  layer.formats.x.quantizer = {.format = formats::fp4_e2m1,
                               .scaling = {.policy = ScalePolicy::current}};
  CHECK(std::isfinite(layer.run_both(context)[0].data<float>()[0]));
  layer.formats.maximum.run = [](void*, std::span<float> values) {
    for (float& value : values) value = std::numeric_limits<float>::infinity();
  };
  CHECK(std::isnan(layer.run_both(context)[0].data<float>()[0]));
}
