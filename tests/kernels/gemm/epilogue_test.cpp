// The epilogue of a product's elements: every step, every combination, every target type.

#include "kernels/gemm/gemm_call.hpp"
#include "support/floating_dtypes.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

constexpr std::size_t k = 40;

struct Steps {
  bool accumulate, bias, pre_activation, dropout, residual, amax;
  Activation activation;
};

std::vector<Steps> all_steps() {
  std::vector<Steps> all;
  for (unsigned bits = 0; bits < 64; ++bits)
    for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu,
                                        Activation::gelu_tanh, Activation::tanh})
      all.push_back({(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0,
                     (bits & 16) != 0, (bits & 32) != 0, activation});
  return all;
}

// Everything that an epilogue may read. 17 x 70 is ragged in both directions; most blocks of
// 60 x 64 are whole, and their sums grow in c.
struct Inputs {
  std::size_t m = 17, n = 70;
  Product product = random_product(m, n, k);
  std::vector<float> old = RandomFloats(3).many(m * n), bias = RandomFloats(4).many(n);
  StoredMatrix residual = store_matrix(m, n, DType::bf16, Layout::padded_rows, RandomFloats(5));
  DropoutArgs dropout{.threshold = 0x40000000u,
                      .keep_scale = 1.0f / 0.75f,
                      .draw = {.seed = 8, .stream = 2, .step = 1, .index = 5},
                      .draw_row_stride = 101,
                      .row_indices = nullptr};

  float kept(std::size_t row, std::size_t column) const {
    Draw draw = dropout.draw;
    draw.index += (dropout.row_indices != nullptr ? dropout.row_indices[row]
                                                  : row * dropout.draw_row_stride) +
                  column;
    return random_word(draw) < dropout.threshold ? 0.0f : dropout.keep_scale;
  }
};

struct Results {
  std::vector<float> c, pre_activation;
  float amax = 0.5f;
};

Results run(const Context& context, const Inputs& inputs, const Steps& steps) {
  Results results;
  results.c = inputs.old;
  results.pre_activation.assign(inputs.m * inputs.n, 0);
  GemmArgs args = inputs.product.args();
  args.c = plain_target(results.c, inputs.n);
  Epilogue& e = args.epilogue;
  e.accumulate = steps.accumulate;
  if (steps.bias) e.bias = inputs.bias.data();
  if (steps.pre_activation) e.pre_activation = plain_target(results.pre_activation, inputs.n);
  e.activation = steps.activation;
  if (steps.dropout) e.dropout = inputs.dropout;
  if (steps.residual) e.residual = inputs.residual.operand;
  if (steps.amax) e.amax = &results.amax;
  multiply(context, args);
  return results;
}

template <class T>
reference::EpilogueElement<T> finished(const Inputs& inputs, const Steps& steps, T sum,
                                       std::size_t i) {
  reference::EpilogueElement<T> element;
  if (steps.accumulate) element.old = inputs.old[i];
  if (steps.bias) element.bias = inputs.bias[i % inputs.n];
  if (steps.dropout) element.kept = inputs.kept(i / inputs.n, i % inputs.n);
  if (steps.residual) element.residual = inputs.residual.values[i];
  element.activation = steps.activation;
  element.apply(sum);
  return element;
}

// Activations have no exact reference in fp32; a double one is within what simd/math-inl.hpp states
// of its functions: 5 spacings of the result, or 2^-24 where an exponent's rounding shows (2^-22 of
// laplace, whose argument is rounded).
bool near_activation(Activation function, float before, double after) {
  const double wanted = reference::activate(function, static_cast<double>(before));
  const double absolute = function == Activation::laplace ? 0x1p-22 : 0x1p-24;
  return std::fabs(after - wanted) <= 5 * ulp_of(wanted) + absolute;
}

}  // namespace

