// ops::quantize against its definition element by element: every granularity along rows and down
// columns, shards, threads and draws.

#include <soma/ops/product/quantize.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/samples.hpp"
#include "support/table.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

constexpr Granularity granularities[] = {Granularity::tensor,      Granularity::row,
                                         Granularity::block_1x128, Granularity::block_128x128,
                                         Granularity::group_32,    Granularity::group_16,
                                         Granularity::block_16x16, Granularity::block_32x32};

// Compilers may multiply by 1 where nothing was asked for, which changes a signalling NaN.
float product(float a, float b) {
  const volatile float kept = a;
  return kept * b;
}

struct Expected {
  std::vector<std::byte> values;
  std::vector<float> scales;
  float amax = 0;
  std::size_t grid_rows = 0, grid_columns = 0;
};

// Which row of scaling blocks each row of x belongs to. `bounds`: where shards begin and end.
std::vector<std::size_t> groups_of_rows(std::span<const std::size_t> bounds, std::size_t step) {
  std::vector<std::size_t> result;
  std::size_t next = 0;
  for (std::size_t shard = 0; shard + 1 < bounds.size(); ++shard)
    for (std::size_t row = bounds[shard]; row < bounds[shard + 1]; ++row) {
      const std::size_t inside = row - bounds[shard];
      if (inside == 0 || (step != 0 && inside % step == 0)) ++next;
      result.push_back(next - 1);
    }
  return result;
}

std::uint64_t index_of(const QuantizeSetting& setting, const Sequences& sequences, std::size_t row,
                       std::size_t column) {
  if (setting.parameter) return (std::uint64_t{row} << 32) + column;
  if (!sequences.defined()) return (std::uint64_t{row} << 40) + column;
  for (std::size_t s = 0; s < sequences.count(); ++s)
    if (row >= sequences.begin(s) && row < sequences.end(s))
      return (sequences.ordinal(s) << 40) + (std::uint64_t{row - sequences.begin(s)} << 20) +
             column;
  return 0;
}

