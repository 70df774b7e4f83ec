// Reductions: against a plain reference in double, and bit by bit against their defined order, on
// every target and for every element type.

#include <soma/kernels/reference/reduce.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/every_target.hpp"
#include "support/floating_dtypes.hpp"
#include "support/row_sums.hpp"
#include "support/samples.hpp"
#include "support/stored_run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

using namespace soma;
using soma_test::on_every_target;
using soma_test::row_sum;
using soma_test::row_sum_steps;
using soma_test::same_bits;
using soma_test::small_floats;
using soma_test::stored;
using soma_test::value_of;
using soma_test::values_of;

namespace {

constexpr double epsilon32 = 0x1p-24;  // half a unit in the last place of 1
constexpr float infinity = std::numeric_limits<float>::infinity();

// The order of a sum of squares: 16 lanes, then pairs.
template <class T, class Term>
T sum_in_lanes(std::size_t count, const Term& term) {
  std::array<T, 16> lane{};
  for (std::size_t i = 0; i < count; ++i) lane[i % 16] += term(i);
  for (std::size_t half = 8; half != 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

// Bytes of any type: rounded finite numbers, or random integers.
std::vector<std::byte> sample(DType dtype, std::size_t count) {
  if (is_floating(dtype)) return stored(dtype, small_floats(dtype, count));
  std::vector<std::byte> bytes(count * size_of(dtype));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto word = random_word({.seed = 5}, i);
    bytes[i] = static_cast<std::byte>(dtype == DType::boolean ? word & 1 : word);
  }
  return bytes;
}

// Row `row` of an operand over `bytes`, as floats.
std::vector<float> row_of(const MatrixOperand& x, std::span<const std::byte> bytes, std::size_t row,
                          std::size_t columns) {
  std::vector<float> values(columns);
  for (std::size_t c = 0; c < columns; ++c) {
    values[c] = value_of(x.dtype, bytes, row * x.row_stride + c * x.column_stride);
    if (x.dtype == DType::int8 || x.dtype == DType::uint8)
      values[c] = (values[c] - static_cast<float>(x.zero_point)) * x.scale;
    else if (x.scale != 1)
      values[c] *= x.scale;
  }
  return values;
}

void check_rows(Context& context, const MatrixOperand& x, std::span<const std::byte> bytes,
                std::size_t rows, std::size_t columns) {
  for (const Reduction reduction : {Reduction::sum, Reduction::maximum, Reduction::minimum}) {
    std::vector<float> out(rows + 1, 77.0f);
    context.kernels().reduce.rows(
        {.reduction = reduction, .rows = rows, .columns = columns, .x = x, .out = out.data()});
    for (std::size_t r = 0; r < rows; ++r) {
      const std::vector<float> row = row_of(x, bytes, r, columns);
      const std::vector<double> wide(row.begin(), row.end());
      const double expected = reference::reduce<double>(reduction, wide);
      INFO("reduction " << static_cast<int>(reduction) << ", row " << r << " of " << columns);
      if (reduction != Reduction::sum) {
        CHECK(static_cast<double>(out[r]) == expected);
        continue;
      }
      double magnitudes = 0;
      for (const double value : wide) magnitudes += std::fabs(value);
      CHECK(std::fabs(static_cast<double>(out[r]) - expected) <=
            row_sum_steps(columns) * epsilon32 * magnitudes);
      CHECK(out[r] == row_sum(columns, [&](std::size_t i, float sum) { return sum + row[i]; }));
    }
    CHECK(out[rows] == 77.0f);
  }
}

}  // namespace

TEST_CASE("rows reduce in the defined order", "[unit][reduce]") {
  on_every_target([](Context& context) {
    for (const std::size_t columns : std::vector<std::size_t>{
             0, 1, 7, 15, 16, 17, 31, 33, 511, 512, 513, 1009, 1024, 1025, 2048, 5000, 7169})
      for (const std::size_t rows : std::vector<std::size_t>{0, 1, 3}) {
        const auto bytes = sample(DType::fp32, 3 * (2 * columns + 5));
        check_rows(context, {.data = bytes.data(), .row_stride = columns + 5}, bytes, rows,
                   columns);
        check_rows(context,
                   {.data = bytes.data(), .row_stride = 2 * columns + 5, .column_stride = 2}, bytes,
                   rows, columns);
        check_rows(context, {.data = bytes.data(), .row_stride = 1, .column_stride = 3}, bytes,
                   rows < 2 ? rows : 2, columns / 2);
      }
  });
}

TEST_CASE("rows reduce from every type", "[unit][reduce]") {
  on_every_target([](Context& context) {
    for (const DType dtype : dtypes) {
      INFO(std::string(to_string(dtype)));
      const std::size_t columns = 531;
      const auto bytes = sample(dtype, 2 * 3 * columns);
      MatrixOperand x{.data = bytes.data(), .dtype = dtype, .row_stride = columns};
      check_rows(context, x, bytes, 2, columns);
      x = {.data = bytes.data(), .dtype = dtype, .row_stride = 3 * columns, .column_stride = 3};
      check_rows(context, x, bytes, 2, columns);
      if (is_floating(dtype) || size_of(dtype) == 1) {
        x.scale = 0.3f;
        if (!is_floating(dtype) && dtype != DType::boolean) x.zero_point = 17;
        if (dtype != DType::boolean) check_rows(context, x, bytes, 2, columns);
      }
    }
  });
}

TEST_CASE("the error of a long row stays below 68 + log2(n / 1024) units", "[unit][reduce]") {
  on_every_target([](Context& context) {
    // Equal numbers are the hardest: their roundings all go the same way.
    const std::vector<float> equal((std::size_t{1} << 22) + 1, 0.1f);
    for (const std::size_t columns : {std::size_t{1} << 12, std::size_t{1} << 20, equal.size()}) {
      float sum = 0;
      context.kernels().reduce.rows(
          {.rows = 1, .columns = columns, .x = {.data = equal.data()}, .out = &sum});
      const double wanted = static_cast<double>(0.1f) * static_cast<double>(columns);
      CHECK(row_sum_steps(columns) <=
            68 + std::ceil(std::log2(static_cast<double>(columns) / 1024)));
      CHECK(std::fabs(static_cast<double>(sum) - wanted) <=
            row_sum_steps(columns) * epsilon32 * wanted);
    }
  });
}

TEST_CASE("a window reduces as a row of its elements", "[unit][reduce]") {
  on_every_target([](Context& context) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::uint8})
      for (const std::size_t line : {1, 3, 16, 35, 600})
        for (const std::size_t lines : {1, 2, 7, 40}) {
          const std::size_t stride = line + 5, columns = line * lines;
          const auto bytes = sample(dtype, stride * lines + 2);
          const MatrixOperand x{.data = bytes.data(), .dtype = dtype, .row_stride = 2};
          for (const Reduction reduction :
               {Reduction::sum, Reduction::maximum, Reduction::minimum}) {
            float out[2] = {};
            context.kernels().reduce.rows({.reduction = reduction,
                                           .rows = 2,
                                           .columns = columns,
                                           .x = x,
                                           .line = line,
                                           .line_stride = stride,
                                           .out = out});
            for (std::size_t r = 0; r < 2; ++r) {
              std::vector<float> window;
              for (std::size_t i = 0; i < columns; ++i)
                window.push_back(value_of(dtype, bytes, 2 * r + i / line * stride + i % line));
              float wanted = 0;
              context.kernels().reduce.rows({.reduction = reduction,
                                             .rows = 1,
                                             .columns = columns,
                                             .x = {.data = window.data()},
                                             .out = &wanted});
              INFO(lines << " lines of " << line << ", " << to_string(dtype));
              CHECK(out[r] == wanted);
            }
          }
        }
  });
}

