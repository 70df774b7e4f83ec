// EngineKernels in Highway. Every operator is a loop of its own over memory: the product of one
// instruction never meets the sum of another in a register, where compilers contract the two.

#if defined(SOMA_NEURONCORE_ENGINES_ENGINE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_NEURONCORE_ENGINES_ENGINE_INL_HPP
#undef SOMA_NEURONCORE_ENGINES_ENGINE_INL_HPP
#else
#define SOMA_NEURONCORE_ENGINES_ENGINE_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/neuroncore/engines/engine_kernels.hpp>
#include <soma/neuroncore/engines/multiply-inl.hpp>
#include <soma/numeric/fused.hpp>
#include <soma/simd/code_runs-inl.hpp>
#include <soma/simd/math-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// ---- stored elements

static inline void engine_decode(const CodecParams& codec, const std::byte* from, std::size_t count,
                                 float* to) noexcept {
  const auto width = static_cast<std::size_t>(codec.width);
  const std::size_t lanes = hn::Lanes(Lanes32());
  const std::size_t whole = count / lanes * lanes;
  if (whole != 0) decode_whole_vectors(codec, from, whole, to);
  if (whole == count) return;
  alignas(64) std::byte codes[4 * lane_padding] = {};
  alignas(64) float last[lane_padding];
  std::memcpy(codes, from + whole * width, (count - whole) * width);
  decode_whole_vectors(codec, codes, lanes, last);
  std::memcpy(to + whole, last, (count - whole) * sizeof(float));
}

static inline void engine_encode(const CodecParams& codec, const float* from, std::size_t count,
                                 std::byte* to, const Draw& draw) noexcept {
  ConvertBuffers buffers;
  for (std::size_t first = 0; first < count; first += convert_chunk) {
    const std::size_t part = (std::min)(convert_chunk, count - first);
    const float* values = from + first;
    if (part % lane_padding != 0) {  // loops read whole vectors
      std::memcpy(buffers.values, values, part * sizeof(float));
      std::memset(buffers.values + part, 0, lane_padding * sizeof(float));
      values = buffers.values;
    }
    Draw at = draw;
    at.index += first;
    encode_chunk(codec, reinterpret_cast<const std::byte*>(values), part,
                 to + first * static_cast<std::size_t>(codec.width), at, buffers);
  }
}

static inline void engine_words(const Draw& draw, std::size_t count, std::uint32_t* out) noexcept {
  constexpr std::size_t chunk = 512;
  alignas(64) std::uint32_t words[chunk + 6 + philox_padding];
  for (std::size_t first = 0; first < count; first += chunk) {
    const std::size_t part = (std::min)(chunk, count - first);
    std::memcpy(out + first, philox_run(draw, draw.index + first, part, words),
                part * sizeof(std::uint32_t));
  }
}

// ---- one operator over a run