Expected expected(const QuantizeSetting& setting, const std::vector<float>& x, std::size_t rows,
                  std::size_t columns, const Sequences& sequences) {
  const Quantizer& quantizer = setting.quantizer;
  const FloatFormat& format = quantizer.format;
  const Scaling& scaling = quantizer.scaling;
  const bool one =
      scaling.policy == ScalePolicy::none || scaling.granularity == Granularity::tensor;

  std::size_t step = 0,
              width = 0;  // the size of a scaling block; 0: all rows of a shard, all columns
  bool cut = false;
  switch (scaling.granularity) {
    case Granularity::tensor:
      break;
    case Granularity::row:
      step = setting.along_rows ? 0 : 1;
      width = setting.along_rows ? 1 : 0;
      cut = setting.along_rows;
      break;
    case Granularity::block_1x128:
      step = setting.along_rows ? 128 : 1;
      width = setting.along_rows ? 1 : 128;
      cut = setting.along_rows;
      break;
    case Granularity::block_128x128:
      step = width = 128;
      cut = setting.along_rows || sequences.defined();
      break;
    case Granularity::block_16x16:
    case Granularity::block_32x32:
      step = width = scaling.granularity == Granularity::block_16x16 ? 16 : 32;
      cut = setting.along_rows || sequences.defined();
      break;
    case Granularity::group_16:
      step = setting.along_rows ? 16 : 1;
      width = setting.along_rows ? 1 : 16;
      cut = setting.along_rows;
      break;
    case Granularity::group_32:
      step = setting.along_rows ? 32 : 1;
      width = setting.along_rows ? 1 : 32;
      cut = setting.along_rows;
      break;
  }
  std::vector<std::size_t> bounds{0, rows};
  if (one) {
    step = width = 0;
  } else if (cut && !setting.parameter) {
    bounds.clear();
    for (std::size_t i = 0; i <= 8; ++i)
      bounds.push_back(sequences.defined() ? sequences.row_bounds()[i] : rows * i / 8);
  }
  const std::vector<std::size_t> groups = groups_of_rows(bounds, step);

  Expected result;
  result.grid_rows = one ? 1 : rows == 0 ? 0 : groups.back() + 1;
  result.grid_columns = width == 0 ? 1 : (columns + width - 1) / width;
  const auto block_of = [&](std::size_t i) {
    return groups[i / columns] * result.grid_columns + (width == 0 ? 0 : i % columns / width);
  };
  std::vector<float> amax(result.grid_rows * result.grid_columns);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::isfinite(x[i])) {
      amax[block_of(i)] = (std::max)(amax[block_of(i)], std::fabs(x[i]));
      result.amax = (std::max)(result.amax, std::fabs(x[i]));
    }
  std::vector<float> counted = amax;
  if (has_nan_scales(scaling, format))
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!std::isfinite(x[i])) counted[block_of(i)] = std::numeric_limits<float>::infinity();
  for (const float largest : counted)
    result.scales.push_back(scaling.policy == ScalePolicy::current
                                ? scale_for(scaling, format, largest)
                            : !std::isfinite(largest) ? std::numeric_limits<float>::quiet_NaN()
                            : scaling.policy == ScalePolicy::delayed ? setting.scale
                                                                     : 1.0f);
  const DType type = quantized_dtype(quantizer);
  const bool codes = one && format_of(type) == format.with(Overflow::special);
  const float limit = decode(format, format.max_finite_code());
  const std::size_t bytes = size_of(type);
  result.values.resize(x.size() * bytes);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float scale = result.scales[block_of(i)];
    float value = x[i];
    if (scaling.policy != ScalePolicy::none) value = product(value, 1.0f / scale);
    if (std::isnan(scale)) value = scale;
    if (scaling.policy != ScalePolicy::none && std::isfinite(x[i]))
      value = (std::clamp)(value, -limit, limit);
    Draw draw = setting.draw;
    draw.index = index_of(setting, sequences, i / columns, i % columns);
    std::uint32_t code = encode(format, value, quantizer.rounding,
                                rounding_word(draw, random_bits(quantizer.rounding, format)));
    if (!codes) {
      float back = decode(format, code);
      if (scaling.policy != ScalePolicy::none || std::isnan(scale)) back = product(back, scale);
      code = encode(format_of(type), back);
    }
    code <<= format_of(type).storage_shift();
    std::memcpy(result.values.data() + i * bytes, &code, bytes);
  }
  return result;
}

void check(Context& context, const QuantizeSetting& setting, const Tensor& x,
           const Sequences& sequences = {}) {
  const std::vector<float> plain =
      values(context, run(context, *context.built_in().cast, CastSetting{}, {x})[0]);
  const Expected wanted =
      expected(setting, plain, x.shape().rows(), x.shape().columns(), sequences);
  const Outputs y = run(context, ops::quantize, setting, {x}, sequences);
  CHECK(y[0].shape() == x.shape());
  CHECK(y[0].dtype() == quantized_dtype(setting.quantizer));
  CHECK(y[1].shape() == Shape{wanted.grid_rows, wanted.grid_columns});
  const std::vector<float> scales = values(context, y[1]);
  REQUIRE(scales.size() == wanted.scales.size());
  CHECK(std::equal(scales.begin(), scales.end(), wanted.scales.begin(),
                   [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }));
  CHECK(values(context, y[2]) == std::vector<float>{wanted.amax});
  CHECK((bits(context, y[0]) == wanted.values));
}

Tensor hard(Context& context, const Shape& shape) {
  const std::vector<float> all = hard_floats(shape.elements());
  return Tensor::from(context, std::span<const float>(all), shape);
}

Tensor as_bf16(Context& context, const Tensor& x) {
  return run(context, *context.built_in().cast, CastSetting{.dtype = DType::bf16}, {x})[0];
}

