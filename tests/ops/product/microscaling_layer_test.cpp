// The three products of a linear layer with scales for groups: rotation, formats of one product,
// the scale of a tensor, and numbers that are not finite.

#include <soma/ops/product/quantized_linear.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "ops/product/microscaling.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <bit>
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

// Otherwise products of numbers with such a scale would be slower, and rounded once more.
TEST_CASE("the scale of an operand in bf16 multiplies the sums", "[unit][microscaling]") {
  auto context = make_context({.threads = 2});
  const auto narrow = [&](const Tensor& x) {
    return run(context, *context.built_in().cast, CastSetting{.dtype = DType::bf16}, {x})[0];
  };
  for (const std::size_t rows : {std::size_t{1}, std::size_t{3}, std::size_t{50}})
    for (const bool turned : {false, true}) {
      const Tensor a = narrow(
                       Layer::random(context, Shape{turned ? 90 : rows, turned ? rows : 90}, 70)),
                   b = narrow(Layer::random(context, Shape{90, 70}, 71));
      MatmulSetting setting{.transpose_a = turned, .output = DType::fp32};
      const Tensor plain = run(context, ops::matmul, setting, {a, b})[0];
      setting.a.scale = 0.3f;
      setting.b.scale = 1.7f;
      const Tensor scaled = run(context, ops::matmul, setting, {a, b})[0];
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < plain.elements(); ++i)
        wrong += scaled.data<float>()[i] == plain.data<float>()[i] * (0.3f * 1.7f) ? 0 : 1;
      CHECK(wrong == 0);
    }
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

namespace {

// Whole numbers from draws, over five powers of two: the same on every machine.
Tensor drawn(Context& context, const Shape& shape, std::uint32_t stream) {
  std::vector<float> values(shape.elements());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t word = word_of(stream, i);
    values[i] = std::ldexp(static_cast<float>(static_cast<std::int32_t>(word)),
                           static_cast<int>(word % 5) - 31);
  }
  return Tensor::from(context, std::span<const float>(values), shape);
}

// Those, and what is rare: zeros of both signs, tiny and huge numbers, and some that are not
// finite.
Tensor rare(Context& context, const Shape& shape, std::uint32_t stream) {
  Tensor x = drawn(context, shape, stream);
  float* values = x.mutable_data<float>();
  for (std::size_t i = 0; i < x.elements(); ++i) {
    const std::uint32_t word = word_of(stream + 1, i / 40);
    if (word % 5 == 0) values[i] *= std::ldexp(1.0f, static_cast<int>(word / 5 % 250) - 125);
    if (word % 5 == 1) values[i] *= 0.0f;
    if (word_of(stream + 2, i) % 900 == 0) values[i] = std::numeric_limits<float>::infinity();
    if (word_of(stream + 2, i) % 900 == 1) values[i] = std::numeric_limits<float>::quiet_NaN();
  }
  return x;
}

bool same_numbers(Context& context, const Tensor& a, const Tensor& b) {
  const Tensor left = soma::detail::plain_fp32(context, a);
  const Tensor right = soma::detail::plain_fp32(context, b);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < a.elements(); ++i) {
    const float x = left.data<float>()[i], y = right.data<float>()[i];
    const bool same = std::isnan(x) ? std::isnan(y) : x == y && std::signbit(x) == std::signbit(y);
    wrong += same ? 0 : 1;
  }
  return a.shape() == b.shape() && a.dtype() == b.dtype() && wrong == 0;
}

struct CodedCase {
  FloatFormat format;
  std::size_t bits;
};
constexpr CodedCase coded_cases[] = {{formats::fp8_e4m3fn, 8},
                                     {formats::fp8_e5m2, 8},
                                     {formats::fp6_e2m3, 6},
                                     {formats::fp6_e3m2, 6},
                                     {formats::fp4_e2m1, 4}};

}  // namespace

TEST_CASE("codes and scale bytes are the numbers that products read", "[unit][microscaling]") {
  auto context = make_context({.threads = 2});
  const Sequences sequences =
      Sequences::from_lengths(context, std::vector<std::size_t>{5, 40, 0, 61, 133, 7, 1, 90});
  const Tensor odd = rare(context, Shape{337, 71}, 300),
               wide = rare(context, Shape{337, 1030}, 310);
  for (const CodedCase& c : coded_cases)
    for (const ScaleFormat scale :
         {ScaleFormat::mx, ScaleFormat::power_of_two, ScaleFormat::e4m3, ScaleFormat::fp32})
      for (const Granularity granularity :
           {Granularity::group_32, Granularity::group_16, Granularity::row,
            Granularity::block_1x128, Granularity::block_32x32})
        for (const bool along_rows : {false, true}) {
          const bool all = granularity == Granularity::group_32;
          const Tensor& numbers = all ? wide : odd;
          for (const DType stored : {DType::bf16, DType::fp32}) {
            if (!all && stored == DType::fp32) continue;
            const Tensor x =
                run(context, *context.built_in().cast, CastSetting{.dtype = stored}, {numbers})[0];
            QuantizeSetting setting{
                .quantizer = {.format = c.format,
                              .rounding = along_rows && scale == ScaleFormat::power_of_two
                                              ? Rounding::stochastic
                                              : Rounding::nearest_even,
                              .scaling = {.policy = ScalePolicy::current,
                                          .granularity = granularity,
                                          .format = scale,
                                          .rule = all ? ScaleRule::up : ScaleRule::floor}},
                .along_rows = along_rows,
                .scale = scale == ScaleFormat::e4m3 ? 0.25f : 1.0f};
            const Outputs made = run(context, ops::quantize, setting, {x}, sequences);
            setting.codes = true;
            const Outputs coded = run(context, ops::quantize, setting, {x}, sequences);
            INFO(to_string(c.format) << ", " << to_string(scale) << ", " << to_string(granularity)
                                     << (along_rows ? ", along rows" : ""));
            CHECK(coded[0].dtype() == DType::uint8);
            CHECK(coded[0].bytes() ==
                  337 * ((x.shape().columns() * c.bits + 7) / 8) +
                      made[1].elements() * (scale == ScaleFormat::fp32 ? 4 : 1));
            CHECK(same_numbers(context, made[1], coded[1]));
            CHECK(same_numbers(context, made[2], coded[2]));
            CHECK(same_numbers(context, made[0],
                               soma::detail::expanded(context, setting, coded[0], x.shape(),
                                                      made[0].dtype(), sequences)));
          }
        }
}

