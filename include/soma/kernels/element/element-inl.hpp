// The element family of the kernel table. One skeleton (map_rows) reads, writes and cuts; a
// function is one short loop over a run of floats, found in a table before any row is touched.

#if defined(SOMA_KERNELS_ELEMENT_ELEMENT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ELEMENT_ELEMENT_INL_HPP
#undef SOMA_KERNELS_ELEMENT_ELEMENT_INL_HPP
#else
#define SOMA_KERNELS_ELEMENT_ELEMENT_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/element/args.hpp>
#include <soma/kernels/element/dropout-inl.hpp>
#include <soma/kernels/element/functions-inl.hpp>
#include <soma/kernels/element/gated-inl.hpp>
#include <soma/kernels/rows/matrix_io-inl.hpp>

#include <hwy/highway.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <Unary kFunction>
HWY_NOINLINE static void unary_loop(const float* const* in, float* out, std::size_t count) {
  map_vectors<1, from_memory>({in[0]}, out, count, [](FloatVector x) HWY_ATTR {
    return unary_lanes<kFunction>(Floats(), x);
  });
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
  static constexpr auto loops = unary_loops(std::make_index_sequence<unary_count>());
  const MatrixOperand* inputs[] = {&args.x};
  map_rows(args.rows, args.columns, inputs, 1, 1, args.y,
           loops[static_cast<std::size_t>(args.function)]);
}

static inline void unary_backward_kernel(const UnaryArgs& args) noexcept {
  static constexpr auto loops = unary_backward_loops(std::make_index_sequence<unary_count>());
  const MatrixOperand* inputs[] = {&args.x, &args.dy};
  map_rows(args.rows, args.columns, inputs, 2, 1, args.y,
           loops[static_cast<std::size_t>(args.function)]);
}

static inline void binary_kernel(const BinaryArgs& args) noexcept {
  static constexpr auto loops = binary_loops(std::make_index_sequence<binary_count>());
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
  const MatrixReader reader(args.x);
  MatrixWriter writer(args.y);
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

static constexpr ElementKernels element_kernels{unary_kernel,  unary_backward_kernel,
                                                binary_kernel, dropout_kernel,
                                                gated_kernel,  gated_backward_kernel};

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