template <class Step>
HWY_INLINE void engine_map(const float* a, const float* b, float* out, std::size_t count,
                           const Step& step) {
  const ArrayLanes d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(step(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  if (i == count) return;
  alignas(64) float x[16] = {}, y[16] = {};
  std::memcpy(x, a + i, (count - i) * sizeof(float));
  std::memcpy(y, b + i, (count - i) * sizeof(float));
  hn::Store(step(hn::Load(d, x), hn::Load(d, y)), d, x);
  std::memcpy(out + i, x, (count - i) * sizeof(float));
}

template <neuroncore::Alu op, class V>
HWY_INLINE V alu_lanes(V a, V b) {
  using neuroncore::Alu;
  const ArrayLanes d;
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  const auto flag = [&](auto mask) HWY_ATTR { return hn::IfThenElseZero(mask, one); };
  // Unlike Ne, whose result for NaN depends on the instruction set, this gives true for NaN, as in
  // C++.
  const auto differ = [](V x, V y) HWY_ATTR { return hn::Not(hn::Eq(x, y)); };
  const auto set = [&](V v) HWY_ATTR { return flag(differ(v, zero)); };
  if constexpr (op == Alu::add) return hn::Add(a, b);
  if constexpr (op == Alu::subtract) return hn::Sub(a, b);
  if constexpr (op == Alu::multiply) return hn::Mul(a, b);
  if constexpr (op == Alu::maximum) return hn::IfThenElse(hn::Gt(a, b), a, b);
  if constexpr (op == Alu::minimum) return hn::IfThenElse(hn::Lt(a, b), a, b);
  if constexpr (op == Alu::equal) return flag(hn::Eq(a, b));
  if constexpr (op == Alu::not_equal) return flag(differ(a, b));
  if constexpr (op == Alu::greater_equal) return flag(hn::Ge(a, b));
  if constexpr (op == Alu::greater) return flag(hn::Gt(a, b));
  if constexpr (op == Alu::less_equal) return flag(hn::Le(a, b));
  if constexpr (op == Alu::less) return flag(hn::Lt(a, b));
  if constexpr (op == Alu::logical_and) return hn::Mul(set(a), set(b));
  if constexpr (op == Alu::logical_or) return flag(hn::Or(differ(a, zero), differ(b, zero)));
  if constexpr (op == Alu::logical_xor) return flag(differ(set(a), set(b)));
  if constexpr (op == Alu::absolute) return hn::Abs(a);
  if constexpr (op == Alu::logical_not) return flag(hn::Eq(a, zero));
  return a;
}

using AluLoop = void (*)(const float*, const float*, float*, std::size_t);

template <neuroncore::Alu op>
HWY_NOINLINE HWY_MAYBE_UNUSED static void alu_loop(const float* a, const float* b, float* out,
                                                   std::size_t count) {
  engine_map(a, b, out, count, [](auto x, auto y) HWY_ATTR { return alu_lanes<op>(x, y); });
}

template <std::size_t... i>
static constexpr std::array<AluLoop, sizeof...(i)> alu_loops(std::index_sequence<i...>) {
  return {alu_loop<static_cast<neuroncore::Alu>(i)>...};
}

static inline void engine_alu(neuroncore::Alu op, const float* a, const float* b, float* out,
                              std::size_t count) noexcept {
  static constexpr auto loops = alu_loops(
      std::make_index_sequence<static_cast<std::size_t>(neuroncore::Alu::logical_not) + 1>());
  loops[static_cast<std::size_t>(op)](a, b, out, count);
}

// The same with one number in place of all elements on one side.
template <class Step>
HWY_INLINE void engine_map_one(const float* a, float* out, std::size_t count, const Step& step) {
  const ArrayLanes d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(step(hn::LoadU(d, a + i)), d, out + i);
  if (i == count) return;
  alignas(64) float x[16] = {};
  std::memcpy(x, a + i, (count - i) * sizeof(float));
  hn::Store(step(hn::Load(d, x)), d, x);
  std::memcpy(out + i, x, (count - i) * sizeof(float));
}

using AluScalarLoop = void (*)(const float*, float, bool, float*, std::size_t);

template <neuroncore::Alu op>
HWY_NOINLINE HWY_MAYBE_UNUSED static void alu_scalar_loop(const float* a, float b, bool reverse,
                                                          float* out, std::size_t count) {
  const auto all = hn::Set(ArrayLanes(), b);
  if (reverse)
    engine_map_one(a, out, count, [all](auto x) HWY_ATTR { return alu_lanes<op>(all, x); });
  else
    engine_map_one(a, out, count, [all](auto x) HWY_ATTR { return alu_lanes<op>(x, all); });
}

template <std::size_t... i>
static constexpr std::array<AluScalarLoop, sizeof...(i)> alu_scalar_loops(
    std::index_sequence<i...>) {
  return {alu_scalar_loop<static_cast<neuroncore::Alu>(i)>...};
}

static inline void engine_alu_scalar(neuroncore::Alu op, const float* a, float b, bool reverse,
                                     float* out, std::size_t count) noexcept {
  static constexpr auto loops = alu_scalar_loops(
      std::make_index_sequence<static_cast<std::size_t>(neuroncore::Alu::logical_not) + 1>());
  loops[static_cast<std::size_t>(op)](a, b, reverse, out, count);
}

// ---- functions of the Scalar engine

// arctan for |x| up to pi/2, in double: two half angles, atan x = 2 atan(x / (1 + sqrt(1 + x^2))),
// leave |x| below 0.26; eight terms of the series then err by less than 1e-11. An infinity, which
// would be divided by infinity, is replaced by the largest number.
HWY_MAYBE_UNUSED static inline float arctan_one(float value) {
  constexpr float largest = (std::numeric_limits<float>::max)();
  double x = static_cast<double>(std::clamp(value, -largest, largest));
  for (int half = 0; half < 2; ++half) x = x / (1 + std::sqrt(fused_multiply_add(x, x, 1.0)));
  const double s = -x * x;
  double sum = 0;
  for (int k = 8; k >= 0; --k) sum = fused_multiply_add(sum, s, 1.0 / (2 * k + 1));
  return static_cast<float>(4 * x * sum);
}

// erf x. The tail, 1 - 2 Phi(-|x| sqrt 2), loses relative precision where x is small; there the
// series 2 / sqrt(pi) (x - x^3 / 3 + x^5 / 10 ...), cut below 2^-29 of it for |x| < 1/2.
template <class V>
HWY_INLINE V erf_lanes(V x) {
  const ArrayLanes d;
  const V tail = normal_cumulative_lanes(d, hn::Mul(hn::Abs(x), hn::Set(d, -1.41421356f)));
  const V large = hn::CopySign(fused(d, tail, hn::Set(d, -2.0f), hn::Set(d, 1.0f)), x);
  const V square = hn::Mul(x, x);
  V series = hn::Set(d, 1.20553e-4f);  // 2 / sqrt(pi) / 9360
  for (const float c :
       {-8.548325e-4f, 5.2239775e-3f, -2.6866171e-2f, 0.11283792f, -0.37612639f, 1.1283792f})
    series = fused(d, series, square, hn::Set(d, c));
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0.5f)), hn::Mul(series, x), large);
}

