// Scales for groups against the rules of their documents (OCP Microscaling 1.0, the roundings that
// other libraries have, the accelerator's instruction, NVFP4), computed here in float64, element by
// element, without soma's codecs; the noise of products; rotation.

#include <soma/numeric/precision.hpp>
#include <soma/ops/product/inspect.hpp>
#include <soma/ops/product/quantized_linear.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "ops/product/microscaling.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

// From table 1 and 2 of the document: the exponent of the largest number, the number itself, bits
// of the mantissa and the exponent of the smallest normal number.
struct Element {
  FloatFormat format;
  int emax;
  double largest;
  int mantissa, emin;
};
const Element elements[] = {{formats::fp8_e4m3fn, 8, 448, 3, -6},
                            {formats::fp8_e5m2, 15, 57344, 2, -14},
                            {formats::fp6_e2m3, 2, 7.5, 3, 0},
                            {formats::fp6_e3m2, 4, 28, 2, -2},
                            {formats::fp4_e2m1, 2, 6, 1, 0}};
const Element e2m1 = elements[4], e4m3 = elements[0];

constexpr ScaleRule rules[] = {ScaleRule::floor, ScaleRule::up, ScaleRule::even, ScaleRule::trn3};

// To the nearest number of the format, ties to even, at most the largest.
double rounded(const Element& e, double value) {
  if (value == 0) return value;
  const int exponent = (std::max)(std::ilogb(value), e.emin);
  const double spacing = std::ldexp(1.0, exponent - e.mantissa);
  const double nearest = std::nearbyint(value / spacing) * spacing;
  return std::copysign((std::min)(std::fabs(nearest), e.largest), value);
}

double bf16_of(double value) {
  if (!std::isfinite(value) || value == 0) return value;
  const int exponent = (std::max)(std::ilogb(value), -126);
  const double spacing = std::ldexp(1.0, exponent - 7);
  const double nearest = std::nearbyint(value / spacing) * spacing;
  return std::fabs(nearest) >= 0x1p128 ? std::copysign(HUGE_VAL, value) : nearest;
}

// The exponent of a group's scale.
int exponent_of(const Element& e, ScaleRule rule, double amax) {
  if (amax == 0) return -127;
  int exponent = std::ilogb(amax) - e.emax;
  if (rule == ScaleRule::trn3) ++exponent;
  if (rule == ScaleRule::up) {
    exponent = -200;
    while (std::ldexp(e.largest, exponent) < amax) ++exponent;
  }
  if (rule == ScaleRule::even) {
    const double spacing = std::ldexp(1.0, std::ilogb(amax) - e.mantissa);
    exponent = std::ilogb(std::nearbyint(amax / spacing) * spacing) - e.emax;
  }
  return (std::clamp)(exponent, -127, 127);
}

constexpr std::size_t rows = 6, columns = 150;  // the last group of a row is ragged

// Numbers of a kind, in fp32.
std::vector<float> numbers(const std::string& kind) {
  std::vector<float> x(rows * columns);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const int group = static_cast<int>(word_of(3, i / 32));
    double value = normal(1, i);
    if (kind == "spread") value = std::ldexp(value, group % 61);
    if (kind == "subnormal") value = std::ldexp(value, -120 - (group & 31));
    if (kind == "small") value = std::ldexp(value, -100 - (group & 31));
    if (kind == "largest") value = std::ldexp(2 * uniform(1, i) - 1, 120 + (group & 7) + 1);
    if (kind == "powers")
      value = std::ldexp((word_of(2, i) & 1) != 0 ? 1.0 : -1.75, static_cast<int>(i % 7));
    if (kind == "zeros") value = i / 40 % 2 == 0 ? 0.0 : value;
    x[i] = (std::clamp)(static_cast<float>(value), -(std::numeric_limits<float>::max)(),
                        (std::numeric_limits<float>::max)());
  }
  if (kind == "NaN") x[40] = x[149] = std::numeric_limits<float>::quiet_NaN();
  if (kind == "infinity") {
    x[3] = std::numeric_limits<float>::infinity();
    x[310] = -x[3];
  }
  return x;
}
const std::string kinds[] = {"normal", "spread", "subnormal", "small",   "largest",
                             "powers", "zeros",  "NaN",       "infinity"};

