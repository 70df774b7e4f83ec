// Linear layers that read converted operands, against a plain computation from the same numbers:
// which operand is converted in which direction, and what is kept between calls.

#include <soma/neuroncore.hpp>
#include <soma/numeric/precision.hpp>
#include <soma/ops/all.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

using namespace soma;

namespace {

// A matrix of plain doubles.
struct Plain {
  std::size_t rows, columns;
  std::vector<double> values;
  double at(std::size_t i, std::size_t j) const { return values[i * columns + j]; }
};

Plain plain(Context& context, const Tensor& tensor) {
  const Tensor wide =
      run(context, ops::cast, CastSetting{.dtype = DType::fp32}, {contiguous(context, tensor)})[0];
  const std::span<const float> all = wide.span<float>();
  return {tensor.shape().rows(), tensor.shape().columns(), {all.begin(), all.end()}};
}

// Converts by the definition, element by element. Scaling blocks that are longer than high lie
// within a row, or, with `in_columns`, within a column, and begin anew at each of `bounds`, as
// blocks do.
Plain converted(const Plain& x, const Quantizer& q, bool in_columns,
                const std::vector<std::size_t>& bounds) {
  Plain y = x;
  const Scaling& scaling = q.scaling;
  const auto one = [&](const std::vector<std::size_t>& cells) {
    float amax = 0;
    for (const std::size_t i : cells)
      amax = std::max(amax, std::abs(static_cast<float>(x.values[i])));
    const bool scaled = scaling.policy != ScalePolicy::none;
    const float scale = scaled ? scale_for(scaling, q.format, amax) : 1.0f;
    const float inverse = 1 / scale, largest = decode(q.format, q.format.max_finite_code());
    for (const std::size_t i : cells) {
      float value = static_cast<float>(x.values[i]) * inverse;
      if (scaled) value = std::clamp(value, -largest, largest);
      y.values[i] = static_cast<double>(decode(q.format, encode(q.format, value)) * scale);
    }
  };
  const Granularity granularity =
      scaling.policy == ScalePolicy::none ? Granularity::tensor : scaling.granularity;
  std::vector<std::size_t> cells;
  const auto flush = [&] {
    if (!cells.empty()) one(cells);
    cells.clear();
  };
  if (granularity == Granularity::tensor) {
    for (std::size_t i = 0; i < x.values.size(); ++i) cells.push_back(i);
    flush();
  } else if (granularity == Granularity::block_128x128) {
    for (std::size_t s = 0; s + 1 < bounds.size(); ++s)
      for (std::size_t r = bounds[s]; r < bounds[s + 1]; r += 128)
        for (std::size_t c = 0; c < x.columns; c += 128) {
          for (std::size_t i = r; i < std::min(r + 128, bounds[s + 1]); ++i)
            for (std::size_t j = c; j < std::min(c + 128, x.columns); ++j)
              cells.push_back(i * x.columns + j);
          flush();
        }
  } else {
    const std::size_t length = granularity == Granularity::row        ? ~std::size_t{0}
                               : granularity == Granularity::group_32 ? 32
                                                                      : 128;
    if (!in_columns) {
      for (std::size_t i = 0; i < x.rows; ++i) {
        for (std::size_t j = 0; j < x.columns; ++j) {
          cells.push_back(i * x.columns + j);
          if (cells.size() == length) flush();
        }
        flush();
      }
    } else {
      for (std::size_t j = 0; j < x.columns; ++j)
        for (std::size_t s = 0; s + 1 < bounds.size(); ++s) {
          for (std::size_t i = bounds[s]; i < bounds[s + 1]; ++i) {
            cells.push_back(i * x.columns + j);
            if (cells.size() == length) flush();
          }
          flush();
        }
    }
  }
  return y;
}

const std::vector<std::size_t> lengths{5, 40, 0, 61, 133, 7, 1, 90, 12, 35};

struct Layer {
  explicit Layer(Context& context, const Precision& precision)
      : sequences(Sequences::from_lengths(context, lengths)) {
    x = random(context, Shape{sequences.rows(), 70}, 1);
    weight = random(context, Shape{150, 70}, 2);
    dy = random(context, Shape{sequences.rows(), 150}, 3);
    formats.x.quantizer = precision.gemm_activations;
    formats.weight.quantizer = precision.gemm_weights;
    formats.gradient.quantizer = precision.gemm_gradients;
    for (std::size_t i = 0; i <= sequences.shards(); ++i)
      bounds.push_back(sequences.row_bounds()[i]);
  }
  // Magnitudes over some ten powers of two, so that scales matter.
  static Tensor random(Context& context, const Shape& shape, std::uint32_t stream) {
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
  // y, dx, dW.
  std::vector<Tensor> run_both(Context& context) {
    Tape tape(context, {.step = 3});
    const Var rows = tape.input(x, sequences), kernel = Var::parameter(context, weight);
    const Var y = tape.apply(
        ops::quantized_linear,
        QuantizedLinearSetting{.formats = &formats, .step = 3, .training = true, .record = true},
        {rows, kernel});
    const Tensor value = y.value();
    tape.backward(y, dy);
    return {value, rows.gradient().values, kernel.gradient().values};
  }

  Sequences sequences;
  Tensor x, weight, dy;
  LinearFormats formats{};
  std::vector<std::size_t> bounds;
};

// sum over k of a(i, k) b(k, j) against `got`: products of fp32 numbers added in fp32, at most
// k + 8 roundings (the tree of shards), and one for scales that are applied to the sum.
template <class A, class B>
void check_product(const Plain& got, std::size_t k, const A& a, const B& b) {
  double worst = 0;
  for (std::size_t i = 0; i < got.rows; ++i)
    for (std::size_t j = 0; j < got.columns; ++j) {
      double sum = 0, size = 0;
      for (std::size_t p = 0; p < k; ++p) {
        const double product = a(i, p) * b(p, j);
        sum += product;
        size += std::abs(product);
      }
      const double bound = static_cast<double>(k + 12) * 0x1p-24 * size + 0x1p-126;
      worst = std::max(worst, std::abs(got.at(i, j) - sum) / bound);
    }
  CHECK(worst <= 1);
}

std::vector<Precision> policies() {
  std::vector<Precision> all{
      Precision::tf32(),        Precision::bf16(),        Precision::fp16(),
      Precision::fp8_current(), Precision::fp8_rowwise(), Precision::fp8_block(),
      Precision::mxfp8(),       Precision::cfp8(),        Precision::cfp8(9, 8, 20)};
  Precision fp32_scales = Precision::fp8_rowwise();
  fp32_scales.name = "rows with fp32 scales";
  for (Quantizer* q :
       {&fp32_scales.gemm_activations, &fp32_scales.gemm_weights, &fp32_scales.gemm_gradients})
    q->scaling.format = ScaleFormat::fp32;
  all.push_back(fp32_scales);
  Precision fp4 = Precision::mxfp8();
  fp4.name = "fp4 weights";
  fp4.gemm_weights.format = formats::fp4_e2m1;
  all.push_back(fp4);
  return all;
}

}  // namespace

TEST_CASE("each product reads its operands converted along its own sum", "[unit]") {
  auto context = make_context();
  for (const Precision& precision : policies()) {
    INFO(precision.name);
    Layer layer(context, precision);
    const std::vector<Tensor> results = layer.run_both(context);
    const Plain x = plain(context, layer.x), w = plain(context, layer.weight),
                dy = plain(context, layer.dy);
    const std::vector<std::size_t> whole{0, w.rows};
    const Quantizer &qx = precision.gemm_activations, &qw = precision.gemm_weights,
                    &qd = precision.gemm_gradients;
    const Plain x1 = converted(x, qx, false, layer.bounds),
                x2 = converted(x, qx, true, layer.bounds);
    const Plain w1 = converted(w, qw, false, whole), w2 = converted(w, qw, true, whole);
    const Plain d1 = converted(dy, qd, false, layer.bounds),
                d2 = converted(dy, qd, true, layer.bounds);
    check_product(
        plain(context, results[0]), x.columns, [&](auto i, auto k) { return x1.at(i, k); },
        [&](auto k, auto j) { return w1.at(j, k); });
    check_product(
        plain(context, results[1]), w.rows, [&](auto i, auto k) { return d1.at(i, k); },
        [&](auto k, auto j) { return w2.at(k, j); });
    check_product(
        plain(context, results[2]), x.rows, [&](auto i, auto k) { return d2.at(k, i); },
        [&](auto k, auto j) { return x2.at(k, j); });
  }
}

TEST_CASE("a weight is converted once until it is written", "[unit]") {
  auto context = make_context();
  Layer layer(context, Precision::mxfp8());
  const Tensor first = layer.run_both(context)[0];
  const std::byte* kept = layer.formats.forward.values.raw();
  CHECK(layer.formats.backward.values.raw() != kept);
  layer.run_both(context);
  CHECK(layer.formats.forward.values.raw() == kept);
  layer.weight.mutable_data<float>()[0] += 1;
  const Tensor changed = layer.run_both(context)[0];
  CHECK(changed.data<float>()[0] != first.data<float>()[0]);
  CHECK(changed.data<float>()[1] == first.data<float>()[1]);
}

TEST_CASE("a new weight at the address of an ended one is converted anew", "[unit]") {
  // Heaps and hosts give the same memory again, and a new storage has the version of the old one.
  auto context = make_context();
  const auto y_of = [&](LinearFormats& formats, const Tensor& weight) {
    Tape tape(context);
    const Var y = tape.apply(
        ops::quantized_linear, QuantizedLinearSetting{.formats = &formats},
        {tape.constant(Tensor::full(context, Shape{1, 3}, 1.0f)), tape.constant(weight)});
    return y.value().data<float>()[0];
  };
  for (const Precision& precision : {Precision::bf16(), Precision::mxfp8()}) {
    INFO(precision.name);
    LinearFormats formats;
    formats.weight.quantizer = precision.gemm_weights;
    // Memory of a host, which soma's heap knows nothing of.
    std::vector<float> memory(3);
    for (const float value : {2.0f, -4.0f, 0.5f, 8.0f}) {
      std::fill(memory.begin(), memory.end(), value);
      const Tensor weight = Tensor::adopt(context, std::span<const float>(memory), Shape{1, 3});
      CHECK(weight.version() == 0);
      CHECK(y_of(formats, weight) == 3 * value);
      CHECK(y_of(formats, weight) == 3 * value);
    }
    // Memory of the heap, until the address returns.
    LinearFormats other = formats;
    const std::byte* first = nullptr;
    bool returned = false;
    for (int i = 1; i <= 100 && !returned; ++i) {
      const float value = i % 2 == 0 ? 2.0f : -4.0f;
      const Tensor weight = Tensor::full(context, Shape{1, 3}, value);
      returned = weight.address() == first;
      if (i == 1) first = weight.address();
      CHECK(y_of(other, weight) == 3 * value);
    }
    CHECK(returned);
  }
}

TEST_CASE("another view of a weight is another weight", "[unit]") {
  auto context = make_context();
  LinearFormats formats;
  formats.weight.quantizer = Precision::bf16().gemm_weights;
  const Tensor weight = Tensor::from<float>(context, {1, 2, 4, 8}, Shape{2, 2});
  const Tensor x = Tensor::from<float>(context, {1, 0}, Shape{1, 2});
  for (const bool turned : {false, true, false}) {
    const Tensor view = turned ? weight.transpose(0, 1) : weight;
    const Tensor y = run(context, ops::quantized_linear,
                         QuantizedLinearSetting{.formats = &formats}, {x, view})[0];
    CHECK(y.data<float>()[0] == 1);
    CHECK(y.data<float>()[1] == (turned ? 2 : 4));
  }
}

TEST_CASE("delayed scales: the first step uses its own amax, later ones what they are given",
          "[unit]") {
  auto context = make_context();
  Layer delayed(context, Precision::fp8_delayed()), current(context, Precision::fp8_current());
  const auto same = [&](const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::span<const float> x = a[i].span<float>(), y = b[i].span<float>();
      if (!std::equal(x.begin(), x.end(), y.begin(), y.end())) return false;
    }
    return true;
  };
  CHECK(same(delayed.run_both(context), current.run_both(context)));
  const auto largest = [](const Tensor& tensor) {
    float amax = 0;
    for (const float value : tensor.span<float>()) amax = std::max(amax, std::abs(value));
    return amax;
  };
  CHECK(delayed.formats.x.amax == largest(delayed.x));
  CHECK(delayed.formats.weight.amax == largest(delayed.weight));
  CHECK(delayed.formats.gradient.amax == largest(delayed.dy));
  CHECK(current.formats.x.amax == 0);  // nothing to remember
  // A scale that is behind cuts off what lies beyond.
  delayed.formats.x.scale = 0x1p-10f;
  delayed.formats.weight.scale = delayed.formats.gradient.scale = 1;
  const Plain y = plain(context, delayed.run_both(context)[0]);
  const Plain x = plain(context, delayed.x);
  Plain cut = x;
  for (double& value : cut.values)
    value = static_cast<double>(
        decode(formats::fp8_e4m3fn,
               encode(formats::fp8_e4m3fn,
                      std::clamp(static_cast<float>(value) * 1024, -448.0f, 448.0f))) /
        1024);
  const Quantizer fixed{.format = formats::fp8_e4m3fn};
  const Plain w = converted(plain(context, delayed.weight), fixed, false, {});
  check_product(
      y, x.columns, [&](auto i, auto k) { return cut.at(i, k); },
      [&](auto k, auto j) { return w.at(j, k); });
}

