// Sums over the rows of few columns, bit by bit against plain loops in the documented order: rows
// of a segment in runs, runs in order, segments in a tree. Runs are summed side by side, so lengths
// stand around the borders of runs, of sixteen runs and of pieces of them.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/every_target.hpp"
#include "support/floating_dtypes.hpp"
#include "support/stored_run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace soma;
using soma_test::on_every_target;
using soma_test::same_bits;
using soma_test::small_floats;
using soma_test::stored;
using soma_test::values_of;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

float segment_sum(const std::vector<float>& column, std::size_t first, std::size_t last) {
  const std::size_t run = rows_of_run(last - first);
  float sum = 0;
  for (std::size_t begin = first; begin < last; begin += run) {
    float part = 0;
    for (std::size_t row = begin; row < (std::min)(begin + run, last); ++row) part += column[row];
    sum = begin == first ? part : sum + part;
  }
  return sum;
}

float tree(const std::vector<float>& column, const std::vector<std::size_t>& bounds,
           std::size_t first, std::size_t last) {
  if (last - first == 1) return segment_sum(column, bounds[first], bounds[last]);
  const std::size_t middle = first + (last - first) / 2;
  return tree(column, bounds, first, middle) + tree(column, bounds, middle, last);
}

// Sums of all columns of the first rows of x, whose stored numbers are `values`.
void check(Context& context, const MatrixOperand& x, const std::vector<float>& values,
           std::size_t rows, std::size_t columns, const std::vector<std::size_t>& bounds) {
  std::vector<float> wanted(columns), out(columns, 0.5f);
  std::vector<float> column(rows);
  const std::size_t segments = bounds.size() - 1;
  for (std::size_t c = 0; c < columns; ++c) {
    for (std::size_t r = 0; r < rows; ++r) {
      column[r] = values[r * x.row_stride + c * x.column_stride];
      if (x.scale != 1) column[r] *= x.scale;
    }
    wanted[c] = tree(column, bounds, 0, segments);
  }
  INFO(std::string(to_string(x.dtype)) << ", " << rows << " x " << columns << ", " << segments
                                       << " segments, stride " << x.row_stride);
  ColumnSumArgs args{
      .rows = rows, .columns = columns, .x = x, .segments = {bounds.data(), segments}};
  if (segments == 1) args.segments = {};
  args.out = out.data();
  context.kernels().reduce.column_sums(args);
  CHECK(same_bits(out, wanted));
  std::fill(out.begin(), out.end(), 0.5f);
  for (float& value : wanted) value = 0.5f + value;
  args.accumulate = true;
  context.kernels().reduce.column_sums(args);
  CHECK(same_bits(out, wanted));
}

std::vector<std::size_t> even(std::size_t rows, std::size_t segments) {
  std::vector<std::size_t> bounds;
  for (std::size_t i = 0; i <= segments; ++i) bounds.push_back(rows * i / segments);
  return bounds;
}

// Empty segments, short ones and long ones.
std::vector<std::size_t> uneven(std::size_t rows) {
  return {0, 0, rows / 100, rows / 100 + rows / 7, rows / 2, rows / 2, rows - rows / 3, rows, rows};
}

constexpr std::size_t lengths[] = {0,    1,    3,    15,    16,    17,    255,
                                   256,  257,  511,  512,   513,   1024,  4095,
                                   8191, 8192, 8193, 65535, 65536, 65537, 100'003};

}  // namespace

TEST_CASE("vectors add up in the order of rows, runs and segments", "[unit][reduce]") {
  const std::vector<float> all = small_floats(DType::fp32, 100'003);
  on_every_target([&](Context& context) {
    for (const std::size_t rows : lengths)
      for (const auto& bounds : {even(rows, 1), even(rows, 8), uneven(rows), even(rows, 1024)})
        check(context, {.data = all.data(), .row_stride = 1}, all, rows, 1, bounds);
  });
}

TEST_CASE("few columns add up in that order", "[unit][reduce]") {
  const std::vector<float> all = small_floats(DType::fp32, 20 * 30'011);
  on_every_target([&](Context& context) {
    for (std::size_t columns = 1; columns <= 18; ++columns)
      for (const std::size_t rows : std::vector<std::size_t>{1, 37, 511, 513, 8193, 30'011})
        for (const auto& bounds : {even(rows, 1), even(rows, 8), uneven(rows)}) {
          check(context, {.data = all.data(), .row_stride = columns}, all, rows, columns, bounds);
          check(context, {.data = all.data(), .row_stride = columns + 2}, all, rows, columns,
                bounds);
          if (columns <= 4)
            check(context, {.data = all.data(), .row_stride = 9, .column_stride = 2}, all, rows,
                  columns, bounds);
        }
  });
}

TEST_CASE("vectors of every floating type add up in that order", "[unit][reduce]") {
  on_every_target([](Context& context) {
    for (const DType dtype : soma_test::floating_dtypes) {
      const auto bytes = stored(dtype, small_floats(dtype, 8193 * 3));
      const std::vector<float> values = values_of(dtype, bytes);
      for (const float scale : {1.0f, 0.3f})
        for (const std::size_t columns : std::vector<std::size_t>{1, 3})
          for (const auto& bounds : {even(8193, 1), even(8193, 2), uneven(8193)}) {
            MatrixOperand x{.data = bytes.data(), .dtype = dtype, .row_stride = columns};
            x.scale = scale;
            check(context, x, values, 8193, columns, bounds);
          }
    }
  });
}

TEST_CASE("runs beyond 512 rows, infinities and zeros of a vector add up", "[unit][reduce]") {
  on_every_target([](Context& context) {
    std::vector<float> x = small_floats(DType::fp32, 600'007);
    check(context, {.data = x.data(), .row_stride = 1}, x, x.size(), 1, {0, x.size()});
    x[70'001] = infinity;
    check(context, {.data = x.data(), .row_stride = 1}, x, x.size(), 1, even(x.size(), 8));
    x[3] = -infinity;
    check(context, {.data = x.data(), .row_stride = 1}, x, x.size(), 1, even(x.size(), 8));
    const std::vector<float> zeros(9000, -0.0f);
    check(context, {.data = zeros.data(), .row_stride = 1}, zeros, 9000, 1, even(9000, 8));
  });
}
