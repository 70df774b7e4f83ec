// Convolutions that read converted operands, against loops over numbers that the scalar codec has
// converted one by one: every format of a recipe, forward and both gradients, any stride and
// padding, transposed or not.

#include <soma/nn.hpp>
#include <soma/numeric/precision.hpp>
#include <soma/ops/all.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

using namespace soma;

namespace {

// Images, or kernels, of plain doubles.
struct Plain {
  std::size_t n, c, h, w;
  std::vector<double> values;
  static Plain zeros(const Shape& s) {
    return {s[0], s[1], s[2], s[3], std::vector<double>(s.elements())};
  }
  double& at(std::size_t i, std::size_t j, std::size_t y, std::size_t x) {
    return values[((i * c + j) * h + y) * w + x];
  }
  double at(std::size_t i, std::size_t j, std::size_t y, std::size_t x) const {
    return values[((i * c + j) * h + y) * w + x];
  }
};

Plain plain(Context& context, const Tensor& tensor) {
  const Tensor wide =
      run(context, ops::cast, CastSetting{.dtype = DType::fp32}, {contiguous(context, tensor)})[0];
  Plain result = Plain::zeros(tensor.shape());
  const std::span<const float> all = wide.span<float>();
  result.values.assign(all.begin(), all.end());
  return result;
}

// How stochastic rounding draws: by image, and row and column in it; or by row of a parameter.
struct Draws {
  Draw draw;
  bool parameter = false;
  std::uint64_t index(const Plain& x, std::size_t at) const {
    const std::size_t image = x.c * x.h * x.w;
    return parameter ? parameter_index(at / image, at % image)
                     : token_index(at / image, at % image / x.w, at % x.w);
  }
};

// Converts by the definition, element by element. A scale of 0: that of its own amax.
Plain converted(const Plain& x, const Quantizer& q, const Draws& draws, float scale = 0) {
  Plain y = x;
  float amax = 0;
  for (const double value : x.values) amax = std::max(amax, std::abs(static_cast<float>(value)));
  const bool scaled = q.scaling.policy != ScalePolicy::none;
  if (!scaled) scale = 1;
  if (scale == 0) scale = scale_for(q.scaling, q.format, amax);
  const float inverse = 1 / scale, largest = decode(q.format, q.format.max_finite_code());
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    float value = static_cast<float>(x.values[i]) * inverse;
    if (scaled) value = std::clamp(value, -largest, largest);
    Draw draw = draws.draw;
    draw.index = draws.index(x, i);
    const std::uint32_t random = q.rounding.mode == RoundingMode::stochastic
                                     ? rounding_word(draw, random_bits(q.rounding, q.format))
                                     : 0;
    y.values[i] =
        static_cast<double>(decode(q.format, encode(q.format, value, q.rounding, random)) * scale);
  }
  return y;
}

struct Case {
  std::string name;
  bool transposed = false;
  Shape x, weight;
  TransposedSetting setting{};
};

std::vector<Case> cases() {
  return {{"plain", false, {3, 2, 6, 5}, {4, 2, 3, 3}, {}},
          {"padded, stride 2 x 3",
           false,
           {9, 3, 8, 7},
           {5, 3, 3, 4},
           {{.stride_height = 2, .stride_width = 3, .pad_height = 1, .pad_width = 2}}},
          {"one row", false, {4, 3, 1, 11}, {2, 3, 1, 4}, {{.stride_width = 2, .pad_width = 3}}},
          {"no image", false, {0, 3, 4, 4}, {2, 3, 3, 3}, {}},
          {"transposed", true, {3, 2, 4, 5}, {2, 4, 3, 3}, {}},
          {"transposed, stride 2 x 3, padded, extra",
           true,
           {9, 3, 4, 3},
           {3, 2, 3, 4},
           {{.stride_height = 2, .stride_width = 3, .pad_height = 1, .pad_width = 1}, 1, 2}}};
}

// Calls each(image, in channel, in row, in column, out channel, out row, out column, kernel row,
// kernel column) for all products, where in and out are those of the convolution that is not
// transposed.
template <class Each>
void for_products(const Case& how, const Plain& big, const Plain& small, const Shape& weight,
                  const Each& each) {
  const ConvolutionSetting& s = how.setting.steps;
  for (std::size_t n = 0; n < big.n; ++n)
    for (std::size_t o = 0; o < small.c; ++o)
      for (std::size_t i = 0; i < small.h; ++i)
        for (std::size_t j = 0; j < small.w; ++j)
          for (std::size_t c = 0; c < big.c; ++c)
            for (std::size_t a = 0; a < weight[2]; ++a)
              for (std::size_t b = 0; b < weight[3]; ++b) {
                const std::size_t row = i * s.stride_height + a, column = j * s.stride_width + b;
                if (row < s.pad_height || row >= big.h + s.pad_height || column < s.pad_width ||
                    column >= big.w + s.pad_width)
                  continue;
                each(n, c, row - s.pad_height, column - s.pad_width, o, i, j, a, b);
              }
}

