// The quantize kernel against its definition element by element, and against convert() there and
// back.

#include <soma/kernels/table.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/every_target.hpp"
#include "support/floating_dtypes.hpp"
#include "support/matrices.hpp"
#include "support/samples.hpp"
#include "support/table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

// The arguments of a case, without memory.
struct Task {
  std::size_t rows = 1, columns = 1, group_rows = 0, group_columns = 0;
  FloatFormat format = formats::fp8_e4m3fn;
  Rounding rounding{};
  Scaling scaling{};
  DType type = DType::fp32;
  bool codes = false;
  Draw draw{.seed = 3, .stream = 9};
  std::size_t draw_row_stride = 0;

  std::size_t grid_rows() const { return parts(rows, group_rows); }
  std::size_t grid_columns() const { return parts(columns, group_columns); }
  std::size_t block_of(std::size_t i) const {
    const std::size_t row = i / columns, column = i % columns;
    return (group_rows == 0 ? 0 : row / group_rows) * grid_columns() +
           (group_columns == 0 ? 0 : column / group_columns);
  }
  static std::size_t parts(std::size_t extent, std::size_t each) {
    return each == 0 ? 1 : (extent + each - 1) / each;
  }
};

// Compilers may multiply by 1 where nothing was asked for, which changes a signalling NaN.
float product(float a, float b) {
  const volatile float kept = a;
  return kept * b;
}

struct Outcome {
  std::vector<std::byte> y;
  std::vector<float> scales, amax;
};

// The definition.
Outcome expected(const Task& task, const std::vector<float>& x, const std::vector<float>& given,
                 const std::vector<std::uint64_t>& row_indices = {}) {
  const FloatFormat& format = task.format;
  Outcome result;
  result.amax.assign(task.grid_rows() * task.grid_columns(), 0.0f);
  for (std::size_t i = 0; i < x.size(); ++i) {
    float& amax = result.amax[task.block_of(i)];
    if (std::isfinite(x[i])) amax = (std::max)(amax, std::fabs(x[i]));
  }
  result.scales = given;
  std::vector<float> counted = result.amax;
  if (has_nan_scales(task.scaling, format))
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!std::isfinite(x[i])) counted[task.block_of(i)] = std::numeric_limits<float>::infinity();
  if (task.scaling.policy == ScalePolicy::current)
    for (std::size_t g = 0; g < given.size(); ++g)
      result.scales[g] = scale_for(task.scaling, format, counted[g]);
  const bool scaled = task.scaling.policy != ScalePolicy::none;
  const float limit = decode(format, format.max_finite_code());
  const FloatFormat& stored = format_of(task.type);
  const std::size_t width = size_of(task.type);
  result.y.resize(x.size() * width);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t row = i / task.columns, column = i % task.columns;
    const float scale = scaled ? result.scales[task.block_of(i)] : 1;
    float value = x[i];
    if (scaled) value = product(value, 1.0f / scale);
    if (std::isnan(scale)) value = scale;
    if (scaled && std::isfinite(x[i])) value = (std::clamp)(value, -limit, limit);
    const std::uint64_t offset =
        (row_indices.empty() ? row * task.draw_row_stride : row_indices[row]) + column;
    const std::uint32_t word =
        task.rounding.mode == RoundingMode::stochastic
            ? rounding_word(task.draw, random_bits(task.rounding, format), offset)
            : 0;
    std::uint32_t code = encode(format, value, task.rounding, word);
    if (!task.codes) {
      float back = decode(format, code);
      if (scaled) back = product(back, scale);
      code = encode(stored, back);
    }
    put_code(code << stored.storage_shift(), width, result.y.data() + i * width);
  }
  return result;
}