template <neuroncore::Function function, class V>
HWY_INLINE V function_lanes(V x) {
  using neuroncore::Function;
  const ArrayLanes d;
  const V one = hn::Set(d, 1.0f);
  if constexpr (function == Function::square) return hn::Mul(x, x);
  if constexpr (function == Function::relu) return at_least_lanes(d, x, 0.0f);
  if constexpr (function == Function::sign)
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), one,
                          hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Neg(one), x));
  if constexpr (function == Function::absolute) return hn::Abs(x);
  if constexpr (function == Function::sigmoid) return sigmoid_lanes(d, x);
  if constexpr (function == Function::tanh) return tanh_lanes(d, x);
  if constexpr (function == Function::softplus) return softplus_lanes(d, x);
  // Bounds of arguments: a value that the exponential makes zero must not be multiplied by
  // infinity.
  if constexpr (function == Function::mish)
    return hn::Mul(at_least_lanes(d, x, -110.0f), tanh_lanes(d, softplus_lanes(d, x)));
  if constexpr (function == Function::silu) return silu_lanes(d, x);
  if constexpr (function == Function::silu_dx) return silu_derivative_lanes(d, x);
  if constexpr (function == Function::gelu) return gelu_lanes(d, x);
  if constexpr (function == Function::gelu_dx) return gelu_derivative_lanes(d, x);
  if constexpr (function == Function::gelu_apprx_tanh) return gelu_tanh_lanes(d, x);
  if constexpr (function == Function::gelu_apprx_sigmoid)
    return hn::Mul(at_least_lanes(d, x, -64.0f), sigmoid_lanes(d, hn::Mul(x, hn::Set(d, 1.702f))));
  if constexpr (function == Function::gelu_apprx_sigmoid_dx) {
    const V v = hn::Mul(clamp_lanes(d, x, -64.0f, 64.0f), hn::Set(d, 1.702f));
    const V s = sigmoid_lanes(d, v);
    return fused(d, v, sigmoid_derivative_lanes(d, v), s);
  }
  if constexpr (function == Function::erf) return erf_lanes(x);
  if constexpr (function == Function::erf_dx)
    return hn::Mul(hn::Set(d, 1.12837917f), exp_lanes(d, hn::Neg(hn::Mul(x, x))));
  if constexpr (function == Function::exp) return exp_lanes(d, x);
  if constexpr (function == Function::log) return log_lanes(d, x);
  if constexpr (function == Function::sin) return sin_lanes(d, x);
  if constexpr (function == Function::sqrt) return hn::Sqrt(x);
  if constexpr (function == Function::rsqrt) return hn::Div(one, hn::Sqrt(x));
  if constexpr (function == Function::reciprocal) return hn::Div(one, x);
  return x;
}