TEST_CASE("results have the types that roles say", "[unit]") {
  auto context = make_context();
  Layer layer(context, Precision::fp8_current());
  layer.x = run(context, ops::cast, CastSetting{.dtype = DType::bf16}, {layer.x})[0];
  layer.dy = run(context, ops::cast, CastSetting{.dtype = DType::bf16}, {layer.dy})[0];
  std::vector<Tensor> results = layer.run_both(context);
  CHECK(results[0].dtype() == DType::bf16);
  CHECK(results[1].dtype() == DType::bf16);
  CHECK(results[2].dtype() == DType::fp32);
  layer.formats.input_gradient = DType::fp32;
  results = layer.run_both(context);
  CHECK(results[1].dtype() == DType::fp32);
  CHECK(results[2].dtype() == DType::fp32);
}

TEST_CASE("on a NeuronCore its products run as programs", "[unit]") {
  auto context = make_context();
  for (const Precision& precision : {Precision::cfp8(), Precision::bf16()}) {
    INFO(precision.name);
    Layer host(context, precision), device_layer(context, precision);
    const std::vector<Tensor> wanted = host.run_both(context);
    auto core = neuroncore::make_core(context);
    auto device = neuroncore::make_device(core);
    context.set_device(&device);
    const std::vector<Tensor> got = device_layer.run_both(context);
    context.set_device(nullptr);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Plain a = plain(context, got[i]), b = plain(context, wanted[i]);
      double size = 0, worst = 0;
      for (std::size_t j = 0; j < a.values.size(); ++j) {
        size = std::max(size, std::abs(b.values[j]));
        worst = std::max(worst, std::abs(a.values[j] - b.values[j]));
      }
      // Two orders of at most 400 additions of numbers that are no larger than the largest result
      // times that many.
      CHECK(worst <= 400 * 0x1p-24 * 400 * size);
    }
    bool linear_ran = false;
    for (const auto& count : device.counts())
      if (count.name == "linear" || count.name == "matmul") {
        CHECK(count.host == 0);
        linear_ran = true;
      }
    CHECK(linear_ran);
  }
}
