// Products with few rows and columns of b that are adjacent along k, as y = x W^T of a sentence: b
// is read once, so packing it would cost more than multiplying. Operands change sides: rows of the
// innermost loop are columns of b, read where they lie, and a is packed beside them. Each sum is
// the same chain as in gemm-inl.hpp.

#if defined(SOMA_KERNELS_GEMM_NARROW_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_NARROW_INL_HPP
#undef SOMA_KERNELS_GEMM_NARROW_INL_HPP
#else
#define SOMA_KERNELS_GEMM_NARROW_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm_args.hpp>
#include <soma/kernels/gemm_micro-inl.hpp>
#include <soma/kernels/pack-inl.hpp>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Above this a column of b serves enough rows to be worth packing.
inline constexpr std::size_t narrow_rows = 2 * micro_columns;
// Below this the workspace has no room for sums and the packed a.
inline constexpr std::size_t narrow_columns = 64;

namespace {  // internal linkage: units with other flags have their own

// micro_rows rows of a matrix, one float's place after the other. Four addresses and two distances
// reach all of them, which leaves registers free.
class MatrixRows {
 public:
  MatrixRows(const float* first, std::size_t stride) : stride_(stride), triple_(3 * stride) {
    for (std::size_t i = 0; i < bases; ++i) at_[i] = first + 4 * i * stride;
  }

  HWY_INLINE ElementPlace* place(std::size_t row) const {
    const std::size_t distances[] = {0, stride_, 2 * stride_, triple_};
    return at_[row / 4] + distances[row % 4];
  }
  HWY_INLINE void next() {
    for (std::size_t i = 0; i < bases; ++i) ++at_[i];
  }
  // The cache lines that the next micro_rows rows have here.
  HWY_INLINE void fetch(std::size_t step) const {
    if (step % line_floats != 0) return;
    for (std::size_t row = 0; row < micro_rows; ++row)
      hwy::Prefetch(at_[0] + (micro_rows + row) * stride_);
  }

 private:
  static constexpr std::size_t bases = (micro_rows + 3) / 4;
  const float* at_[bases];
  std::size_t stride_, triple_;
};

// The sums of some rows and columns of the result, for Gemm.
template <class Products, class Source>
class NarrowProduct {
 public:
  // Whether a product can go this way.
  static bool takes(const GemmArgs& args) {
    const MatrixOperand& b = args.b;
    const bool places = Products::products == 1
                            ? b.dtype == DType::fp32 && b.scale == 1
                            : b.dtype == DType::bf16 && args.k % 2 == 0 && b.column_stride % 2 == 0;
    return places && b.row_stride == 1 && args.m <= narrow_rows && args.n >= narrow_columns &&
           args.segments.count == 1 && args.k != 0 && args.packed_b.data == nullptr;
  }

  // `memory`: floats for a panel of a and for the sums of `columns` columns.
  NarrowProduct(const GemmArgs& args, const Source& a, typename Source::Buffer& buffer,
                float* memory)
      : args_(args),
        a_(a),
        buffer_(buffer),
        panel_(memory),
        sums_(memory + pack_depth * micro_columns),
        stride_(args.b.column_stride / Products::products) {}

  // tile[row * tile_stride + column] for all rows and the columns from `first` on.
  void run(std::size_t first, std::size_t columns, float* tile, std::size_t tile_stride) const {
    constexpr std::size_t block = pack_depth * Products::products;
    for (std::size_t row = 0; row < args_.m; row += micro_columns) {
      const std::size_t rows = (std::min)(micro_columns, args_.m - row);
      for (std::size_t k = 0; k < args_.k; k += block) {
        const std::size_t depth = (std::min)(block, args_.k - k);
        a_.template pack<micro_columns, micro_columns>(row, rows, k, depth, buffer_, panel_);
        add_block(first, columns, k, depth);
      }
      turn(columns, rows, tile + row * tile_stride, tile_stride);
    }
  }

 private:
  // Where a block of columns starts: the last overlaps the one before it, in sums of its own.
  static std::size_t start_of(std::size_t block, std::size_t columns) {
    return (std::min)(block, columns - micro_rows);
  }

  void add_block(std::size_t first, std::size_t columns, std::size_t k, std::size_t depth) const {
    const auto* b = static_cast<const float*>(args_.b.data) + k / Products::products;
    const SumPath path{sums_, micro_columns, k == 0};
    for (std::size_t at = 0; at < columns; at += micro_rows) {
      const MatrixRows rows(b + (first + start_of(at, columns)) * stride_, stride_);
      fetch_sums<micro_rows>(path, (at + micro_rows) * micro_columns);
      MicroKernel<Products, MatrixRows>::run(depth / Products::products, rows, panel_, path,
                                             at * micro_columns);
    }
  }

  // From [column][row] to the tile.
  void turn(std::size_t columns, std::size_t rows, float* tile, std::size_t tile_stride) const {
    const auto line_of = [&](std::size_t column) {
      const std::size_t block = column / micro_rows * micro_rows;
      return sums_ + (column + block - start_of(block, columns)) * micro_columns;
    };
    alignas(64) float turned[micro_columns * pack_group];
    for (std::size_t column = 0; column < columns; column += pack_group) {
      const std::size_t count = (std::min)(pack_group, columns - column);
      const float* lines[pack_group];
      for (std::size_t i = 0; i < pack_group; ++i)
        lines[i] = line_of(column + (std::min)(i, count - 1));
      for (std::size_t row = 0; row < rows; row += 4)
        turn_group(lines, row, turned + row * pack_group, pack_group);
      for (std::size_t row = 0; row < rows; ++row)
        std::copy_n(turned + row * pack_group, count, tile + row * tile_stride + column);
    }
  }

  const GemmArgs& args_;
  const Source& a_;
  typename Source::Buffer& buffer_;
  float *panel_, *sums_;
  std::size_t stride_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