bool equal(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

Tensor fp32_of(Context& context, const Tensor& x) {
  return run(context, ops::cast, CastSetting{.dtype = DType::fp32}, {x})[0];
}

}  // namespace

TEST_CASE("groups with e8m0 scales equal float64 in values and scales", "[unit][microscaling]") {
  auto context = make_context({.threads = 2});
  for (const Element& e : elements)
    for (const ScaleRule rule : rules)
      for (const std::string& kind : kinds)
        for (const bool along_rows : {false, true}) {
          INFO(to_string(e.format)
               << " " << to_string(rule) << ", " << kind << ", along rows " << along_rows);
          const std::vector<float> x = numbers(kind);
          // Down the columns: the transposed matrix. Parameters have no shards.
          const Tensor given =
              along_rows
                  ? contiguous(context,
                               Tensor::from(context, x, Shape{rows, columns}).transpose(0, 1))
                  : Tensor::from(context, x, Shape{rows, columns});
          const Outputs made = run(
              context, ops::quantize,
              QuantizeSetting{
                  .quantizer = groups(e.format, rule), .along_rows = along_rows, .parameter = true},
              {given});
          REQUIRE(made[0].dtype() == DType::bf16);
          const Tensor wide = fp32_of(context, made[0]);
          std::size_t wrong_values = 0, wrong_scales = 0;
          for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t first = 0; first < columns; first += 32) {
              const std::size_t last = (std::min)(first + 32, columns);
              double amax = 0;
              bool finite = true;
              for (std::size_t c = first; c < last; ++c) {
                finite = finite && std::isfinite(x[r * columns + c]);
                if (finite) amax = (std::max)(amax, std::fabs(double{x[r * columns + c]}));
              }
              const double nan = std::nan("");
              const double scale = finite ? std::ldexp(1.0, exponent_of(e, rule, amax)) : nan;
              const std::size_t group = first / 32;
              const float got =
                  made[1]
                      .data<float>()[along_rows ? group * rows + r : r * made[1].size(1) + group];
              wrong_scales += !equal(got, scale);
              for (std::size_t c = first; c < last; ++c) {
                const double wanted =
                    finite ? bf16_of(rounded(e, x[r * columns + c] / scale) * scale) : nan;
                const float value = wide.data<float>()[along_rows ? c * rows + r : r * columns + c];
                wrong_values += !equal(value, wanted);
              }
            }
          CHECK(wrong_scales == 0);
          CHECK(wrong_values == 0);
        }
}

TEST_CASE("codes of groups, and scale bytes", "[unit][microscaling]") {
  auto context = make_context({.threads = 1});
  for (const Element& e : elements)
    for (const std::string& kind : kinds) {
      INFO(to_string(e.format) << ", " << kind);
      const std::vector<float> x = numbers(kind);
      const Scaling scaling = groups(e.format, ScaleRule::up).scaling;
      std::vector<std::byte> codes(x.size());
      std::vector<float> scales(rows * 5);
      convert(context,
              ConstCodeSpan{formats::fp32, std::as_bytes(std::span(x)).data(), rows, columns,
                            4 * columns},
              CodeSpan{e.format, codes.data(), rows, columns, columns},
              {.scaling = scaling, .scales = scales});
      std::size_t wrong = 0;
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < columns; ++c) {
          const float scale = scales[r * 5 + c / 32];
          const std::uint32_t byte = encode(formats::e8m0, scale);
          wrong += std::isnan(scale) ? byte != 0xFF
                                     : byte != static_cast<std::uint32_t>(std::ilogb(scale) + 127);
          if (std::isnan(scale)) continue;
          const double value = decode(e.format, static_cast<std::uint32_t>(codes[r * columns + c]));
          wrong += value != rounded(e, double{x[r * columns + c]} / double{scale});
        }
      CHECK(wrong == 0);
      if (kind == "NaN") CHECK(std::isnan(scales[1]));
    }
}