Outcome actual(Context& context, const Task& task, const MatrixOperand& x, std::vector<float> given,
               const std::vector<std::uint64_t>& row_indices = {}) {
  Outcome result;
  const std::size_t width = size_of(task.type), room = 64;
  result.y.assign(task.rows * task.columns * width + room, std::byte{0xA5});
  result.scales = std::move(given);
  result.amax.assign(task.grid_rows() * task.grid_columns(), 0.0f);
  context.kernels().quantize(
      {.rows = task.rows,
       .columns = task.columns,
       .x = x,
       .y = {.data = result.y.data(),
             .dtype = task.type,
             .row_stride = task.columns,
             .rounding = task.rounding,
             .draw = task.draw,
             .draw_row_stride = task.draw_row_stride,
             .row_indices = row_indices.empty() ? nullptr : row_indices.data()},
       .format = task.format,
       .scaling = task.scaling,
       .group_rows = task.group_rows,
       .group_columns = task.group_columns,
       .codes = task.codes,
       .scales = result.scales.data(),
       .amax = result.amax.data(),
       .group_stride = task.grid_columns()});
  const std::vector<std::byte> behind(result.y.end() - room, result.y.end());
  CHECK(behind == std::vector<std::byte>(room, std::byte{0xA5}));
  result.y.resize(result.y.size() - room);
  return result;
}

std::vector<std::uint32_t> bits_of_all(const std::vector<float>& values) {  // NaN equals NaN
  std::vector<std::uint32_t> result;
  for (const float value : values) result.push_back(std::bit_cast<std::uint32_t>(value));
  return result;
}

void compare(const Outcome& given, const Outcome& wanted) {
  CHECK((bits_of_all(given.scales) == bits_of_all(wanted.scales)));
  CHECK(given.amax == wanted.amax);
  CHECK(given.y.size() == wanted.y.size());
  std::size_t first = 0;
  while (first < given.y.size() && given.y[first] == wanted.y[first]) ++first;
  CHECK(first == wanted.y.size());  // the first byte that differs
}

// The type that stores codes of a format, fp32 where there is none.
DType type_of(const FloatFormat& format) {
  for (const DType type : floating_dtypes)
    if (format_of(type) == format.with(Overflow::special)) return type;
  return DType::fp32;
}

std::vector<FloatFormat> tested_formats() {
  std::vector<FloatFormat> all{
      formats::fp8_e4m3.with_bias(11),
      formats::fp8_e4m3.with_bias(-3),
      formats::fp8_e5m2.with_bias(120),
      formats::fp8_e4m3fn.with(Overflow::saturate),
      formats::fp8_e5m2.with(Overflow::nan),
      formats::bf16.with_bias(130),
      {.exponent_bits = 1, .mantissa_bits = 2, .bias = 1},
      {.exponent_bits = 5, .mantissa_bits = 0, .bias = 15, .specials = Specials::none},
      {.exponent_bits = 4, .mantissa_bits = 12, .bias = 7}};
  all.back().subnormals = Subnormals::flushed;
  for (const NamedFormat& named : named_formats)
    if (named.format.is_signed && named.format.has_zero()) all.push_back(named.format);
  return all;
}

std::vector<float> every_bf16() {
  std::vector<float> values(65536);
  for (std::uint32_t code = 0; code < 65536; ++code) values[code] = decode(formats::bf16, code);
  return values;
}

}  // namespace

static void codec_numbers(Table table) {
  std::vector<std::uint16_t> narrow(65536);
  for (std::size_t i = 0; i < narrow.size(); ++i) narrow[i] = static_cast<std::uint16_t>(i);
  const std::vector<float> halves = every_bf16(), wide = hard_floats(20011);
  on_every_target([&](Context& context) {
    for (const FloatFormat& format : tested_formats())
      for (const float scale : {0.0f, 1.0f, 0.3f, 0x1p-20f, 0x1p100f, 0x1p-126f})
        for (const int target : {0, 1, 2}) {
          // All scales for one format, all formats for two scales.
          if (table == Table::part && scale != 0 && scale != 0.3f && format != formats::fp8_e4m3)
            continue;
          Task task{.rows = 512, .columns = 128, .format = format};
          if (scale != 0) task.scaling.policy = ScalePolicy::delayed;
          task.codes = target == 0;
          task.type = target == 0 ? type_of(format) : target == 1 ? DType::bf16 : DType::fp32;
          if (task.codes && task.type == DType::fp32 && format != formats::fp32) continue;
          INFO(to_string(format) << ", scale " << scale << ", target " << target);
          const std::vector<float> scales{scale};
          compare(actual(context, task,
                         {.data = narrow.data(), .dtype = DType::bf16, .row_stride = 128}, scales),
                  expected(task, halves, scales));
          task.rows = 1;
          task.columns = wide.size();
          compare(actual(context, task, plain(wide, wide.size()), scales),
                  expected(task, wide, scales));
        }
  });
}