Quantizer quantizer_of(const FloatFormat& format, Granularity granularity, ScaleFormat scale,
                       const Rounding& rounding = {}) {
  return {.format = format,
          .rounding = rounding,
          .scaling = {.policy = ScalePolicy::current, .granularity = granularity, .format = scale}};
}

}  // namespace

static void quantize_definition(Table table) {
  for (const int threads : entries(table, {1, 3}, {1, 2, 3, 7})) {
    auto context = make_context({.threads = threads});
    const std::vector<std::size_t> lengths{70, 0, 3, 140, 0, 1, 33, 90};
    const Sequences ragged = Sequences::from_lengths(context, lengths, {.first_ordinal = 5});
    // Shard 0 is empty where one sequence is longer than all others together.
    const std::vector<std::size_t> one_long{330, 7};
    const Sequences uneven = Sequences::from_lengths(context, one_long);
    REQUIRE(ragged.rows() == uneven.rows());
    bool empty = false;
    for (std::size_t i = 0; i < 8; ++i)
      empty = empty || uneven.row_bounds()[i] == uneven.row_bounds()[i + 1];
    REQUIRE(empty);
    for (const std::size_t columns : {std::size_t{1}, std::size_t{150}}) {
      const Tensor wide = hard(context, Shape{ragged.rows(), columns});
      for (const Tensor& x : {wide, as_bf16(context, wide)})
        for (const Granularity granularity : granularities)
          for (const bool along_rows : {false, true})
            for (const bool parameter : {false, true})
              for (const Sequences& sequences : {Sequences(), ragged, uneven}) {
                INFO(threads << " threads, " << columns << " columns, granularity "
                             << static_cast<int>(granularity) << ", along rows " << along_rows
                             << ", parameter " << parameter << ", sequences "
                             << (sequences.defined() ? sequences.count() : 0));
                QuantizeSetting setting{.quantizer = quantizer_of(formats::fp8_e4m3fn, granularity,
                                                                  ScaleFormat::power_of_two),
                                        .along_rows = along_rows,
                                        .parameter = parameter,
                                        .draw = {.seed = 8, .stream = 3, .step = 4, .index = 99}};
                check(context, setting, x, sequences);
                setting.quantizer = quantizer_of(formats::fp8_e5m2, granularity, ScaleFormat::fp32,
                                                 Rounding::stochastic);
                check(context, setting, x, sequences);
              }
    }
  }
}

TEST_CASE("quantize is its definition, for any scaling blocks, shards and threads",
          "[unit][quantize]") {
  quantize_definition(Table::part);
}
TEST_CASE("quantize is its definition, for any scaling blocks, shards and threads: all",
          "[slow][quantize]") {
  quantize_definition(Table::whole);
}

TEST_CASE("quantize takes any shape and layout", "[unit][quantize]") {
  auto context = make_context({.threads = 3});
  for (const Shape& shape : {Shape{1}, Shape{0}, Shape{5000}, Shape{0, 5}, Shape{5, 0}, Shape{1, 1},
                             Shape{3, 4500}, Shape{2, 3, 65}, Shape{600, 1}})
    for (const Granularity granularity : granularities)
      for (const bool along_rows : {false, true}) {
        INFO(to_string(shape) << ", granularity " << static_cast<int>(granularity)
                              << ", along rows " << along_rows);
        const QuantizeSetting setting{
            .quantizer = quantizer_of(formats::fp6_e2m3, granularity, ScaleFormat::mx),
            .along_rows = along_rows};
        check(context, setting, hard(context, shape));
      }
  const Tensor whole = hard(context, Shape{70, 130});
  for (const Granularity granularity : granularities) {
    const QuantizeSetting setting{
        .quantizer = quantizer_of(formats::fp8_e4m3, granularity, ScaleFormat::fp32)};
    check(context, setting, whole.transpose(0, 1));
    check(context, setting, whole.slice(1, 3, 100, 2));
    check(context, setting, as_bf16(context, whole).slice(0, 7, 41));
  }
}

