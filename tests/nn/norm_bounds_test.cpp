// Layer, group, RMS and batch norm keep the bounds of kernels/norm/moments.hpp, also where numbers
// are nearly equal, and give the bias where they are equal; batch norm on the border of fp32.

#include <soma/nn.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/row_sums.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

using namespace soma;
using soma_test::row_sum_steps;
using soma_test::values;

namespace {

constexpr double u = 0x1p-24;
constexpr float epsilon = 1e-12f;

// The factors of the bounds, and the roundings of a sum.
struct Bounds {
  double mean, variance, rstd;

  static Bounds of_rows(std::size_t columns) {
    const double s = row_sum_steps(columns) + 1;
    return {1.2 * (s + 2), 5 * (s + 3), 2.5 * (s + 3)};
  }
  // Images in a batch: up to 512 in a row of 8 shards, which meet in a tree.
  static Bounds of_batch(std::size_t images, std::size_t pixels) {
    const std::size_t in_run = (std::min)(images, std::size_t{512});
    const double s = row_sum_steps(pixels) + static_cast<double>(in_run + images / 512) + 3 + 1;
    return {4.2 * (s + 5), 20 * (s + 6), 10 * (s + 6)};
  }
};

struct Truth {
  double mean = 0, variance = 0;
  explicit Truth(const std::vector<double>& x) {
    const auto n = static_cast<double>(x.size());
    for (const double v : x) mean += v / n;
    for (const double v : x) variance += (v - mean) * (v - mean) / n;
  }
};

// The largest error of y as a multiple of its bound.
double excess(const std::vector<double>& x, const std::vector<double>& y, const Truth& truth,
              const Bounds& by) {
  const double rstd = 1 / std::sqrt(truth.variance + static_cast<double>(epsilon));
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double wanted = (x[i] - truth.mean) * rstd;
    const double allowed =
        u * (std::fabs(truth.mean) * rstd + by.mean + std::fabs(wanted) * (by.rstd + 6.5)) +
        u * std::fabs(wanted) + 0x1p-149;
    worst = (std::max)(worst, std::fabs(y[i] - wanted) / allowed);
  }
  return worst;
}

const char* const kinds[] = {"random", "some floats apart", "one is far", "two values"};

float number(const std::string& kind, float center, std::size_t i, std::size_t count) {
  const std::uint32_t word = random_word({.seed = 3}, i);
  if (kind == "random") return center + static_cast<float>(word % 2001) / 1000 - 1;
  if (kind == "one is far") return i == count - 1 ? center * 1.25f : center;
  float value = center;
  const std::uint32_t steps = kind == "two values" ? (i % 3 == 0 ? 1 : 0) : word % 9;
  for (std::uint32_t k = 0; k < steps; ++k)
    value = std::nextafter(value, std::numeric_limits<float>::infinity());
  return value;
}

std::vector<double> doubles(Context& context, const Tensor& tensor) {
  const auto floats = values(context, tensor);
  return {floats.begin(), floats.end()};
}

// x [images, channels, pixels]: the numbers of a channel.
std::vector<double> channel(const std::vector<double>& x, std::size_t channels, std::size_t pixels,
                            std::size_t c) {
  std::vector<double> result;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (i / pixels % channels == c) result.push_back(x[i]);
  return result;
}

}  // namespace

