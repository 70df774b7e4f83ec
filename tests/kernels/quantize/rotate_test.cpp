// The rotate kernel against plain loops over the stages, bit for bit.

#include <soma/kernels/table.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/every_target.hpp"
#include "support/matrices.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

// A compiler may not contract it into the sums of the first stage.
float product(float a, float b) {
  const volatile float kept = a * b;
  return kept;
}

// H (x * factors): in each stage, numbers that lie `half` apart become their sum and difference.
std::vector<float> rotated_part(std::vector<float> part, const std::vector<float>& factors) {
  for (std::size_t i = 0; i < part.size(); ++i) part[i] = product(part[i], factors[i]);
  for (std::size_t half = 1; half < part.size(); half *= 2) {
    const std::vector<float> before = part;
    for (std::size_t i = 0; i < part.size(); ++i)
      part[i] = (i & half) == 0 ? before[i] + before[i + half] : before[i - half] - before[i];
  }
  return part;
}

std::vector<float> expected(std::vector<float> x, std::size_t rows, std::size_t columns,
                            const std::vector<float>& factors, bool down) {
  const std::size_t lines = down ? columns : rows, length = down ? rows : columns;
  const auto at = [&](std::size_t line, std::size_t i) -> float& {
    return down ? x[i * columns + line] : x[line * columns + i];
  };
  for (std::size_t line = 0; line < lines; ++line)
    for (std::size_t first = 0; first + factors.size() <= length; first += factors.size()) {
      std::vector<float> part(factors.size());
      for (std::size_t i = 0; i < part.size(); ++i) part[i] = at(line, first + i);
      part = rotated_part(part, factors);
      for (std::size_t i = 0; i < part.size(); ++i) at(line, first + i) = part[i];
    }
  return x;
}

struct Extent {
  std::size_t rows, columns;
};

struct Task {
  std::size_t size;
  DType type;
  Layout layout;
  Extent extent;
  bool down;
};

// The numbers between rows of y stay as they are.
void check_rotation(const Context& context, const Task& task, std::uint64_t seed) {
  constexpr std::size_t gap = 5;
  constexpr float untouched = -77.0f;
  const auto [rows, columns] = task.extent;
  INFO("parts of " << task.size << ", " << std::string(to_string(task.type)) << ", layout "
                   << static_cast<int>(task.layout) << ", " << rows << " x " << columns
                   << (task.down ? ", down" : ", along"));
  RandomFloats random(seed);
  const StoredMatrix x =
      store_matrix(rows, columns, task.type, task.layout, [&] { return random(); });
  const std::vector<float> factors = random.many(task.size);
  const std::size_t stride = columns + gap;
  std::vector<float> y(rows * stride, untouched), wanted(y);
  context.kernels().rotate({.rows = rows,
                            .columns = columns,
                            .x = x.operand,
                            .y = y.data(),
                            .row_stride = stride,
                            .size = task.size,
                            .factors = factors.data(),
                            .down = task.down});
  const std::vector<float> values = expected(x.values, rows, columns, factors, task.down);
  for (std::size_t i = 0; i < values.size(); ++i)
    wanted[i / columns * stride + i % columns] = values[i];
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < y.size(); ++i)
    if (std::bit_cast<std::uint32_t>(y[i]) != std::bit_cast<std::uint32_t>(wanted[i])) ++wrong;
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("parts of rows and columns are rotated in every layout", "[unit]") {
  // Whole parts, parts with numbers over, none whole, and more than one chunk of a row.
  constexpr Extent extents[] = {{32, 32}, {37, 150}, {256, 9}, {7, 5}, {3, 700}, {130, 129}};
  on_every_target([&](const Context& context) {
    std::uint64_t seed = 0;
    for (const std::size_t size : {16u, 32u, 64u, 128u})
      for (const DType type : {DType::fp32, DType::bf16, DType::fp16, DType::fp8_e4m3})
        for (const Layout layout : layouts)
          for (const Extent& extent : extents)
            for (const bool down : {false, true})
              check_rotation(context, {size, type, layout, extent, down}, ++seed);
  });
}
