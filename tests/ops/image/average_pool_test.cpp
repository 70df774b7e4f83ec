// The order of sums over the windows of a pool, and their error: windows of up to 16 pixels are
// added pixel by pixel, larger ones as rows.

#include <soma/nn.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/row_sums.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

using namespace soma;
using soma_test::random_tensor;
using soma_test::row_sum;
using soma_test::row_sum_steps;
using soma_test::values;

namespace {

constexpr double u = 0x1p-24;

float stated_mean(const std::vector<float>& window) {
  float sum = 0;
  if (window.size() <= 16)
    for (const float pixel : window) sum += pixel;
  else
    sum = row_sum(window.size(), [&](std::size_t i, float before) { return before + window[i]; });
  return sum / static_cast<float>(window.size());
}

}  // namespace

TEST_CASE("windows of a pool are summed in the stated order", "[unit][invariance]") {
  constexpr std::size_t planes = 6, height = 40, width = 43;
  for (const int threads : {1, 3}) {
    auto context = make_context({.threads = threads});
    const Tensor x = random_tensor(context, Shape{2, 3, height, width}, "x");
    const auto in = values(context, x);
    Tape tape(context);
    struct Kernel {
      std::size_t rows, columns;
    };
    for (const Kernel& kernel : std::vector<Kernel>{
             {2, 2}, {3, 3}, {4, 4}, {1, 16}, {1, 17}, {17, 1}, {7, 7}, {39, 40}, {40, 43}})
      for (const std::size_t pad : {0, 1}) {
        if (pad * 2 > kernel.rows || pad * 2 > kernel.columns) continue;
        const auto y = values(
            context, average_pool2d(tape, tape.constant(x),
                                    {kernel.rows, kernel.columns, {2, 3, pad, pad}, false, 0, 0})
                         .value());
        const std::size_t down = (height + 2 * pad - kernel.rows) / 2 + 1,
                          across = (width + 2 * pad - kernel.columns) / 3 + 1;
        REQUIRE(y.size() == planes * down * across);
        std::size_t wrong = 0;
        for (std::size_t at = 0; at < y.size(); ++at) {
          const std::size_t top = at / across % down * 2, left = at % across * 3;
          std::vector<float> window;
          for (std::size_t r = top; r < top + kernel.rows; ++r)
            for (std::size_t c = left; c < left + kernel.columns; ++c)
              if (r >= pad && r < height + pad && c >= pad && c < width + pad)
                window.push_back(in[(at / (across * down) * height + r - pad) * width + c - pad]);
          wrong += y[at] != stated_mean(window);
        }
        INFO(kernel.rows << " x " << kernel.columns << ", padding " << pad);
        CHECK(wrong == 0);
      }
  }
}

TEST_CASE("the error of a mean does not grow with its window", "[unit]") {
  auto context = make_context();
  Tape tape(context, {.record = false});
  const double wanted = static_cast<double>(0.1f);
  const auto off = [&](const Var& mean) {
    return std::fabs(static_cast<double>(values(context, mean.value())[0]) / wanted - 1);
  };
  for (const std::size_t size : {4, 5, 7, 56, 224, 1000, 2048}) {
    INFO(size << " x " << size << " pixels");
    // The sum, and the division.
    const double allowed = u * (row_sum_steps(size * size) + 1);
    const Var x = tape.constant(Tensor::full(context, Shape{1, 1, size, size}, 0.1f));
    CHECK(off(adaptive_average_pool2d(tape, x, 1, 1)) <= allowed);
    CHECK(off(average_pool2d(tape, x, {size, size, {1, 1, 0, 0}, true, 0, 0})) <= allowed);
    CHECK(off(mean(tape, x)) <= allowed);
    // Windows that are cut out of the image's rows.
    const Var wide = tape.constant(Tensor::full(context, Shape{1, 1, size, size + 3}, 0.1f));
    CHECK(off(average_pool2d(tape, wide, {size, size, {1, 1, 0, 0}, true, 0, 0})) <= allowed);
  }
}

TEST_CASE("a pixel's gradient adds the windows that cover it", "[unit]") {
  auto context = make_context();
  constexpr std::size_t size = 30, kernel = 16;
  const Var x = Var::parameter(context, Tensor::zeros(context, Shape{1, 1, size, size}));
  Tape tape(context);
  const Var y = average_pool2d(tape, x, {kernel, kernel, {1, 1, 0, 0}, true, 0, 0});
  tape.backward(y, Tensor::full(context, y.shape(), 0.1f));
  const auto dx = values(context, x.gradient().values);
  const auto windows = [](std::size_t at) {
    return (std::min)({at + 1, size - at, kernel, size - kernel + 1});
  };
  for (std::size_t i = 0; i < dx.size(); ++i) {
    const auto count = static_cast<double>(windows(i / size) * windows(i % size));
    const double wanted = count * static_cast<double>(0.1f) / (kernel * kernel);
    CHECK(std::fabs(static_cast<double>(dx[i]) - wanted) <= u * (count + 1) * wanted);
  }
}