TEST_CASE("every combination of epilogue steps, to the bit", "[unit][gemm]") {
  for (const Inputs& inputs : {Inputs{}, Inputs{60, 64}}) {
    const std::vector<float> sums = inputs.product.sums<float>();
    on_every_target([&](const Context& context) {
      if (!context.target().fused_multiply_add) return;  // the sums differ; the next case has those
      for (const Steps& steps : all_steps()) {
        if (steps.activation != Activation::none && steps.activation != Activation::relu) continue;
        const Results results = run(context, inputs, steps);
        std::vector<float> c, pre_activation;
        float amax = 0.5f;
        for (std::size_t i = 0; i < sums.size(); ++i) {
          const auto element = finished(inputs, steps, sums[i], i);
          c.push_back(element.value);
          pre_activation.push_back(element.pre_activation);
          if (steps.amax) amax = (std::max)(amax, std::fabs(element.value));
        }
        CHECK(same_bits(results.c, c));
        if (steps.pre_activation) CHECK(same_bits(results.pre_activation, pre_activation));
        CHECK(results.amax == amax);
      }
    });
  }
}

TEST_CASE("activations, between the steps before and after them", "[unit][gemm]") {
  for (const Inputs& inputs : {Inputs{}, Inputs{60, 64}})
    on_every_target([&](const Context& context) {
      for (const Activation function :
           {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::tanh,
            Activation::sigmoid, Activation::silu, Activation::gelu_sigmoid,
            Activation::gelu_clipped, Activation::mish, Activation::leaky_relu, Activation::relu6,
            Activation::relu_squared, Activation::laplace}) {
        const Steps alone{true, true, true, false, false, true, function};
        const Results before = run(context, inputs, alone);
        float largest = 0.5f;
        for (std::size_t i = 0; i < before.c.size(); ++i) {
          CHECK(near_activation(function, before.pre_activation[i], before.c[i]));
          largest = (std::max)(largest, std::fabs(before.c[i]));
        }
        CHECK(before.amax == largest);
        // Dropout and residual act on those very values, each rounded by itself.
        const Steps more{true, true, false, true, true, false, function};
        const Results after = run(context, inputs, more);
        std::vector<float> wanted;
        for (std::size_t i = 0; i < before.c.size(); ++i) {
          reference::EpilogueElement<float> element;
          element.kept = inputs.kept(i / inputs.n, i % inputs.n);
          element.residual = inputs.residual.values[i];
          element.apply(before.c[i]);
          wanted.push_back(element.value);
        }
        CHECK(same_bits(after.c, wanted));
      }
    });
}

TEST_CASE("epilogues have the same bits on all targets with fused multiply-add",
          "[unit][gemm][invariance]") {
  const Inputs inputs;
  std::vector<std::vector<float>> seen;
  on_every_target([&](const Context& context) {
    if (!context.target().fused_multiply_add) return;
    std::vector<float> all;
    for (const Steps& steps : all_steps()) {
      const Results results = run(context, inputs, steps);
      all.insert(all.end(), results.c.begin(), results.c.end());
      all.insert(all.end(), results.pre_activation.begin(), results.pre_activation.end());
      all.push_back(results.amax);
    }
    seen.push_back(std::move(all));
  });
  for (const auto& other : seen)
    CHECK(std::memcmp(other.data(), seen[0].data(), other.size() * sizeof(float)) == 0);
}

TEST_CASE("results of every type, rounded once, drawn by logical index", "[unit][gemm]") {
  // Sums around 1, which all types hold.
  for (const Inputs& inputs : {Inputs{}, Inputs{60, 64}})
    for (const DType dtype : floating_dtypes)
      for (const Rounding rounding : {Rounding::nearest_even, Rounding::stochastic, Rounding::up})
        for (const bool by_indices : {false, true})
          on_every_target([&](const Context& context) {
            const Steps steps{false, true, false, true, true, true, Activation::gelu};
            const Results plain = run(context, inputs, steps);
            TargetMatrix c(inputs.m, inputs.n, dtype, rounding, by_indices),
                pre_activation(inputs.m, inputs.n, dtype, rounding, by_indices);
            const Results before =
                run(context, inputs, {false, true, true, false, false, false, Activation::none});
            GemmArgs args = inputs.product.args();
            args.c = c.target;
            args.epilogue.bias = inputs.bias.data();
            args.epilogue.pre_activation = pre_activation.target;
            args.epilogue.activation = Activation::gelu;
            args.epilogue.dropout = inputs.dropout;
            args.epilogue.residual = inputs.residual.operand;
            for (const bool past_caches : {false, true}) {
              args.stream_c = past_caches;
              std::fill(c.bytes.begin(), c.bytes.end(), TargetMatrix::untouched);
              multiply(context, args);
              INFO(to_string(dtype) << " " << to_string(rounding.mode) << " " << past_caches);
              CHECK(c.holds(plain.c, inputs.n));
              CHECK(pre_activation.holds(before.c, inputs.n));
            }
          });
}