// Each step of fp32 is rounded here as there: amax of the tensor / (448 * 6), amax of the group / 6
// / that, to e4m3, and the elements' product with one over both scales.
TEST_CASE("groups of 16 with e4m3 scales and one of the tensor", "[unit][microscaling]") {
  auto context = make_context({.threads = 2});
  for (const std::string& kind : kinds) {
    if (kind == "subnormal" || kind == "largest") continue;
    INFO(kind);
    const std::vector<float> x = numbers(kind);
    const Outputs made = run(context, ops::quantize,
                             QuantizeSetting{.quantizer = nvfp4(), .parameter = true, .scale = 0},
                             {Tensor::from(context, x, Shape{rows, columns})});
    REQUIRE(made[0].dtype() == DType::bf16);
    const Tensor wide = fp32_of(context, made[0]);
    float most = 0;
    bool all = true;
    for (const float value : x) {
      all = all && std::isfinite(value);
      if (all) most = (std::max)(most, std::fabs(value));
    }
    const double whole =
        all ? double{static_cast<float>((std::max)(double{most} / (448 * 6), 0x1p-117))} : 1.0;
    std::size_t wrong = 0;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t first = 0; first < columns; first += 16) {
        const std::size_t last = (std::min)(first + 16, columns);
        double amax = 0;
        bool finite = true;
        for (std::size_t c = first; c < last; ++c) {
          finite = finite && std::isfinite(x[r * columns + c]);
          if (finite) amax = (std::max)(amax, std::fabs(double{x[r * columns + c]}));
        }
        const double wanted =
            (std::clamp)(double{static_cast<float>(amax / (6 * whole))}, 0x1p-9, 448.0);
        const double scale = finite ? rounded(e4m3, wanted) : std::nan("");
        wrong += !equal(made[1].data<float>()[r * 10 + first / 16], scale);
        const float inverse = 1.0f / (static_cast<float>(scale) * static_cast<float>(whole));
        for (std::size_t c = first; c < last; ++c) {
          const float quotient = x[r * columns + c] * inverse;
          const double value = finite ? rounded(e2m1, quotient) * scale : std::nan("");
          wrong += !equal(wide.data<float>()[r * columns + c], value);
        }
      }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a weight in square blocks and its transpose have the same values",
          "[unit][microscaling]") {
  auto context = make_context({.threads = 2});
  std::vector<float> x(70 * 100);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(normal(5, i));
  const Tensor weight = Tensor::from(context, x, Shape{70, 100});
  const Tensor turned = contiguous(context, weight.transpose(0, 1));
  for (const Granularity granularity : {Granularity::block_16x16, Granularity::block_32x32})
    for (const Quantizer& quantizer :
         {groups(formats::fp4_e2m1, ScaleRule::up, granularity), nvfp4(granularity)}) {
      const QuantizeSetting setting{.quantizer = quantizer, .parameter = true, .scale = 0};
      const Tensor a = fp32_of(context, run(context, ops::quantize, setting, {weight})[0]);
      const Tensor b = fp32_of(context, run(context, ops::quantize, setting, {turned})[0]);
      std::size_t other = 0;
      for (std::size_t i = 0; i < 70; ++i)
        for (std::size_t j = 0; j < 100; ++j)
          other += a.data<float>()[i * 100 + j] != b.data<float>()[j * 70 + i];
      CHECK(other == 0);
    }
}