TEST_CASE("NaN and infinities reduce as they should", "[unit][reduce]") {
  on_every_target([](Context& context) {
    for (const std::size_t columns : std::vector<std::size_t>{1, 5, 16, 29, 600})
      for (const std::size_t at : {std::size_t{0}, columns / 2, columns - 1})
        for (const float special : {std::nanf(""), -std::nanf(""), infinity, -infinity}) {
          std::vector<float> x(columns, -3.0f);
          x[at] = special;
          x[columns / 3] = columns / 3 == at ? special : 2.0f;
          for (const Reduction reduction :
               {Reduction::sum, Reduction::maximum, Reduction::minimum}) {
            float out = 0;
            context.kernels().reduce.rows({.reduction = reduction,
                                           .rows = 1,
                                           .columns = columns,
                                           .x = {.data = x.data(), .row_stride = columns},
                                           .out = &out});
            const float expected = reference::reduce<float>(reduction, x);
            INFO(columns << " columns, " << special << " at " << at);
            CHECK(same_bits(std::span(&out, 1), std::span(&expected, 1)));
          }
        }
    // Zeros: -0 is below +0.
    const float zeros[] = {0.0f, -0.0f, 0.0f};
    float out = 1;
    RowReduceArgs args{.reduction = Reduction::minimum,
                       .rows = 1,
                       .columns = 3,
                       .x = {.data = zeros, .row_stride = 3},
                       .out = &out};
    context.kernels().reduce.rows(args);
    CHECK((out == 0 && std::signbit(out)));
    args.reduction = Reduction::maximum;
    context.kernels().reduce.rows(args);
    CHECK((out == 0 && !std::signbit(out)));
  });
}