// Numbers in bf16 and fp32, and codes, take other loops, which read rows in runs.
TEST_CASE("groups down the columns of wide rows are the same by all loops",
          "[unit][microscaling]") {
  auto context = make_context({.threads = 2});
  const Tensor x = run(context, *context.built_in().cast, CastSetting{.dtype = DType::bf16},
                       {drawn(context, Shape{70, 2100}, 350)})[0];
  const Tensor wide = soma::detail::plain_fp32(context, x);
  for (const CodedCase& c : coded_cases)
    for (const ScaleFormat scale : {ScaleFormat::mx, ScaleFormat::e4m3})
      for (const RoundingMode mode : {RoundingMode::nearest_even, RoundingMode::stochastic}) {
        const bool stochastic = mode == RoundingMode::stochastic;
        QuantizeSetting setting{
            .quantizer = {.format = c.format,
                          .rounding = {.mode = mode,
                                       .random_bits =
                                           stochastic ? std::uint8_t{16} : std::uint8_t{0}},
                          .scaling = {.policy = ScalePolicy::current,
                                      .granularity = Granularity::group_32,
                                      .format = scale}},
            .along_rows = true,
            .scale = scale == ScaleFormat::e4m3 ? 0.25f : 1.0f};
        const Outputs halves = run(context, ops::quantize, setting, {x});
        const Outputs words = run(context, ops::quantize, setting, {wide});
        setting.codes = true;
        const Outputs coded = run(context, ops::quantize, setting, {x});
        INFO(to_string(c.format) << ", " << to_string(scale) << (stochastic ? ", drawn" : ""));
        CHECK(same_numbers(context, halves[0], words[0]));
        CHECK(same_numbers(context, halves[1], words[1]));
        CHECK(same_numbers(
            context, halves[0],
            soma::detail::expanded(context, setting, coded[0], x.shape(), halves[0].dtype(), {})));
      }
}

TEST_CASE("what a layer keeps for backward takes the bytes of codes", "[unit][microscaling]") {
  auto context = make_context({.threads = 1});
  const Tensor x = drawn(context, Shape{384, 128}, 320), w = drawn(context, Shape{64, 128}, 321);
  for (const CodedCase& c : coded_cases) {
    LinearFormats formats;
    formats.x.quantizer = formats.weight.quantizer = groups(c.format, ScaleRule::up);
    const Outputs made =
        run(context, ops::quantized_linear,
            QuantizedLinearSetting{.formats = &formats, .training = true, .record = true}, {x, w});
    CHECK(made[2].bytes() == 384 * 128 * c.bits / 8 + 8 * 2 * 128);  // 8 shards have 48 rows each
    CHECK(formats.forward.values.bytes() == 64 * 128 * c.bits / 8 + 64 * 128 / 32);
  }
}

TEST_CASE("codes of what has no scales for parts are refused", "[unit][microscaling]") {
  auto context = make_context({.threads = 1});
  const Tensor x = drawn(context, Shape{8, 64}, 330);
  const auto id = [&](const Quantizer& quantizer) {
    return id_of([&] {
      static_cast<void>(
          run(context, ops::quantize, QuantizeSetting{.quantizer = quantizer, .codes = true}, {x}));
    });
  };
  CHECK(id({.format = formats::fp4_e2m1}) == "operator.value");
  CHECK(id(groups(formats::bf16, ScaleRule::floor)) == "operator.value");
  CHECK(id(groups(formats::fp4_e2m1, ScaleRule::floor)) == "no error");
}

// Hashes of the numbers and scales that the library gave before there were rules by name.
TEST_CASE("ordinary numbers have the bits of mxfp8 that they always had", "[unit][microscaling]") {
  auto context = make_context({.threads = 2});
  std::uint64_t hash = 14695981039346656037u;
  const auto add = [&](const Tensor& tensor) {
    const Tensor numbers = soma::detail::plain_fp32(context, tensor);
    for (std::size_t i = 0; i < numbers.elements(); ++i)
      hash = (hash ^ std::bit_cast<std::uint32_t>(numbers.data<float>()[i])) * 1099511628211u;
  };
  for (const FloatFormat& format : {formats::fp8_e4m3fn, formats::fp8_e5m2})
    for (const bool along_rows : {false, true})
      for (const DType stored : {DType::bf16, DType::fp32}) {
        const Tensor x = run(context, *context.built_in().cast, CastSetting{.dtype = stored},
                             {drawn(context, Shape{200, 150}, 340)})[0];
        const Outputs made = run(context, ops::quantize,
                                 QuantizeSetting{.quantizer = groups(format, ScaleRule::floor),
                                                 .along_rows = along_rows},
                                 {x});
        add(made[0]);
        add(made[1]);
      }
  CHECK(hash == 8536884401727373477u);
}