TEST_CASE("quantized numbers are those of the scalar codec, whatever they are",
          "[unit][quantize]") {
  codec_numbers(Table::part);
}
TEST_CASE("quantized numbers are those of the scalar codec, whatever they are: all",
          "[slow][quantize]") {
  codec_numbers(Table::whole);
}

TEST_CASE("scales of the quantize kernel are those of scale_for", "[unit][quantize]") {
  on_every_target([&](Context& context) {
    const std::vector<float> x = hard_floats(2000);
    for (const FloatFormat& format : tested_formats())
      for (const ScaleFormat scale_format :
           {ScaleFormat::fp32, ScaleFormat::power_of_two, ScaleFormat::mx, ScaleFormat::e4m3})
        for (const int margin : {0, 3, 64}) {
          const Task task{
              .rows = x.size(),
              .group_rows = 1,
              .format = format,
              .scaling = {
                  .policy = ScalePolicy::current, .format = scale_format, .margin = margin}};
          INFO(to_string(format) << ", scale " << static_cast<int>(scale_format) << ", margin "
                                 << margin);
          const std::vector<float> scales(x.size(), -1.0f);
          compare(actual(context, task, plain(x, 1), scales), expected(task, x, scales));
        }
  });
}

TEST_CASE("scaling blocks of every size, roundings and types", "[unit][quantize]") {
  struct Size {
    std::size_t rows, columns;
  };
  struct Group {
    std::size_t rows, columns;
  };
  on_every_target([&](Context& context) {
    for (const Size size : {Size{1, 1}, Size{5, 31}, Size{70, 257}, Size{3, 1100}})
      for (const Group group :
           {Group{0, 0}, Group{1, 0}, Group{1, 128}, Group{128, 128}, Group{1, 32}, Group{32, 1},
            Group{1, 16}, Group{16, 16}, Group{16, 1}, Group{0, 1}, Group{7, 96}, Group{2, 1024}})
        for (const ScalePolicy policy : {ScalePolicy::current, ScalePolicy::delayed})
          for (const Rounding rounding :
               {Rounding::nearest_even, Rounding::toward_zero, Rounding::stochastic})
            for (const DType type : {DType::fp32, DType::bf16, DType::fp8_e4m3fn}) {
              const Task task{
                  .rows = size.rows,
                  .columns = size.columns,
                  .group_rows = group.rows,
                  .group_columns = group.columns,
                  .rounding = rounding,
                  .scaling = {.policy = policy,
                              .format = type == DType::fp32 ? ScaleFormat::fp32 : ScaleFormat::mx},
                  .type = type,
                  .codes = type == DType::fp8_e4m3fn,
                  .draw_row_stride = 2000};
              std::vector<float> x = hard_floats(size.rows * size.columns);
              if (x.size() > 700) std::fill(x.begin() + 128, x.begin() + 500, 0.0f);
              std::vector<float> scales(task.grid_rows() * task.grid_columns());
              for (std::size_t g = 0; g < scales.size(); ++g)
                scales[g] = 0.25f + 0.01f * static_cast<float>(g % 7);
              INFO(size.rows << " x " << size.columns << " in " << group.rows << " x "
                             << group.columns << ", policy " << static_cast<int>(policy)
                             << ", rounding " << to_string(rounding.mode) << ", to "
                             << to_string(type));
              compare(actual(context, task, plain(x, size.columns), scales),
                      expected(task, x, scales));
              if (rounding.mode != RoundingMode::stochastic) continue;
              std::vector<std::uint64_t> indices(size.rows);
              for (std::size_t row = 0; row < size.rows; ++row)
                indices[row] = token_index(size.rows - row, row * 3, 0);
              compare(actual(context, task, plain(x, size.columns), scales, indices),
                      expected(task, x, scales, indices));
            }
  });
}