// A result and the sum of its terms' magnitudes.
struct Sum {
  Plain value, size;
  std::size_t most = 0;
  explicit Sum(const Shape& shape) : value(Plain::zeros(shape)), size(value) {}
  void add(std::size_t i, std::size_t j, std::size_t y, std::size_t x, double term) {
    value.at(i, j, y, x) += term;
    size.at(i, j, y, x) += std::abs(term);
  }
};

// Products of fp32 numbers that are added in fp32: a rounding each and those of the tree of shards;
// then one to the result's type.
void check_sum(const Plain& got, const Sum& wanted, std::size_t terms, double last = 0) {
  double worst = 0;
  REQUIRE(got.values.size() == wanted.value.values.size());
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    const double size = wanted.size.values[i];
    const double bound = static_cast<double>(terms + 12) * 0x1p-24 * size +
                         last * std::abs(wanted.value.values[i]) + 0x1p-126;
    worst = std::max(worst, std::abs(got.values[i] - wanted.value.values[i]) / bound);
  }
  CHECK(worst <= 1);
}

// Magnitudes over some ten powers of two, so that scales matter.
Tensor random(Context& context, const Shape& shape, std::uint32_t stream) {
  Tensor tensor = Tensor::empty(context, shape);
  float* values = tensor.mutable_data<float>();
  for (std::size_t i = 0; i < tensor.elements(); ++i) {
    const std::uint32_t word = random_word({.seed = 4, .stream = stream}, i);
    const float sign = (word & 1) != 0 ? -1.0f : 1.0f;
    values[i] = sign * (1 + static_cast<float>(word >> 9) * 0x1p-23f) *
                std::ldexp(1.0f, -static_cast<int>(word >> 1 & 7) - static_cast<int>(i % 5));
  }
  return tensor;
}

std::vector<Precision> policies() {
  std::vector<Precision> all{Precision::tf32(),        Precision::bf16(), Precision::fp16(),
                             Precision::fp8_current(), Precision::cfp8(), Precision::cfp8(9, 8, 20),
                             Precision::fp8_delayed()};
  Precision draws = Precision::fp8_current();
  draws.name = "stochastic";
  draws.gemm_activations.rounding = draws.gemm_weights.rounding = draws.gemm_gradients.rounding =
      Rounding::stochastic;
  all.push_back(draws);
  Precision six = Precision::cfp8();
  six.name = "a format without a type";
  six.gemm_activations.format = six.gemm_weights.format = formats::fp6_e3m2;
  all.push_back(six);
  return all;
}

LinearFormats formats_of(const Precision& precision) {
  LinearFormats formats;
  formats.x = {.quantizer = precision.gemm_activations, .draw = {.seed = 6, .stream = 1}};
  formats.weight = {.quantizer = precision.gemm_weights, .draw = {.seed = 6, .stream = 2}};
  formats.gradient = {.quantizer = precision.gemm_gradients, .draw = {.seed = 6, .stream = 3}};
  if (precision.gemm_activations.scaling.policy == ScalePolicy::delayed) {
    formats.x.scale = 0.0078125f;
    formats.weight.scale = 0.003f;  // no power of two
  }
  return formats;
}

Draws draws_of(const LinearOperand& operand, bool parameter) {
  Draws result{operand.draw, parameter};
  result.draw.step = 3;
  return result;
}

}  // namespace