template <neuroncore::Function function>
HWY_NOINLINE HWY_MAYBE_UNUSED static void function_loop(const float* a, const float* b, float* out,
                                                        std::size_t count) {
  if constexpr (function == neuroncore::Function::arctan)
    for (std::size_t i = 0; i < count; ++i) out[i] = arctan_one(a[i]);
  else
    engine_map(a, b, out, count, [](auto x, auto) HWY_ATTR { return function_lanes<function>(x); });
}

template <std::size_t... i>
static constexpr std::array<AluLoop, sizeof...(i)> function_loops(std::index_sequence<i...>) {
  return {function_loop<static_cast<neuroncore::Function>(i)>...};
}

static inline void engine_activate(neuroncore::Function function, const float* x, float* out,
                                   std::size_t count) noexcept {
  static constexpr auto loops = function_loops(
      std::make_index_sequence<static_cast<std::size_t>(neuroncore::Function::reciprocal) + 1>());
  loops[static_cast<std::size_t>(function)](x, x, out, count);
}

// ---- reductions

// A reduction of two numbers, as in alu_lanes().
template <neuroncore::Alu op>
HWY_INLINE float reduce_two(float a, float b) {
  if constexpr (op == neuroncore::Alu::add) return a + b;
  if constexpr (op == neuroncore::Alu::multiply) return a * b;
  if constexpr (op == neuroncore::Alu::maximum) return a > b ? a : b;
  return a < b ? a : b;
}

template <neuroncore::Alu op>
HWY_NOINLINE HWY_MAYBE_UNUSED static float reduce_run(const float* x, std::size_t count) {
  constexpr float start = op == neuroncore::Alu::add        ? 0.0f
                          : op == neuroncore::Alu::multiply ? 1.0f
                          : op == neuroncore::Alu::maximum  ? -HUGE_VALF
                                                            : HUGE_VALF;
  const ArrayLanes d;
  const std::size_t lanes = hn::Lanes(d);
  alignas(64) float sums[16], last[16];
  std::fill_n(sums, 16, start);
  const std::size_t whole = count / 16 * 16;
  for (std::size_t lane = 0; lane < 16 && whole != 0; lane += lanes) {
    auto sum = hn::Load(d, sums + lane);
    for (std::size_t i = lane; i < whole; i += 16) sum = alu_lanes<op>(sum, hn::LoadU(d, x + i));
    hn::Store(sum, d, sums + lane);
  }
  if (whole != count) {
    std::fill_n(last, 16, start);
    std::memcpy(last, x + whole, (count - whole) * sizeof(float));
    engine_map(sums, last, sums, 16, [](auto a, auto b) HWY_ATTR { return alu_lanes<op>(a, b); });
  }
  for (std::size_t half = 8; half != 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) sums[i] = reduce_two<op>(sums[i], sums[i + half]);
  return sums[0];
}

static inline float engine_reduce(neuroncore::Alu op, const float* x, std::size_t count) noexcept {
  switch (op) {
    case neuroncore::Alu::multiply:
      return reduce_run<neuroncore::Alu::multiply>(x, count);
    case neuroncore::Alu::maximum:
      return reduce_run<neuroncore::Alu::maximum>(x, count);
    case neuroncore::Alu::minimum:
      return reduce_run<neuroncore::Alu::minimum>(x, count);
    default:
      return reduce_run<neuroncore::Alu::add>(x, count);
  }
}

static constexpr neuroncore::EngineKernels engine_kernels{
    engine_decode,   engine_encode, engine_alu,     engine_alu_scalar,
    engine_activate, engine_reduce, array_multiply, engine_words};

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