// Powers of two as scales of bf16 numbers have loops of their own.
static void powers_of_two(Table table) {
  std::vector<std::uint16_t> every(65536), mixed(65536);  // the same of all, and groups of a range
  for (std::size_t i = 0; i < every.size(); ++i) {
    every[i] = static_cast<std::uint16_t>(i * 257);  // all exponents in turn
    const std::uint32_t word = random_word({.seed = 8}, i),
                        group = random_word({.seed = 9}, i / 32);
    const std::uint32_t exponent = 60 + group % 130 - word / 7 % 24;
    mixed[i] = static_cast<std::uint16_t>((word & 0x807Fu) | exponent << 7);
    if (group % 11 == 0) mixed[i] &= 0x8000;
  }
  const std::size_t rows = table == Table::whole ? 64 : 34;
  constexpr std::size_t columns = 1024;
  struct Group {
    std::size_t rows, columns;
  };
  on_every_target([&](Context& context) {
    for (const std::vector<std::uint16_t>* numbers : {&every, &mixed}) {
      std::vector<float> x;
      for (const std::uint16_t code : *numbers) x.push_back(decode(formats::bf16, code));
      for (const FloatFormat& format : tested_formats())
        for (const Group group : {Group{1, 32}, Group{32, 1}, Group{32, 32}})
          for (const Rounding rounding :
               {Rounding::nearest_even, Rounding{RoundingMode::stochastic, 16}})
            for (const bool codes : {false, true}) {
              Task task{.rows = rows,
                        .columns = columns - (group.rows == 1 ? 0 : 3),
                        .group_rows = group.rows,
                        .group_columns = group.columns,
                        .format = format,
                        .rounding = rounding,
                        .scaling = {.policy = ScalePolicy::current,
                                    .format = group.columns == 1 ? ScaleFormat::power_of_two
                                                                 : ScaleFormat::mx},
                        .type = DType::bf16,
                        .codes = codes,
                        .draw_row_stride = 5000};
              if (codes) task.type = type_of(format);
              if (size_of(task.type) == 4) continue;
              if (table == Table::part && codes == (numbers == &every)) continue;
              INFO(to_string(format) << " in " << group.rows << " x " << group.columns << ", "
                                     << to_string(rounding.mode) << (codes ? ", codes" : ""));
              std::vector<float> part;
              for (std::size_t i = 0; i < task.rows; ++i)
                part.insert(part.end(), x.begin() + static_cast<std::ptrdiff_t>(i * columns),
                            x.begin() + static_cast<std::ptrdiff_t>(i * columns + task.columns));
              const std::vector<float> scales(task.grid_rows() * task.grid_columns(), -1.0f);
              compare(actual(context, task,
                             {.data = numbers->data(), .dtype = DType::bf16, .row_stride = columns},
                             scales),
                      expected(task, part, scales));
            }
    }
  });
}

TEST_CASE("bf16 numbers with powers of two as scales, in all formats", "[unit][quantize]") {
  powers_of_two(Table::part);
}
TEST_CASE("bf16 numbers with powers of two as scales, in all formats: all", "[slow][quantize]") {
  powers_of_two(Table::whole);
}

TEST_CASE("quantize reads every type and layout", "[unit][quantize]") {
  on_every_target([&](Context& context) {
    for (const DType dtype : floating_dtypes)
      for (const Layout layout : layouts)
        for (const std::size_t group : {std::size_t{32}, std::size_t{1}, std::size_t{0}}) {
          const Task task{.rows = 33,
                          .columns = 67,
                          .group_rows = group == 1 ? 32u : 1u,
                          .group_columns = group,
                          .scaling = {.policy = ScalePolicy::current},
                          .type = DType::bf16};
          RandomFloats random(21);
          const StoredMatrix x = store_matrix(task.rows, task.columns, dtype, layout, random,
                                              group == 0 ? 0.7f : 1.0f);
          INFO(to_string(dtype) << ", layout " << static_cast<int>(layout) << ", group " << group);
          const std::vector<float> scales(task.grid_rows() * task.grid_columns());
          compare(actual(context, task, x.operand, scales), expected(task, x.values, scales));
        }
  });
}

