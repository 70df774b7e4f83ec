// The element family of the kernel table. One skeleton (map_rows) reads, writes and cuts; a
// function is one short loop over a run of floats, found in a table before any row is touched.

#if defined(SOMA_KERNELS_ELEMENT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ELEMENT_INL_HPP
#undef SOMA_KERNELS_ELEMENT_INL_HPP
#else
#define SOMA_KERNELS_ELEMENT_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/dropout_rows-inl.hpp>
#include <soma/kernels/element_args.hpp>
#include <soma/kernels/rows-inl.hpp>
#include <soma/simd/math-inl.hpp>

#include <hwy/highway.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <Unary kFunction, class DF, class V = hn::Vec<DF>>
HWY_INLINE V unary_lanes(DF d, V x) {
  if constexpr (kFunction == Unary::copy) return x;
  if constexpr (kFunction == Unary::negate) return hn::Neg(x);
  if constexpr (kFunction == Unary::absolute) return hn::Abs(x);
  if constexpr (kFunction == Unary::square) return hn::Mul(x, x);
  if constexpr (kFunction == Unary::square_root) return hn::Sqrt(x);
  if constexpr (kFunction == Unary::reciprocal) return hn::Div(hn::Set(d, 1.0f), x);
  if constexpr (kFunction == Unary::exponential) return exp_lanes(d, x);
  if constexpr (kFunction == Unary::logarithm) return log_lanes(d, x);
  if constexpr (kFunction == Unary::sine) return sin_lanes(d, x);
  if constexpr (kFunction == Unary::cosine) return cos_lanes(d, x);
  if constexpr (kFunction == Unary::relu) return at_least_lanes(d, x, 0.0f);
  if constexpr (kFunction == Unary::gelu) return gelu_lanes(d, x);
  if constexpr (kFunction == Unary::gelu_tanh) return gelu_tanh_lanes(d, x);
  if constexpr (kFunction == Unary::tanh) return tanh_lanes(d, x);
  if constexpr (kFunction == Unary::sigmoid) return sigmoid_lanes(d, x);
  if constexpr (kFunction == Unary::silu) return silu_lanes(d, x);
  if constexpr (kFunction == Unary::softplus) return softplus_lanes(d, x);
}

// 0 at zero, and NaN of NaN, as x itself there.
template <class DF, class V = hn::Vec<DF>>
HWY_INLINE V sign_lanes(DF d, V x) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  return hn::IfThenElse(hn::Gt(x, zero), one, hn::IfThenElse(hn::Lt(x, zero), hn::Neg(one), x));
}

template <Unary kFunction, class DF, class V = hn::Vec<DF>>
HWY_INLINE V unary_derivative_lanes(DF d, V x) {
  const V one = hn::Set(d, 1.0f);
  if constexpr (kFunction == Unary::copy) return one;
  if constexpr (kFunction == Unary::negate) return hn::Neg(one);
  if constexpr (kFunction == Unary::absolute) return sign_lanes(d, x);
  if constexpr (kFunction == Unary::square) return hn::Add(x, x);
  if constexpr (kFunction == Unary::square_root) return hn::Div(hn::Set(d, 0.5f), hn::Sqrt(x));
  if constexpr (kFunction == Unary::exponential) return exp_lanes(d, x);
  if constexpr (kFunction == Unary::logarithm) return hn::Div(one, x);
  if constexpr (kFunction == Unary::sine) return cos_lanes(d, x);
  if constexpr (kFunction == Unary::cosine) return hn::Neg(sin_lanes(d, x));
  if constexpr (kFunction == Unary::relu) return at_least_lanes(d, sign_lanes(d, x), 0.0f);
  if constexpr (kFunction == Unary::gelu) return gelu_derivative_lanes(d, x);
  if constexpr (kFunction == Unary::gelu_tanh) return gelu_tanh_derivative_lanes(d, x);
  if constexpr (kFunction == Unary::tanh) return tanh_derivative_lanes(d, x);
  if constexpr (kFunction == Unary::sigmoid) return sigmoid_derivative_lanes(d, x);
  if constexpr (kFunction == Unary::silu) return silu_derivative_lanes(d, x);
  if constexpr (kFunction == Unary::softplus) return sigmoid_lanes(d, x);
}

// NaN where either is NaN; of equal ones (zeros of both signs too) maximum and minimum give b.
template <Binary kFunction, class DF, class V = hn::Vec<DF>>
HWY_INLINE V binary_lanes(DF, V a, V b) {
  if constexpr (kFunction == Binary::add) return hn::Add(a, b);
  if constexpr (kFunction == Binary::subtract) return hn::Sub(a, b);
  if constexpr (kFunction == Binary::multiply) return hn::Mul(a, b);
  if constexpr (kFunction == Binary::divide) return hn::Div(a, b);
  if constexpr (kFunction == Binary::maximum)
    return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
  if constexpr (kFunction == Binary::minimum)
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
}