TEST_CASE("norms of a row keep their bounds at every length", "[unit][layers][norm]") {
  auto context = make_context();
  const nn::Scope scope{context};
  Tape tape(context, {.record = false});
  for (const std::size_t columns : {8, 1000, 1024, 1032, 100'000, 1 << 20})
    for (const float center : {0.1f, 1234.567f, 100000.7f})
      for (const char* kind : kinds) {
        std::vector<float> x;
        for (std::size_t i = 0; i < columns; ++i) x.push_back(number(kind, center, i, columns));
        const std::vector<double> wide(x.begin(), x.end());
        const Var in = tape.constant(
            Tensor::from<float>(context, std::span<const float>(x), Shape{1, columns}));
        const Truth truth(wide);
        INFO(columns << " columns, " << kind << ", about " << center);
        const nn::LayerNorm layer(scope / "layer", columns, epsilon);
        const auto of_layer = doubles(context, layer(tape, in).value());
        CHECK(excess(wide, of_layer, truth, Bounds::of_rows(columns)) <= 1);
        // One group of one channel is the same row.
        const nn::GroupNorm group(scope / "group", 1, 1, epsilon);
        const Var image = reshape(tape, in, Shape{1, 1, columns});
        CHECK(doubles(context, group(tape, image).value()) == of_layer);
        // RMS norm: no mean, and rstd has half of the roundings.
        const nn::RmsNorm rms(scope / "rms", columns, epsilon);
        Truth squares = truth;
        squares.variance += truth.mean * truth.mean;
        squares.mean = 0;
        const double s = row_sum_steps(columns) + 1;
        CHECK(excess(wide, doubles(context, rms(tape, in).value()), squares,
                     {0, s + 3, (s + 3) / 2}) <= 1);
      }
}

TEST_CASE("batch norm keeps its bounds", "[unit][layers][norm]") {
  auto context = make_context();
  constexpr std::size_t channels = 2;
  struct Size {
    std::size_t images, pixels;
  };
  const std::vector<Size> sizes = {{2, 1}, {3, 5}, {64, 49}, {4, 5000}, {5000, 1}, {700, 9}};
  for (const Size& size : sizes)
    for (const float center : {0.1f, 1234.567f, 100000.7f})
      for (const char* kind : kinds) {
        const std::size_t count = size.images * size.pixels;
        std::vector<float> x(count * channels);
        for (std::size_t i = 0; i < x.size(); ++i) {
          const std::size_t image = i / (channels * size.pixels);
          x[i] = number(kind, center, image * size.pixels + i % size.pixels, count);
        }
        const nn::BatchNorm1d norm(nn::Scope{context}, channels,
                                   {.epsilon = epsilon, .momentum = 1});
        Tape tape(context);
        const Tensor in = Tensor::from<float>(context, std::span<const float>(x),
                                              Shape{size.images, channels, size.pixels});
        const auto y = doubles(context, norm(tape, tape.constant(in)).value());
        const std::vector<double> wide(x.begin(), x.end());
        const Bounds by = Bounds::of_batch(size.images, size.pixels);
        for (std::size_t c = 0; c < channels; ++c) {
          const auto own = channel(wide, channels, size.pixels, c);
          const Truth truth(own);
          INFO(size.images << " images of " << size.pixels << " pixels, " << kind << ", about "
                           << center);
          CHECK(excess(own, channel(y, channels, size.pixels, c), truth, by) <= 1);
          // A momentum of 1 keeps nothing of the old statistics.
          const double n = static_cast<double>(count), unbiased = truth.variance * n / (n - 1);
          const double mean = doubles(context, norm.running_mean.value())[c];
          const double variance = doubles(context, norm.running_var.value())[c];
          CHECK(std::fabs(mean - truth.mean) <=
                u * (std::fabs(truth.mean) + by.mean * std::sqrt(truth.variance)));
          CHECK(std::fabs(variance - unbiased) <= u * (by.variance + 3) * unbiased);
        }
      }
}

TEST_CASE("batch norm of equal numbers is the bias, and gradients know it",
          "[unit][layers][norm]") {
  auto context = make_context();
  for (const float value : {0.0f, 0.1f, -0.7f, 1234.567f, 16777217.0f, -1e10f, 1e30f, 1e-40f})
    for (const std::size_t rows : {2, 3, 1000, 4099, 300'000})
      for (const std::size_t pixels : {1, 49}) {
        if (rows * pixels > 300'000) continue;
        const nn::BatchNorm1d norm(nn::Scope{context}, 2, {.epsilon = epsilon, .momentum = 0.25f});
        Tape tape(context);
        const Tensor x = Tensor::full(context, Shape{rows, 2, pixels}, value);
        const Var y = norm(tape, tape.constant(x));
        tape.backward(y, Tensor::full(context, x.shape(), 0.5f));
        INFO(rows << " rows of " << pixels << " times " << value);
        const auto of_y = values(context, y.value());
        CHECK(std::all_of(of_y.begin(), of_y.end(), [](float v) { return v == 0; }));
        CHECK(values(context, norm.running_mean.value())[0] == 0.25f * value);
        CHECK(values(context, norm.running_var.value())[0] == 0.75f);
        CHECK(soma_test::gradient_values(context, norm.weight)[0] == 0);
      }
}

TEST_CASE("a batch that is out of range gives NaN, and leaves running statistics alone",
          "[unit][layers][norm]") {
  auto context = make_context();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const float bad :
       {1e30f, 3e38f, infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    const nn::BatchNorm1d norm(nn::Scope{context}, 2, {.momentum = 0.5f});
    Tape tape(context);
    std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 9};  // channel 0 has 1, 3, 5, 7
    x[4] = bad;
    const auto y = values(context, norm(tape, tape.constant(Tensor::from<float>(
                                                  context, std::span<const float>(x), Shape{4, 2})))
                                       .value());
    INFO("one element is " << bad);
    for (std::size_t i = 0; i < 8; ++i) CHECK(std::isnan(y[i]) == (i % 2 == 0));
    const auto mean = values(context, norm.running_mean.value());
    const auto variance = values(context, norm.running_var.value());
    CHECK(mean[0] == 0);
    CHECK(variance[0] == 1);
    CHECK(mean[1] == 2.625f);
    CHECK(variance[1] > 1);
  }
}