namespace {

// The unit of a streaming store.
struct alignas(64) Line {
  std::uint16_t codes[32];
};

// c as bf16, without a bias and with some, one of subnormal numbers, is the fp32 result of the same
// product rounded. Returns how many results are subnormal.
std::size_t check_bf16_result(const Context& context, Bf16Products products,
                              const Product& product) {
  const std::size_t m = product.m, n = product.n;
  const std::vector<float> bias = RandomFloats(4).many(n);
  std::vector<float> small = bias;
  for (float& x : small) x *= 0x1p-127f;
  std::size_t subnormal = 0;
  for (const std::vector<float>& added : {std::vector<float>(), bias, small}) {
    INFO(m << " x " << n << " x " << product.k << ", bias " << (added.empty() ? 0 : added[0]));
    GemmArgs args = product.args();
    args.bf16_products = products;
    args.epilogue.bias = added.empty() ? nullptr : added.data();
    std::vector<float> wide(m * n);
    args.c = plain_target(wide, n);
    multiply(context, args);
    TargetMatrix narrow(m, n, DType::bf16);
    args.c = narrow.target;
    multiply(context, args);
    CHECK(narrow.holds(wide, n));
    const std::size_t lines_each = (n + 31) / 32;
    std::vector<Line> lines(m * lines_each);
    args.c = {.data = lines.data(), .dtype = DType::bf16, .row_stride = lines_each * 32};
    args.stream_c = true;
    multiply(context, args);
    for (std::size_t row = 0; row < m; ++row)
      CHECK(std::memcmp(&lines[row * lines_each],
                        narrow.bytes.data() + row * narrow.target.row_stride * 2, n * 2) == 0);
    for (const float x : wide) subnormal += x != 0 && std::fabs(x) < 0x1p-126f;
  }
  return subnormal;
}

// Whole blocks and parts of them, segments that are packed together and that are not, more of k
// than is packed at once, few rows, scales; infinities and NaN of two kinds.
std::vector<Product> products_of_narrow_results() {
  std::vector<Product> all;
  for (const std::size_t m : {1u, 14u, 45u, 61u, 130u})
    for (const std::size_t n : {31u, 32u, 96u, 544u})
      all.push_back(random_product(m, n, 40, {}, Layout::contiguous, Layout::transposed,
                                   DType::bf16, DType::bf16));
  for (std::vector<std::size_t> bounds :
       {std::vector<std::size_t>{0, 3, 3, 10, 64}, {0, 1500, 2100, 2100, 2300}})
    all.push_back(random_product(70, 64, bounds.back(), bounds, Layout::transposed,
                                 Layout::contiguous, DType::bf16, DType::bf16));
  all.push_back(random_product(70, 64, 2300, {}, Layout::contiguous, Layout::contiguous,
                               DType::bf16, DType::bf16));
  all.push_back(
      Product(70, 64, 40, {},
              store_matrix(70, 40, DType::fp8_e4m3, Layout::contiguous, RandomFloats(3), 0.3f),
              store_matrix(40, 64, DType::bf16, Layout::contiguous, RandomFloats(4))));
  Product special = random_product(70, 64, 40, {}, Layout::contiguous, Layout::contiguous,
                                   DType::bf16, DType::bf16);
  constexpr std::uint16_t infinity = 0x7F80, quiet = 0x7FC1, negative_nan = 0xFF81;
  std::size_t row = 5;
  for (const std::uint16_t code : {infinity, quiet, negative_nan})
    put_code(code, 2, special.a.bytes.data() + row++ * special.a.operand.row_stride * sizeof code);
  all.push_back(std::move(special));
  return all;
}

// Results at the least normal number, of one segment and of several.
std::vector<Product> products_of_small_results() {
  const auto matrix = [](std::size_t rows, std::size_t columns, std::uint64_t seed) {
    return store_matrix(rows, columns, DType::bf16, Layout::contiguous,
                        [random = RandomFloats(seed)]() mutable { return random() * 0x1p-64f; });
  };
  std::vector<Product> all;
  for (std::vector<std::size_t> bounds : {std::vector<std::size_t>{0, 40}, {0, 10, 20, 30, 40}})
    all.push_back(Product(61, 96, 40, bounds, matrix(61, 40, 5), matrix(40, 96, 6)));
  return all;
}

}  // namespace