namespace {

// The fixed tree over segments first ... last - 1 of one column.
float tree(const std::vector<float>& column, const std::vector<std::size_t>& bounds,
           std::size_t first, std::size_t last) {
  if (last - first == 1) {
    float sum = 0;
    for (std::size_t r = bounds[first]; r < bounds[last]; ++r) sum += column[r];
    return sum;
  }
  const std::size_t middle = first + (last - first) / 2;
  return tree(column, bounds, first, middle) + tree(column, bounds, middle, last);
}

// `count` segments of 0 to `rows`, some of them empty.
std::vector<std::size_t> cut(std::size_t rows, std::size_t count) {
  std::vector<std::size_t> bounds{0};
  for (std::size_t i = 1; i < count; ++i)
    bounds.push_back(rows == 0 ? 0 : random_word({.seed = 3}, i) % (rows + 1));
  std::sort(bounds.begin(), bounds.end());
  bounds.push_back(rows);
  return bounds;
}

void check_columns(Context& context, const MatrixOperand& x, std::span<const std::byte> bytes,
                   std::size_t rows, std::size_t columns, std::size_t segments) {
  const std::vector<std::size_t> bounds = cut(rows, segments);
  std::vector<float> dense;
  for (std::size_t r = 0; r < rows; ++r) {
    const auto row = row_of(x, bytes, r, columns);
    dense.insert(dense.end(), row.begin(), row.end());
  }
  const std::vector<double> wide(dense.begin(), dense.end());
  std::vector<double> plain(columns);
  reference::column_sums(rows, columns, wide.data(), plain.data());
  std::vector<float> expected(columns);
  for (std::size_t c = 0; c < columns; ++c) {
    std::vector<float> column(rows);
    double magnitudes = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      column[r] = dense[r * columns + c];
      magnitudes += std::fabs(wide[r * columns + c]);
    }
    expected[c] = tree(column, bounds, 0, segments);
    REQUIRE(std::fabs(static_cast<double>(expected[c]) - plain[c]) <=
            static_cast<double>(rows) * epsilon32 * magnitudes);
  }
  INFO(rows << " x " << columns << ", " << segments << " segments");
  for (const bool accumulate : {false, true}) {
    std::vector<float> out(columns + 1, 0.3f), wanted(expected);
    if (accumulate)
      for (float& value : wanted) value = 0.3f + value;
    wanted.push_back(0.3f);
    ColumnSumArgs args{.rows = rows,
                       .columns = columns,
                       .x = x,
                       .segments = {bounds.data(), segments},
                       .accumulate = accumulate,
                       .out = out.data()};
    if (segments == 1) args.segments = {};
    context.kernels().reduce.column_sums(args);
    CHECK(same_bits(out, wanted));
    // Cut into two calls.
    if (columns < 2) continue;
    std::fill(out.begin(), out.end(), 0.3f);
    args.columns = columns / 3;
    context.kernels().reduce.column_sums(args);
    args.out += args.columns;
    args.x.data =
        static_cast<const std::byte*>(x.data) + args.columns * x.column_stride * size_of(x.dtype);
    args.columns = columns - args.columns;
    context.kernels().reduce.column_sums(args);
    CHECK(same_bits(out, wanted));
  }
}

}  // namespace