namespace {

constexpr std::size_t sum = 768, side = 128;

// One product as a layer makes it: x [128, 768], weight [128, 768].
struct Product {
  Product(Context& made, const std::string& kind, std::uint32_t draw = 0) : context(made) {
    std::vector<float> a(side * sum), b(side * sum);
    for (std::size_t i = 0; i < a.size(); ++i) {
      double u = normal(11 + 100 * draw, i), v = normal(12 + 100 * draw, i);
      if (kind == "t") {
        const auto root = [&](std::uint32_t stream) {
          double squares = 0;
          for (std::uint32_t k = 0; k < 3; ++k)
            squares += std::pow(normal(stream + k + 100 * draw, i), 2);
          return std::sqrt(squares / 3);
        };
        u /= root(20);
        v /= root(30);
      }
      if (kind == "columns" && i % sum % 97 == 0) {
        u *= 30;
        v *= 30;
      }
      a[i] = static_cast<float>(u);
      b[i] = static_cast<float>(v);
    }
    x = Tensor::from(context, a, Shape{side, sum});
    weight = Tensor::from(context, b, Shape{side, sum});
    exact.resize(side * side);
    for (std::size_t i = 0; i < side; ++i)
      for (std::size_t j = 0; j < side; ++j)
        for (std::size_t k = 0; k < sum; ++k)
          exact[i * side + j] += double{a[i * sum + k]} * double{b[j * sum + k]};
  }
  std::vector<double> run_as(const Quantizer& quantizer, std::uint32_t step = 1) {
    LinearFormats formats;
    formats.x = {.quantizer = quantizer, .draw = {.seed = 4, .stream = 1}};
    formats.weight = {.quantizer = quantizer, .draw = {.seed = 4, .stream = 2}};
    formats.signs[0] = {.seed = 4, .stream = 3};
    const Tensor y = run(context, ops::quantized_linear,
                         QuantizedLinearSetting{.formats = &formats, .step = step}, {x, weight})[0];
    const std::span<const float> values = y.span<float>();
    return {values.begin(), values.end()};
  }
  double noise(const std::vector<double>& y) const {
    double power = 0, error = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      power += exact[i] * exact[i];
      error += (y[i] - exact[i]) * (y[i] - exact[i]);
    }
    return 10 * std::log10(power / error);
  }
  double slope(const std::vector<double>& y) const {
    double power = 0, both = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      power += exact[i] * exact[i];
      both += y[i] * exact[i];
    }
    return both / power;
  }
  Context& context;
  Tensor x, weight;
  std::vector<double> exact;
};

Quantizer turned_by(Quantizer quantizer, std::uint8_t size) {
  quantizer.rotation.size = size;
  return quantizer;
}

}  // namespace

// The mean of four draws: one moves a figure by some 0.2 dB. Eight columns alone carry the third
// product, which moves it by some 0.5 dB.
TEST_CASE("the noise of a product", "[unit][microscaling]") {
  auto context = make_context({.threads = 2});
  struct Case {
    std::string name;
    Quantizer quantizer;
    std::array<double, 3> noise;
    double least_slope, most_slope;
  };
  const Case cases[] = {
      {"mxfp8", Precision::mxfp8().gemm_weights, {27.7, 26.2, 24.9}, 0.972, 0.996},
      {"mxfp8_up", Precision::mxfp8_up().gemm_weights, {28.6, 28.6, 28.7}, 0.998, 1.002},
      {"mxfp8_trn3", Precision::mxfp8_trn3().gemm_weights, {28.6, 28.6, 28.7}, 0.998, 1.002},
      {"mxfp6", Precision::mxfp6().gemm_weights, {22.4, 21.9, 21.7}, 0.968, 0.993},
      {"mxfp4", Precision::mxfp4().gemm_weights, {15.9, 13.9, 14.4}, 0.87, 0.965},
      {"mxfp4 up", groups(formats::fp4_e2m1, ScaleRule::up), {15.9, 13.5, 16.6}, 0.975, 0.99},
      {"mxfp4 up rotated",
       turned_by(groups(formats::fp4_e2m1, ScaleRule::up), 32),
       {15.8, 15.9, 26.5},
       0.975,
       1.002},
      {"nvfp4", Precision::nvfp4().gemm_weights, {17.4, 17.7, 28.8}, 0.985, 1.005}};
  const std::string data[] = {"normal", "t", "columns"};
  for (std::size_t d = 0; d < 3; ++d) {
    std::array<double, std::size(cases)> noise{}, slope{};
    for (std::uint32_t draw = 0; draw < 4; ++draw) {
      Product product(context, data[d], draw);
      for (std::size_t c = 0; c < noise.size(); ++c) {
        const std::vector<double> y = product.run_as(cases[c].quantizer);
        noise[c] += product.noise(y) / 4;
        slope[c] += product.slope(y) / 4;
      }
    }
    for (std::size_t c = 0; c < noise.size(); ++c) {
      INFO(cases[c].name << ", " << data[d] << ": " << noise[c] << " dB, slope " << slope[c]);
      CHECK(std::fabs(noise[c] - cases[c].noise[d]) <= (d == 2 ? 0.6 : 0.3));
      CHECK(slope[c] >= cases[c].least_slope);
      CHECK(slope[c] <= cases[c].most_slope);
    }
  }
}