TEST_CASE("results in bf16 are fp32 results, rounded", "[unit][gemm]") {
  const std::vector<Product> products = products_of_narrow_results();
  const std::vector<Product> small = products_of_small_results();
  const auto check = [&](const Context& context, Bf16Products how) {
    for (const Product& product : products) check_bf16_result(context, how, product);
    for (const Product& product : small) CHECK(check_bf16_result(context, how, product) > 0);
  };
  on_every_target([&](const Context& context) { check(context, Bf16Products::widened); });
  on_every_bf16_target(check);
}

TEST_CASE("a residual may be c itself", "[unit][gemm]") {
  for (const Inputs& inputs : {Inputs{}, Inputs{60, 64}})
    on_every_target([&](const Context& context) {
      std::vector<float> apart(inputs.old.size()), same = inputs.old;
      GemmArgs args = inputs.product.args();
      args.epilogue.residual = {.data = inputs.old.data(), .row_stride = inputs.n};
      args.c = plain_target(apart, inputs.n);
      multiply(context, args);
      args.epilogue.residual.data = same.data();
      args.c = plain_target(same, inputs.n);
      multiply(context, args);
      CHECK(same_bits(same, apart));
    });
}

TEST_CASE("dropout draws by row indices where there are any", "[unit][gemm]") {
  Inputs inputs;
  const std::size_t m = inputs.m, n = inputs.n;
  std::vector<std::uint64_t> rows;
  for (std::size_t i = 0; i < m; ++i)
    rows.push_back((std::uint64_t{1} << 33) + 997 * ((i * 5) % m));
  inputs.dropout.row_indices = rows.data();
  const Steps steps{false, false, false, true, false, false, Activation::none};
  on_every_target([&](const Context& context) {
    const Results whole =
        run(context, inputs, {false, false, false, false, false, false, Activation::none});
    const Results results = run(context, inputs, steps);
    std::vector<float> wanted(m * n);
    std::size_t dropped = 0;
    for (std::size_t i = 0; i < m * n; ++i) {
      const float kept = inputs.kept(i / n, i % n);
      dropped += kept == 0;
      wanted[i] = kept == 0 ? 0.0f : whole.c[i] * kept;
    }
    CHECK(same_bits(results.c, wanted));
    // A quarter, within five standard deviations: sqrt(m n 3/16) < 15.
    CHECK(std::fabs(static_cast<double>(dropped) - static_cast<double>(m * n) / 4) < 75);
  });
}

TEST_CASE("without k the epilogue still runs, on zeros", "[unit][gemm]") {
  Inputs inputs;
  inputs.product = random_product(inputs.m, inputs.n, 0);
  const Steps steps{true, true, true, false, true, true, Activation::relu};
  on_every_target([&](const Context& context) {
    const Results results = run(context, inputs, steps);
    for (std::size_t i = 0; i < results.c.size(); ++i)
      CHECK(results.c[i] == finished(inputs, steps, 0.0f, i).value);
  });
}

TEST_CASE("amax counts finite values only, dropped values are zero whatever they were",
          "[unit][gemm]") {
  Inputs inputs;
  inputs.bias[3] = std::numeric_limits<float>::infinity();
  inputs.bias[4] = std::numeric_limits<float>::quiet_NaN();
  const Steps steps{false, true, false, true, false, true, Activation::none};
  on_every_target([&](const Context& context) {
    const Results results = run(context, inputs, steps);
    float largest = 0.5f;
    for (std::size_t i = 0; i < results.c.size(); ++i) {
      const float value = results.c[i];
      const std::size_t column = i % inputs.n;
      if (inputs.kept(i / inputs.n, column) == 0)
        CHECK(value == 0);
      else
        CHECK(std::isfinite(value) == (column != 3 && column != 4));
      if (std::isfinite(value)) largest = (std::max)(largest, std::fabs(value));
    }
    CHECK(results.amax == largest);
  });
}