TEST_CASE("quantize without a scale, and with a given one", "[unit][quantize]") {
  auto context = make_context({.threads = 2});
  const Tensor x = hard(context, Shape{37, 61});
  for (const NamedFormat& named : named_formats) {
    if (!named.format.is_signed) continue;
    for (const FloatFormat& format :
         {named.format, named.format.with(Overflow::saturate), named.format.with_bias(11)}) {
      if (format.problem() != nullptr) continue;
      for (const Granularity granularity : {Granularity::tensor, Granularity::group_32}) {
        INFO(to_string(format));
        check(
            context,
            {.quantizer = {.format = format, .scaling = {.granularity = granularity}}, .scale = 7},
            x);
      }
      for (const float scale : {1.0f, 0.3f, 0x1p-100f})
        check(context,
              {.quantizer = {.format = format, .scaling = {.policy = ScalePolicy::delayed}},
               .scale = scale},
              x);
    }
  }
}

TEST_CASE("the type of quantized numbers", "[unit][quantize]") {
  constexpr auto type = [](const FloatFormat& format, Granularity granularity,
                           ScaleFormat scale = ScaleFormat::power_of_two,
                           ScalePolicy policy = ScalePolicy::current) {
    return quantized_dtype(
        {.format = format,
         .scaling = {.policy = policy, .granularity = granularity, .format = scale}});
  };
  STATIC_REQUIRE(type(formats::fp8_e4m3fn, Granularity::tensor) == DType::fp8_e4m3fn);
  STATIC_REQUIRE(type(formats::fp8_e4m3fn.with(Overflow::saturate), Granularity::tensor,
                      ScaleFormat::fp32) == DType::fp8_e4m3fn);
  STATIC_REQUIRE(type(formats::fp8_e5m2, Granularity::row, ScaleFormat::fp32, ScalePolicy::none) ==
                 DType::fp8_e5m2);
  STATIC_REQUIRE(type(formats::tf32, Granularity::tensor, ScaleFormat::fp32, ScalePolicy::none) ==
                 DType::tf32);
  STATIC_REQUIRE(type(formats::fp8_e4m3fn, Granularity::row) == DType::bf16);
  STATIC_REQUIRE(type(formats::fp8_e4m3fn, Granularity::group_32, ScaleFormat::mx) == DType::bf16);
  STATIC_REQUIRE(type(formats::fp8_e4m3fn, Granularity::row, ScaleFormat::fp32) == DType::fp32);
  STATIC_REQUIRE(type(formats::fp16, Granularity::row) == DType::fp32);
  STATIC_REQUIRE(type(formats::fp8_e4m3.with_bias(11), Granularity::tensor) == DType::bf16);
  STATIC_REQUIRE(type(formats::fp8_e4m3.with_bias(11), Granularity::tensor, ScaleFormat::fp32) ==
                 DType::fp32);
  STATIC_REQUIRE(type(formats::fp8_e4m3.with_bias(11), Granularity::tensor, ScaleFormat::fp32,
                      ScalePolicy::none) == DType::bf16);
  STATIC_REQUIRE(type(formats::fp8_e4m3.with_bias(140), Granularity::row) == DType::fp32);
}