TEST_CASE("quantize is convert there and back", "[unit][quantize]") {
  auto context = make_context({.threads = 2});
  const FloatEnvironment environment;
  const std::size_t rows = 150, columns = 301;
  const std::vector<float> x = hard_floats(rows * columns);
  for (const Granularity granularity :
       {Granularity::tensor, Granularity::row, Granularity::block_1x128, Granularity::block_128x128,
        Granularity::group_32})
    for (const ScaleFormat scale_format :
         {ScaleFormat::fp32, ScaleFormat::power_of_two, ScaleFormat::mx})
      for (const FloatFormat& format : {formats::fp8_e4m3fn, formats::fp8_e5m2, formats::fp6_e3m2,
                                        formats::fp8_e4m3.with_bias(11)}) {
        const Scaling scaling{
            .policy = ScalePolicy::current, .granularity = granularity, .format = scale_format};
        const ScalingBlock g = scaling_block(granularity);
        const Task task{.rows = rows,
                        .columns = columns,
                        .group_rows = g.rows,
                        .group_columns = g.columns,
                        .format = format,
                        .scaling = scaling};
        Outcome wanted;
        wanted.scales.resize(scale_grid(granularity, rows, columns).size());
        wanted.amax.resize(wanted.scales.size());
        std::vector<std::byte> codes(x.size());
        wanted.y.resize(x.size() * sizeof(float));
        const CodeSpan stored{format, codes.data(), rows, columns, columns};
        convert(context,
                ConstCodeSpan{formats::fp32, std::as_bytes(std::span(x)).data(), rows, columns,
                              4 * columns},
                stored, {.scaling = scaling, .scales = wanted.scales, .amax = wanted.amax});
        convert(context, ConstCodeSpan(stored),
                CodeSpan{formats::fp32, wanted.y.data(), rows, columns, 4 * columns},
                {.source_granularity = granularity, .source_scales = wanted.scales});
        INFO("granularity " << static_cast<int>(granularity) << ", scale "
                            << static_cast<int>(scale_format) << ", " << to_string(format));
        compare(actual(context, task, plain(x, columns), std::vector<float>(wanted.scales.size())),
                wanted);
      }
}

TEST_CASE("amax is joined with what was there, and can be had alone", "[unit][quantize]") {
  on_every_target([&](Context& context) {
    std::vector<float> x(300, 1.0f);
    x[7] = -9.5f;
    x[8] = std::numeric_limits<float>::infinity();
    x[9] = std::numeric_limits<float>::quiet_NaN();
    x[299] = 3;
    std::vector<float> amax{2, 2, 2}, scales{7, 7, 7};
    QuantizeArgs args{.rows = 1,
                      .columns = 300,
                      .x = plain(x, 300),
                      .format = formats::fp8_e4m3fn,
                      .scaling = {.policy = ScalePolicy::current},
                      .group_columns = 128,
                      .scales = scales.data(),
                      .amax = amax.data()};
    context.kernels().quantize(args);
    CHECK(amax == std::vector<float>{9.5f, 2, 3});
    CHECK(scales == std::vector<float>{7, 7, 7});
    args.columns = 0;
    context.kernels().quantize(args);
    args.columns = 300;
    args.rows = 0;
    context.kernels().quantize(args);
    CHECK(amax == std::vector<float>{9.5f, 2, 3});
    // Without scales nothing is multiplied, and nothing saturates but by the format's own rule.
    std::vector<float> y(1), large{1e9f};
    context.kernels().quantize({.rows = 1,
                                .columns = 1,
                                .x = plain(large, 1),
                                .y = plain_target(y, 1),
                                .format = formats::fp8_e5m2,
                                .scaling = {.policy = ScalePolicy::current}});
    CHECK(y[0] == std::numeric_limits<float>::infinity());
  });
}