template <Unary kFunction>
HWY_NOINLINE static void unary_loop(const float* const* in, float* out, std::size_t count) {
  map_vectors<1, from_memory>({in[0]}, out, count, [](FloatVector x) HWY_ATTR {
    return unary_lanes<kFunction>(Floats(), x);
  });
}

// dy times the derivative. That of 1/x may be below or above all numbers where the result is not.
template <Unary kFunction, class DF, class V = hn::Vec<DF>>
HWY_INLINE V unary_gradient_lanes(DF d, V x, V dy) {
  if constexpr (kFunction == Unary::reciprocal) {
    const V y = hn::Div(hn::Set(d, 1.0f), x);
    return hn::Mul(hn::Mul(dy, y), hn::Neg(y));
  } else {
    return hn::Mul(dy, unary_derivative_lanes<kFunction>(d, x));
  }
}

template <Unary kFunction>
HWY_NOINLINE static void unary_backward_loop(const float* const* in, float* out,
                                             std::size_t count) {
  map_vectors<2, from_memory>({in[0], in[1]}, out, count,
                              [](FloatVector x, FloatVector dy) HWY_ATTR {
                                return unary_gradient_lanes<kFunction>(Floats(), x, dy);
                              });
}

template <Binary kFunction>
HWY_NOINLINE static void binary_loop(const float* const* in, float* out, std::size_t count) {
  map_vectors<2, from_memory>({in[0], in[1]}, out, count,
                              [](FloatVector a, FloatVector b)
                                  HWY_ATTR { return binary_lanes<kFunction>(Floats(), a, b); });
}

inline constexpr std::size_t unary_functions = static_cast<std::size_t>(Unary::softplus) + 1;
inline constexpr std::size_t binary_functions = static_cast<std::size_t>(Binary::minimum) + 1;

template <std::size_t... i>
static constexpr std::array<MapLoop, sizeof...(i)> unary_loops(std::index_sequence<i...>) {
  return {unary_loop<static_cast<Unary>(i)>...};
}
template <std::size_t... i>
static constexpr std::array<MapLoop, sizeof...(i)> unary_backward_loops(std::index_sequence<i...>) {
  return {unary_backward_loop<static_cast<Unary>(i)>...};
}
template <std::size_t... i>
static constexpr std::array<MapLoop, sizeof...(i)> binary_loops(std::index_sequence<i...>) {
  return {binary_loop<static_cast<Binary>(i)>...};
}

static inline void unary_kernel(const UnaryArgs& args) noexcept {
  static constexpr auto loops = unary_loops(std::make_index_sequence<unary_functions>());
  const MatrixOperand* inputs[] = {&args.x};
  map_rows(args.rows, args.columns, inputs, 1, 1, args.y,
           loops[static_cast<std::size_t>(args.function)]);
}

static inline void unary_backward_kernel(const UnaryArgs& args) noexcept {
  static constexpr auto loops = unary_backward_loops(std::make_index_sequence<unary_functions>());
  const MatrixOperand* inputs[] = {&args.x, &args.dy};
  map_rows(args.rows, args.columns, inputs, 2, 1, args.y,
           loops[static_cast<std::size_t>(args.function)]);
}

static inline void binary_kernel(const BinaryArgs& args) noexcept {
  static constexpr auto loops = binary_loops(std::make_index_sequence<binary_functions>());
  const bool scales = args.function == Binary::add || args.function == Binary::subtract;
  const MatrixOperand* inputs[] = {&args.a, &args.b};
  map_rows(args.rows, args.columns, inputs, 2, scales ? args.b_scale : 1, args.y,
           loops[static_cast<std::size_t>(args.function)]);
}

// ---- dropout

static inline void dropout_kernel(const DropArgs& args) noexcept {
  const DropoutArgs& drop = args.dropout;
  ChunkBuffer buffer;
  WordBuffer words;
  const RowReader reader(args.x);
  RowWriter writer(args.y);
  std::size_t rows = args.rows, columns = args.columns;
  if (is_one_row(rows, columns, args.x) && is_one_row(rows, columns, args.y) &&
      drop.row_indices == nullptr && drop.draw_row_stride == columns) {
    columns *= rows;
    rows = 1;
  }
  for (std::size_t row = 0; row < rows; ++row)
    for_each_chunk(columns, [&](std::size_t first, std::size_t count) {
      const float* x = reader.read(row, first, count, buffer.values);
      const std::uint64_t index =
          draw_index(drop.draw, drop.draw_row_stride, drop.row_indices, row, first);
      drop_words(x, philox_run(drop.draw, index, count, words.words), count, drop,
                 writer.place(row, first));
      writer.finish(row, first, count);
    });
}

static constexpr ElementKernels element_kernels{unary_kernel, unary_backward_kernel, binary_kernel,
                                                dropout_kernel};

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