TEST_CASE("stochastic codes follow the sequence, not its place in the batch", "[unit][quantize]") {
  auto context = make_context({.threads = 2});
  const std::vector<std::size_t> lengths{5, 40, 0, 17};
  const std::size_t columns = 70;
  const Tensor x = random_tensor(context, Shape{62, columns}, "batch", 3);
  const Sequences batch = Sequences::from_lengths(context, lengths, {.first_ordinal = 20});
  QuantizeSetting setting{.draw = {.seed = 1, .stream = 2, .step = 3}};
  for (const Granularity granularity :
       {Granularity::row, Granularity::block_1x128, Granularity::group_32}) {
    setting.quantizer = quantizer_of(formats::fp8_e5m2, granularity, ScaleFormat::power_of_two,
                                     Rounding::stochastic);
    const Tensor whole = run(context, ops::quantize, setting, {x}, batch)[0];
    // The last two sequences, in the other order.
    const std::vector<std::size_t> other_lengths{17, 40};
    const std::vector<std::uint64_t> ordinals{23, 21};
    const Tensor parts[] = {x.slice(0, 45, 62), x.slice(0, 5, 45)};
    const Tensor other = run(context, *context.built_in().concatenate, std::size_t{0}, parts)[0];
    const Tensor again =
        run(context, ops::quantize, setting, {other},
            Sequences::from_lengths(context, other_lengths, {.ordinals = ordinals}))[0];
    CHECK((bits(context, again.slice(0, 0, 17)) == bits(context, whole.slice(0, 45, 62))));
    CHECK((bits(context, again.slice(0, 17, 57)) == bits(context, whole.slice(0, 5, 45))));
    // Other ordinals and other steps draw other words.
    setting.draw.step = 4;
    CHECK((bits(context, run(context, ops::quantize, setting, {x}, batch)[0]) !=
           bits(context, whole)));
    setting.draw.step = 3;
    CHECK((bits(context, run(context, ops::quantize, setting, {x})[0]) != bits(context, whole)));
  }
}

TEST_CASE("what quantize refuses", "[unit][quantize]") {
  auto context = make_context({.threads = 1});
  const Tensor x = hard(context, Shape{3, 4});
  const auto refused = [&](const QuantizeSetting& setting) {
    return message_of([&] { static_cast<void>(run(context, ops::quantize, setting, {x})); });
  };
  CHECK(refused({.quantizer = {.format = formats::fp8_e4m3fn,
                               .scaling = {.policy = ScalePolicy::delayed,
                                           .granularity = Granularity::row}}}) ==
        "quantize: scaling.policy is delayed, for granules smaller than a tensor, wanted current, "
        "or Granularity::tensor [scaling.invalid]");
  for (const float scale : {0.0f, -1.0f, std::numeric_limits<float>::infinity()})
    CHECK(refused({.quantizer = {.scaling = {.policy = ScalePolicy::delayed}}, .scale = scale})
              .ends_with("wanted positive and finite, or NaN, with which all numbers read NaN "
                         "[scaling.invalid]"));
  CHECK(refused({.quantizer = {.scaling = {.margin = 65}}}).ends_with("[scaling.invalid]"));
  CHECK(refused({.quantizer = {.format = formats::e8m0}}) ==
        "quantize: format is e8m0, wanted a format with a sign and a zero [format.impossible]");
  CHECK(refused({.quantizer = {.format = {.exponent_bits = 9}}}).ends_with("[format.impossible]"));
  CHECK(refused({.quantizer = {.rotation = {.size = 32}}}) ==
        "quantize: rotation is 32, wanted 0: a product rotates both of its operands before they "
        "are converted [operator.value]");
  CHECK(refused({.quantizer = {.rounding = {RoundingMode::stochastic, 33}}})
            .ends_with("[rounding.random_bits]"));
  CHECK(id_of([&] {
          static_cast<void>(run(context, ops::quantize, QuantizeSetting{}, {ints(context, {1})}));
        }) == "tensor.dtype");
  CHECK(id_of([&] {
          static_cast<void>(run(context, ops::quantize, QuantizeSetting{},
                                {Tensor::from(context, {1.0f}, Shape{})}));
        }) == "tensor.rank");
  const Tensor wide = Tensor::zeros(context, Shape{1, (std::size_t{1} << 20) + 1});
  CHECK(id_of([&] {
          static_cast<void>(run(context, ops::quantize,
                                QuantizeSetting{.quantizer = {.format = formats::fp8_e5m2,
                                                              .rounding = Rounding::stochastic}},
                                {wide}));
        }) == "random.index_range");
}