TEST_CASE("columns add up in the fixed tree, however they are cut", "[unit][reduce]") {
  on_every_target([](Context& context) {
    for (const DType dtype : {DType::fp32, DType::bf16}) {  // both are added where they lie
      INFO(std::string(to_string(dtype)));
      const auto operand = [&](const std::vector<std::byte>& bytes, std::size_t row_stride,
                               std::size_t column_stride = 1) {
        return MatrixOperand{.data = bytes.data(),
                             .dtype = dtype,
                             .row_stride = row_stride,
                             .column_stride = column_stride};
      };
      for (const std::size_t columns :
           std::vector<std::size_t>{0, 1, 15, 16, 17, 67, 255, 256, 257, 530})
        for (const std::size_t rows : std::vector<std::size_t>{0, 1, 5, 37}) {
          const auto bytes = sample(dtype, 40 * (2 * columns + 3));
          for (const std::size_t segments : std::vector<std::size_t>{1, 2, 8})
            check_columns(context, operand(bytes, columns + 3), bytes, rows, columns, segments);
          check_columns(context, operand(bytes, 2 * columns + 3, 2), bytes, rows, columns, 4);
        }
      // Wider than any piece, and as many segments as there may be.
      const auto wide = sample(dtype, 9 * 4200);
      check_columns(context, operand(wide, 4200), wide, 9, 4190, 1);
      check_columns(context, operand(wide, 4200), wide, 9, 4190, 2);
      const auto bytes = sample(dtype, 1500 * 19);
      check_columns(context, operand(bytes, 19), bytes, 1500, 19, 1024);
    }
  });
}

TEST_CASE("sums of many rows keep their digits", "[unit][reduce]") {
  CHECK(rows_of_run(0) == 512);
  CHECK(rows_of_run(512 * 512) == 512);
  CHECK(rows_of_run(512 * 1024) == 1024);
  on_every_target([](Context& context) {
    for (const std::size_t rows : {std::size_t{30'000}, std::size_t{600'000}}) {
      const std::vector<float> x(rows, 0.1f);
      float sum = 0;
      context.kernels().reduce.column_sums(
          {.rows = rows, .columns = 1, .x = {.data = x.data(), .row_stride = 1}, .out = &sum});
      const double exact = static_cast<double>(0.1f) * static_cast<double>(rows);
      const std::size_t run = rows_of_run(rows);
      CHECK(std::fabs(static_cast<double>(sum) - exact) <=
            static_cast<double>(run + rows / run) * epsilon32 * exact);
    }
  });
}

TEST_CASE("columns of every type add up", "[unit][reduce]") {
  on_every_target([](Context& context) {
    for (const DType dtype : dtypes) {
      INFO(std::string(to_string(dtype)));
      const auto bytes = sample(dtype, 23 * 300);
      MatrixOperand x{.data = bytes.data(), .dtype = dtype, .row_stride = 300};
      check_columns(context, x, bytes, 23, 275, 4);
    }
  });
}