TEST_CASE("stochastic rounding is unbiased where nothing saturates", "[unit][microscaling]") {
  auto context = make_context({.threads = 2});
  for (const std::string kind : {"normal", "t", "columns"}) {
    Product product(context, kind);
    const auto gain = [&](ScaleRule rule) {
      Quantizer quantizer = groups(formats::fp4_e2m1, rule);
      quantizer.rounding = Rounding::stochastic;
      std::vector<double> mean(side * side);
      double one = 0;
      for (std::uint32_t step = 0; step < 16; ++step) {
        const std::vector<double> y = product.run_as(quantizer, step);
        if (step == 0) one = product.noise(y);
        for (std::size_t i = 0; i < y.size(); ++i) mean[i] += y[i] / 16;
      }
      return product.noise(mean) - one;
    };
    const double up = gain(ScaleRule::up), floor = gain(ScaleRule::floor);
    INFO(kind << ": up " << up << " dB, floor " << floor);
    CHECK(up >= 11);
    CHECK(floor >= 3);
    CHECK(floor <= 9.5);
  }
}

TEST_CASE("a rotation leaves the product as it is, and the rest of a sum alone",
          "[unit][microscaling]") {
  auto context = make_context({.threads = 2});
  const std::size_t m = 37, k = 150;
  std::vector<float> a(m * k), b(m * k);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(normal(41, i));
    b[i] = static_cast<float>(normal(42, i));
  }
  const Tensor x = Tensor::from(context, a, Shape{m, k}), w = Tensor::from(context, b, Shape{m, k});
  for (const std::uint8_t size : rotation_sizes)
    for (const Rotation::Signs signs : {Rotation::Signs::fixed, Rotation::Signs::drawn})
      for (const bool along_rows : {false, true}) {
        INFO(int{size} << ", along rows " << along_rows);
        const Rotation rotation{size, signs};
        const Draw draw{.seed = 1, .stream = 2, .step = 3};
        // Down the columns in one part: what is along the sum is the first dimension then.
        const auto turned = [&](const Tensor& t) {
          return along_rows ? contiguous(context, t.transpose(0, 1)) : t;
        };
        const auto back = [&](const Tensor& t) {
          return along_rows ? contiguous(context, t.transpose(0, 1)) : t;
        };
        const Tensor rx =
            back(detail::rotated(context, turned(x), rotation, draw, along_rows, true, {}));
        const Tensor rw =
            back(detail::rotated(context, turned(w), rotation, draw, along_rows, true, {}));
        double worst = 0;
        for (std::size_t i = 0; i < m; ++i)
          for (std::size_t j = 0; j < m; ++j) {
            double before = 0, after = 0;
            for (std::size_t n = 0; n < k; ++n) {
              before += double{a[i * k + n]} * double{b[j * k + n]};
              after += double{rx.data<float>()[i * k + n]} * double{rw.data<float>()[j * k + n]};
            }
            worst = (std::max)(worst, std::fabs(before - after));
          }
        // Eight roundings of numbers of about 1 in each of 300 factors of a sum.
        CHECK(worst < 300 * 8 * 0x1p-23);
        std::size_t same = 0;
        for (std::size_t n = 0; n < k; ++n) same += rx.data<float>()[n] == a[n];
        CHECK(same >= k % size);
        CHECK(same <= k % size + 3);
        // By the definition: H[i][j] is -1 to the number of common bits.
        double wanted = 0;
        for (std::size_t n = 0; n < size; ++n) {
          Draw at = draw;
          at.index = n;
          const bool minus = signs == Rotation::Signs::drawn && (random_word(at) >> 31) != 0;
          wanted += (std::popcount(n & 5) % 2 != 0) != minus ? -double{a[n]} : double{a[n]};
        }
        CHECK(std::fabs(rx.data<float>()[5] - wanted / std::sqrt(static_cast<double>(size))) <
              1e-5);
      }
}