TEST_CASE("the three products of a convolution read converted operands", "[unit]") {
  auto context = make_context();
  for (const Precision& precision : policies())
    for (const Case& how : cases()) {
      INFO(precision.name << ", " << how.name);
      LinearFormats formats = formats_of(precision);
      const Tensor x = random(context, how.x, 1), weight = random(context, how.weight, 2);
      const std::size_t outputs = how.weight[how.transposed ? 1 : 0];
      const Tensor bias = random(context, Shape{outputs}, 4);
      const Sequences batch = Sequences::uniform(context, how.x[0]);
      Tape tape(context, {.step = 3});
      const Var images = tape.input(x, batch), kernel = Var::parameter(context, weight),
                shift = Var::parameter(context, bias);
      const QuantizedConvolutionSetting setting{.steps = how.setting,
                                                .transposed = how.transposed,
                                                .formats = &formats,
                                                .step = 3,
                                                .training = true,
                                                .record = true};
      const Var y = how.transposed
                        ? tape.apply(ops::quantized_convolution, setting, {images, kernel})
                        : tape.apply(ops::quantized_convolution, setting, {images, kernel, shift});
      CHECK(y.sequences().defined());
      const Tensor value = y.value(), dy = random(context, y.shape(), 3);
      tape.backward(y, dy);

      const Plain x1 = converted(plain(context, x), precision.gemm_activations,
                                 draws_of(formats.x, false), formats.x.scale);
      const Plain w1 = converted(plain(context, weight), precision.gemm_weights,
                                 draws_of(formats.weight, true), formats.weight.scale);
      const Plain d = plain(context, dy);
      const Plain d1 = converted(d, precision.gemm_gradients, draws_of(formats.gradient, false),
                                 formats.gradient.scale);
      Sum out(value.shape()), dx(how.x), dw(how.weight), db(Shape{1, outputs, 1, 1});
      if (!how.transposed) {
        for (std::size_t n = 0; n < d.n; ++n)
          for (std::size_t o = 0; o < outputs; ++o)
            for (std::size_t i = 0; i < d.h; ++i)
              for (std::size_t j = 0; j < d.w; ++j)
                out.add(n, o, i, j, static_cast<double>(bias.data<float>()[o]));
        for_products(
            how, x1, d, how.weight,
            [&](auto n, auto c, auto row, auto column, auto o, auto i, auto j, auto a, auto b) {
              out.add(n, o, i, j, x1.at(n, c, row, column) * w1.at(o, c, a, b));
              dx.add(n, c, row, column, d1.at(n, o, i, j) * w1.at(o, c, a, b));
              dw.add(o, c, a, b, d1.at(n, o, i, j) * x1.at(n, c, row, column));
            });
      } else {
        for_products(
            how, d, x1, how.weight,
            [&](auto n, auto c, auto row, auto column, auto o, auto i, auto j, auto a, auto b) {
              out.add(n, c, row, column, x1.at(n, o, i, j) * w1.at(o, c, a, b));
              dx.add(n, o, i, j, d1.at(n, c, row, column) * w1.at(o, c, a, b));
              dw.add(o, c, a, b, d1.at(n, c, row, column) * x1.at(n, o, i, j));
            });
      }
      const std::size_t patch = how.weight.elements();
      check_sum(plain(context, value), out, patch);
      check_sum(plain(context, images.gradient().values), dx, patch);
      check_sum(plain(context, kernel.gradient().values), dw, d.values.size() + x1.values.size());
      if (how.transposed) continue;
      // The bias reads the gradient as it is.
      for (std::size_t n = 0; n < d.n; ++n)
        for (std::size_t o = 0; o < outputs; ++o)
          for (std::size_t i = 0; i < d.h; ++i)
            for (std::size_t j = 0; j < d.w; ++j) db.add(0, o, 0, 0, d.at(n, o, i, j));
      check_sum(plain(context, shift.gradient().values.reshape(Shape{1, outputs, 1, 1})), db,
                d.values.size());
    }
}

TEST_CASE("a converted convolution keeps the type of its images and rounds once", "[unit]") {
  auto context = make_context();
  LinearFormats formats = formats_of(Precision::fp8_current());
  formats.input_gradient = DType::bf16;
  const Shape shape{4, 3, 7, 6}, kernel_shape{5, 3, 3, 3};
  const Tensor x =
      run(context, ops::cast, CastSetting{.dtype = DType::bf16}, {random(context, shape, 1)})[0];
  const auto both = [&](const Tensor& images, const Tensor& dy) {
    LinearFormats own = formats;
    if (images.dtype() == DType::fp32) own.input_gradient = DType::fp32;
    Tape tape(context);
    const Var rows = tape.input(images, {}),
              kernel = Var::parameter(context, random(context, kernel_shape, 2));
    const Var y = tape.apply(
        ops::quantized_convolution,
        QuantizedConvolutionSetting{.steps = {{.pad_height = 1}}, .formats = &own, .record = true},
        {rows, kernel});
    const Tensor value = y.value();
    if (dy.defined()) tape.backward(y, dy);
    return std::vector<Tensor>{value, rows.gradient().values, kernel.gradient().values};
  };
  const Tensor wide_x = run(context, ops::cast, CastSetting{.dtype = DType::fp32}, {x})[0];
  const Tensor dy = run(context, ops::cast, CastSetting{.dtype = DType::bf16},
                        {random(context, Shape{4, 5, 7, 4}, 3)})[0];
  const std::vector<Tensor> narrow = both(x, dy), wide = both(wide_x, dy);
  CHECK(narrow[0].dtype() == DType::bf16);
  CHECK(narrow[1].dtype() == DType::bf16);
  CHECK(narrow[2].dtype() == DType::fp32);
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const Tensor rounded = run(context, ops::cast, CastSetting{.dtype = DType::bf16}, {wide[i]})[0];
    CHECK(std::equal(rounded.raw(), rounded.raw() + rounded.elements() * 2, narrow[i].raw()));
  }
  const std::span<const float> a = narrow[2].span<float>(), b = wide[2].span<float>();
  CHECK(std::equal(a.begin(), a.end(), b.begin()));
}
