// The programs of images against the host's kernels, where the generic samples do not reach: more
// channels than partitions, more pixels than a tile, kernels and strides of any size.

#include <soma/neuroncore.hpp>
#include <soma/ops/all.hpp>
#include <soma/testing.hpp>

#include "catch.hpp"
#include "support/on_device.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

using namespace soma;
namespace check = soma::testing::detail;

namespace {

// Elements between -1 and 1, the same for the same name; their magnitudes where asked.
Tensor random(Context& context, const Shape& shape, const char* name, bool magnitudes = false) {
  Tensor result = nn::uniform(context, shape, 1, {.seed = 5, .stream = stream_id(name, "test")});
  if (magnitudes)
    for (float& value : std::span(result.mutable_data<float>(), result.elements()))
      value = std::fabs(value);
  return result;
}

struct How {
  bool device = true;
  int threads = 1;
  std::uint64_t stress = 0;
};
// Calls compute(context) with every operator on a core, or on the host.
template <class Compute>
auto with(const How& how, const Compute& compute) {
  auto context = make_context({.threads = how.threads});
  std::optional<soma_test::OnDevice> on;
  if (how.device) on.emplace(context, soma_test::stressed(how.stress));
  return compute(context);
}

// The bits of some tensors.
using Bits = std::vector<std::vector<std::uint32_t>>;
void append(Bits& all, const Tensor& tensor) {
  std::vector<std::uint32_t> words(tensor.elements());
  if (!words.empty()) std::memcpy(words.data(), tensor.raw(), 4 * words.size());
  all.push_back(std::move(words));
}
std::vector<double> numbers(const std::vector<std::uint32_t>& words) {
  std::vector<double> result;
  for (const std::uint32_t word : words) {
    float value;
    std::memcpy(&value, &word, sizeof value);
    result.push_back(static_cast<double>(value));
  }
  return result;
}

// ---- convolution

struct ConvolutionCase {
  Shape x, weight;
  bool bias = true;
  ConvolutionSetting setting{};
};
const ConvolutionCase convolutions[] = {
    {{2, 130, 9, 7}, {140, 130, 3, 3}, true, {.pad_height = 1, .pad_width = 1}},
    {{40, 3, 6, 6}, {5, 3, 3, 3}},
    {{1, 2, 61, 70}, {3, 2, 7, 7}, true, {3, 2, 3, 3}},
    {{1, 1, 3, 1300}, {2, 1, 2, 5}},
    {{1, 2, 50, 60}, {2, 2, 40, 41}, false, {1, 1, 39, 40}},     // a kernel in pieces
    {{2, 260, 4, 5}, {390, 260, 4, 4}, true, {.pad_width = 1}},  // weights do not stay
    {{1, 3, 4, 4}, {600, 3, 3, 3}, false},                       // more blocks than banks
    {{1, 2, 11, 13}, {3, 2, 2, 2}, true, {4, 5, 1, 0}},          // pixels that no window meets
    {{3, 1, 5, 300}, {1, 1, 1, 2}, true, {7, 100, 0, 1}},
    {{2, 3, 1, 1}, {4, 3, 3, 3}, true, {.pad_height = 1, .pad_width = 1}},
    {{2, 0, 4, 4}, {3, 0, 3, 3}},  // a sum over nothing
    {{2, 3, 130, 140}, {2, 3, 1, 1}, false, {2, 3, 0, 0}},
    {{2, 3, 30, 41},
     {4, 3, 3, 4},
     true,  // strides and dilations, with and without common factors
     {.stride_height = 2,
      .stride_width = 6,
      .pad_height = 5,
      .pad_width = 3,
      .dilation_height = 3,
      .dilation_width = 4}},
    {{1, 2, 9, 12},
     {3, 2, 3, 2},
     false,
     {.stride_height = 4,
      .stride_width = 2,
      .pad_width = 2,
      .dilation_height = 2,
      .dilation_width = 4}},
    {{2, 2, 3, 4},
     {2, 2, 2, 1},
     true,  // windows of padding alone
     {.pad_height = 3, .pad_width = 2, .pad_height_behind = 1, .pad_width_behind = 5}},
    {{2, 12, 6, 7},
     {8, 3, 3, 3},
     true,
     {.pad_height = 1, .pad_width = 1, .pad_width_behind = 0, .groups = 4}},
    {{2, 5, 9, 8},
     {10, 1, 3, 3},
     true,  // depthwise
     {.stride_height = 2, .stride_width = 2, .pad_height = 1, .pad_width = 1, .groups = 5}},
};

// y, dx, dweight, dbias.
Bits convolve(Context& context, const ConvolutionCase& c, bool magnitudes) {
  const Tensor x = random(context, c.x, "x", magnitudes);
  const Tensor weight = random(context, c.weight, "weight", magnitudes);
  const Tensor bias = c.bias ? random(context, Shape{c.weight[0]}, "bias", magnitudes) : Tensor();
  Bits result;
  const Tensor y = run(context, ops::convolution, c.setting, {x, weight, bias})[0];
  append(result, y);
  const Tensor dy = random(context, y.shape(), "dy", magnitudes);
  const Outputs gradients = run(context, ops::convolution_backward, c.setting, {x, weight, dy});
  for (std::size_t i = 0; i < 3; ++i) append(result, gradients[i]);
  return result;
}

// ---- max pooling

struct PoolCase {
  Shape x;
  MaxPoolSetting setting{};
};
const PoolCase pools[] = {
    {{3, 50, 9, 11}, {3, 2, {2, 2, 1, 1}}},
    {{1, 2, 70, 81}, {3, 3, {1, 1, 1, 1}}},    // windows that overlap, many tiles
    {{2, 1, 3, 5000}, {2, 5, {1, 3, 1, 4}}},   // long rows
    {{1, 1, 92, 93}, {91, 92, {1, 1, 0, 0}}},  // a kernel in pieces
    {{1, 3, 40, 40}, {2, 3, {7, 5, 0, 0}}},    // pixels that no window meets
    {{1, 1, 1, 1}, {1, 1, {1, 1, 0, 0}}},
    {{300, 1, 4, 4}, {4, 4, {4, 4, 0, 0}}},
};

// y, indices, dx. Many ties, zeros of both signs, infinities and NaN.
Bits pool(Context& context, const PoolCase& c) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float values[] = {-infinity, -0.0f, 0, 1, 1.5f, 2, 2.5f, infinity, std::nanf("")};
  const Tensor x = random(context, c.x, "x");
  std::size_t i = 0;
  for (float& value : std::span(x.mutable_data<float>(), x.elements())) {
    const auto of = static_cast<std::size_t>(std::fabs(value) * 997);
    // Special values are rare in most planes, so that others are the largest somewhere; one plane
    // holds little else.
    const std::size_t plane = i++ / (c.x[2] * c.x[3]);
    value = plane % 3 == 1 ? values[of % 9 < 7 ? 0 : of % 9]
            : of < 950     ? values[1 + of % 6]
                           : values[of % 9];
  }
  const Outputs outputs = run(context, ops::max_pool, c.setting, {x});
  const Tensor dy = random(context, outputs[0].shape(), "dy");
  const Tensor dx = run(context, ops::max_pool_backward, c.setting, {x, outputs[1], dy})[0];
  Bits result;
  append(result, outputs[0]);
  append(result, outputs[1]);
  append(result, dx);
  return result;
}

}  // namespace