TEST_CASE("sums of squares are the same in double everywhere", "[unit][reduce]") {
  on_every_target([](Context& context) {
    for (const DType dtype : soma_test::floating_dtypes)
      for (const std::size_t count :
           std::vector<std::size_t>{0, 1, 15, 16, 17, 33, 511, 513, 1600}) {
        INFO(std::string(to_string(dtype)) << ", " << count);
        const auto bytes = stored(dtype, small_floats(dtype, count));
        const std::vector<float> values = values_of(dtype, bytes);
        SumSquaresArgs args{.count = count, .x = bytes.data(), .dtype = dtype};
        context.kernels().reduce.sum_squares(args);
        const auto square = [&](std::size_t i) {
          return static_cast<double>(values[i]) * static_cast<double>(values[i]);  // exact
        };
        CHECK(args.result == sum_in_lanes<double>(count, square));
        const std::vector<long double> wide(values.begin(), values.end());
        const long double expected = reference::sum_squares<long double>(wide);
        // Positive terms, exact squares: n - 1 roundings of half a unit of the sum.
        CHECK(std::fabs(static_cast<double>(args.result - expected)) <=
              static_cast<double>(count) * 0x1p-53 * static_cast<double>(expected));
      }
    std::vector<float> values(100, 1.0f);
    SumSquaresArgs args{.count = 100, .x = values.data()};
    values[77] = -infinity;
    context.kernels().reduce.sum_squares(args);
    CHECK(args.result == std::numeric_limits<double>::infinity());
    values[99] = std::nanf("");
    context.kernels().reduce.sum_squares(args);
    CHECK(std::isnan(args.result));
  });
}

TEST_CASE("every special code is found, wherever it is", "[unit][reduce]") {
  on_every_target([](Context& context) {
    for (const DType dtype : soma_test::floating_dtypes) {
      const std::size_t width = size_of(dtype);
      const int shift = format_of(dtype).storage_shift();
      // Each code of narrow types among zeros; the edges of wide ones.
      std::vector<std::uint32_t> codes;
      if (width <= 2)
        for (std::uint32_t code = 0; code < (1u << (8 * width)); ++code) codes.push_back(code);
      else
        for (const float value : soma_test::hard_floats(300)) {
          std::uint32_t bits;
          std::memcpy(&bits, &value, sizeof bits);
          codes.push_back(bits >> shift << shift);
        }
      for (std::size_t i = 0; i < codes.size(); ++i) {
        const std::size_t count = 1 + i % 70, at = (i * 7) % count;
        std::vector<std::byte> bytes(count * width);
        soma_test::put(bytes, at, width, codes[i]);
        FiniteArgs args{.count = count, .x = bytes.data(), .dtype = dtype};
        context.kernels().reduce.all_finite(args);
        const std::vector<float> values = values_of(dtype, bytes);
        if (args.finite != reference::all_finite<float>(values)) {
          INFO(std::string(to_string(dtype)) << " code " << codes[i]);
          CHECK(false);
        }
      }
    }
    std::vector<float> values(10007, 1.0f);
    for (const std::size_t at : std::vector<std::size_t>{0, 4095, 4096, 9999, 10006}) {
      FiniteArgs args{.count = values.size(), .x = values.data()};
      context.kernels().reduce.all_finite(args);
      CHECK(args.finite);
      values[at] = std::nanf("");
      context.kernels().reduce.all_finite(args);
      CHECK(!args.finite);
      values[at] = 1;
    }
    const std::vector<std::int8_t> integers(40, -1);
    FiniteArgs args{.count = 40, .x = integers.data(), .dtype = DType::int8, .finite = false};
    context.kernels().reduce.all_finite(args);
    CHECK(args.finite);
  });
}
