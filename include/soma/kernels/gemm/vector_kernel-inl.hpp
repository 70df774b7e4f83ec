// VectorKernel: products whose sums stay in vector registers, as a Kernel of PackedPanels
// (gemm/panels-inl.hpp). TileKernel (gemm/tiles/tiles-inl.hpp) is its counterpart for tile
// registers.

#if defined(SOMA_KERNELS_GEMM_VECTOR_KERNEL_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_VECTOR_KERNEL_INL_HPP
#undef SOMA_KERNELS_GEMM_VECTOR_KERNEL_INL_HPP
#else
#define SOMA_KERNELS_GEMM_VECTOR_KERNEL_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/few_rows/few_rows-inl.hpp>
#include <soma/kernels/gemm/few_rows/packed_row-inl.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>
#include <soma/kernels/gemm/pack/bf16_codes-inl.hpp>
#include <soma/kernels/gemm/pack/bf16_pairs-inl.hpp>
#include <soma/kernels/gemm/pack/fp32-inl.hpp>
#include <soma/kernels/gemm/panels-inl.hpp>
#include <soma/kernels/gemm/workspace-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace {  // internal linkage: units with other flags have their own

// The Kernel of PackedPanels that keeps sums in vectors, with one step of Products at a time, and
// the Columns of packed b as floats or as codes of bf16.
template <class Products, class Columns = FloatColumns>
struct VectorKernel {
  using Source = std::conditional_t<Products::products == 1, FactorSource, PairSource>;
  using SourceOfB = std::conditional_t<std::is_same_v<Columns, CodeColumns>, CodeSource, Source>;
  using FewRows = FewRowsProduct<Products, Source>;
  using PackedRow =
      std::conditional_t<Products::products == 1, PackedRowProduct<Products, Columns>, void>;
  static constexpr std::size_t panel_rows = micro_rows, panel_columns = micro_columns;
  static constexpr std::size_t most_rows = micro_rows;
  static constexpr std::size_t row_floats = micro_row_width;
  static constexpr std::size_t column_floats = Columns::floats(micro_columns);
  static constexpr std::size_t fetched_floats = row_floats;
  static constexpr std::size_t depth = Products::products;
  static constexpr bool reads_rows = Products::products == 2;
  static constexpr bool exits = Products::products == 2, keeps_rows = false;
  static constexpr std::size_t packed_rows = gemm_packed_rows, packed_steps = gemm_packed_steps;
  static constexpr std::size_t least_rows = most_rows;
  static constexpr std::size_t packed_floats = gemm_packed_floats, whole_floats = packed_floats;
  static constexpr std::size_t shared_floats = gemm_shared_floats;

  // The number of last rows, of so many, that two blocks share evenly; and the rows of the next
  // block if so many rows are left.
  static constexpr std::size_t even_rows(std::size_t rows) {
    return even_blocks && rows > micro_rows && rows % micro_rows != 0
               ? micro_rows + rows % micro_rows
               : 0;
  }
  static constexpr std::size_t next_rows(std::size_t left) {
    return left == even_rows(left) ? (left + 1) / 2 : (std::min)(left, micro_rows);
  }
  static void pack_a(const Source& a, const PackPart& part, typename Source::Buffer& buffer) {
    a.template pack<micro_rows, micro_row_width>(part, buffer);
  }
  static void pack_b(const SourceOfB& b, const PackPart& part, typename Source::Buffer& buffer) {
    b.template pack<micro_columns, micro_columns>(part, buffer);
  }
  template <class Path>
  static HWY_INLINE void run(std::size_t rows, const PackedSteps& steps, const float* a,
                             const float* b, const float* ahead, const Path& path) {
    fetch(path);
    with_block(rows, [&](auto block) HWY_ATTR {
      MicroKernel<Products, PackedRows, block, micro_vectors, micro_columns, Columns>::run(
          steps, {a, ahead}, b, path);
    });
  }
  template <class Path>
  static HWY_INLINE void run_rows(const PackedSteps& steps, const float* a, std::size_t stride,
                                  const float* b, const float* ahead, const Path& path) {
    fetch(path);
    MicroKernel<Products, RowsBeforePanel>::run(steps, {a, stride, ahead}, b, path);
  }
  void finish() const {}

  // True if rows of a block, `stride` floats apart, lie in more than one set of the first-level
  // cache. Fourteen rows in one set evict each other: 0.83 to 0.98 times the speed of packed rows.
  static constexpr bool takes_rows(const float*, std::size_t stride) {
    const std::size_t behind = stride * sizeof(float) % way_bytes;
    const std::size_t apart = (std::min)(behind, way_bytes - behind);
    return (micro_rows - 1) * apart >= line_floats * sizeof(float);
  }
  // The floats between rows that are copied one after another (laid): whole cache lines.
  static constexpr std::size_t laid_stride(std::size_t floats) {
    const std::size_t stride = round_up_to(floats, line_floats);
    return takes_rows(nullptr, stride) ? stride : stride + line_floats;
  }
  // True if rows that are not read in place are laid: that is less work than packing, if it takes
  // no more memory.
  static bool lays(const Source& a, std::size_t stride, std::size_t steps) {
    return a.can_lay() && micro_rows * stride <= micro_row_width * steps;
  }

 private:
  // Numbers at this distance share a set of the first-level cache: 64 sets of 64 bytes.
  static constexpr std::size_t way_bytes = 4096;

  static HWY_INLINE void fetch(const SumPath&) {}
  template <class Exit>
  static HWY_INLINE void fetch(const ExitPath<Exit>& path) {
    path.exit->fetch(path.row, path.rows, path.column);
  }
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