TEST_CASE("a convolution's program computes what the host does", "[unit]") {
  for (const ConvolutionCase& c : convolutions) {
    INFO(to_string(c.x) << " " << to_string(c.weight));
    const Bits host =
        with({.device = false}, [&](Context& context) { return convolve(context, c, false); });
    const Bits magnitudes =
        with({.device = false}, [&](Context& context) { return convolve(context, c, true); });
    const Bits device = with({}, [&](Context& context) { return convolve(context, c, false); });
    const std::size_t kernel = c.weight[2] * c.weight[3];
    const std::size_t pixels = host[0].size() / c.weight[0];  // pixels of all images
    // The products that are added; both sides err by at most 2^-24 of the magnitudes for each.
    const std::size_t added[] = {c.weight[1] * kernel, c.weight[0] * kernel, pixels, pixels};
    for (std::size_t i = 0; i < host.size(); ++i) {
      INFO("output " << i);
      const std::vector<double> wanted = numbers(host[i]), given = numbers(device[i]),
                                bounds = numbers(magnitudes[i]);
      REQUIRE(given.size() == wanted.size());
      std::size_t wrong = 0;
      for (std::size_t e = 0; e < given.size(); ++e)
        wrong += std::fabs(given[e] - wanted[e]) <=
                         2 * 0x1p-24 * static_cast<double>(added[i] + 3) * bounds[e]
                     ? 0
                     : 1;
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("max pooling on the device has the host's bits", "[unit]") {
  for (const PoolCase& c : pools) {
    INFO(to_string(c.x) << " " << c.setting.kernel_height << " x " << c.setting.kernel_width);
    const auto compute = [&](Context& context) { return pool(context, c); };
    const Bits host = with({.device = false}, compute), device = with({}, compute);
    CHECK((device[0] == host[0]));
    CHECK((device[1] == host[1]));
    CHECK((device[2] == host[2]));
  }
}

// Numbers of pixels above 2^24 are not all exact in fp32, which the Vector engine compares.
TEST_CASE("max pooling of planes of more than 2^24 pixels", "[slow]") {
  const PoolCase c{{1, 1, 2, 9000000}, {2, 3, {1, 2, 0, 1}}};
  const auto compute = [&](Context& context) { return pool(context, c); };
  CHECK((with({}, compute) == with({.device = false}, compute)));
}

TEST_CASE("nothing that must not changes the bits of an image's program", "[unit][invariance]") {
  const auto same = [](const auto& compute) {
    const Bits plain = with({}, compute);
    for (const int threads : {2, 7}) CHECK((plain == with({.threads = threads}, compute)));
    for (std::uint64_t stress = 1; stress <= 3; ++stress)
      CHECK((plain == with({.stress = stress}, compute)));
  };
  for (const ConvolutionCase& c : convolutions) {
    if (c.x.elements() * c.weight[0] > 100000 || c.weight[2] > 10) continue;
    INFO(to_string(c.x) << " " << to_string(c.weight));
    same([&](Context& context) { return convolve(context, c, false); });
  }
  for (const PoolCase& c : pools) {
    if (c.setting.kernel_height > 10) continue;
    INFO(to_string(c.x));
    same([&](Context& context) { return pool(context, c); });
  }
}
