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
#include <soma/kernels/gemm_paired-inl.hpp>
#include <soma/kernels/gemm_workspace-inl.hpp>
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

  // Places in the workspace: those of packed a, and of packed b for as many columns as tiles have.
  NarrowProduct(const GemmArgs& args, const Source& a, typename Source::Buffer& buffer,
                float* a_memory, float* b_memory)
      : args_(args),
        a_(a),
        buffer_(buffer),
        pairs_(a_memory),
        panel_(b_memory),
        stride_(args.b.column_stride / Products::products) {}

  // The sums of a tile, at `sums`.
  void run(const GemmTile& tile, float* sums) const {
    for (std::size_t row = 0; row < tile.rows; row += micro_columns) {
      GemmTile part = tile;
      part.row += row;
      part.rows = (std::min)(micro_columns, tile.rows - row);
      float* const to = sums + row * tile.stride;
#if SOMA_HAS_PAIRED_PRODUCTS
      if (part.rows <= 2 * paired_rows)
        run_paired<2>(part, to);
      else if (part.rows <= 3 * paired_rows)
        run_paired<3>(part, to);
      else
#endif
        run_lines(part, to);
    }
  }

 private:
  // Below, a tile has at most micro_columns rows.

  // Calls each(k, steps) for parts of k, with rows of a packed for them: [steps][micro_columns].
  template <std::size_t kSteps, class Each>
  void for_packed(const GemmTile& part, const Each& each) const {
    constexpr std::size_t block = kSteps * Products::products;
    static_assert(kSteps <= pack_depth);
    for (std::size_t k = 0; k < args_.k; k += block) {
      const std::size_t depth = (std::min)(block, args_.k - k);
      a_.template pack<micro_columns, micro_columns>(part.row, part.rows, k, depth, buffer_,
                                                     panel_);
      each(k, depth / Products::products);
    }
  }

  // b from its column on, at a step of k.
  const float* place(std::size_t column, std::size_t k) const {
    return static_cast<const float*>(args_.b.data) + column * stride_ + k / Products::products;
  }

#if SOMA_HAS_PAIRED_PRODUCTS
  template <std::size_t kVectors>
  void run_paired(const GemmTile& part, float* to) const {
    using Paired = PairedProduct<Products, kVectors>;
    constexpr std::size_t panel = paired_steps * micro_columns;
    static_assert(Paired::b_floats <= micro_row_width * pack_depth &&
                  panel + Paired::a_floats + Paired::sums_floats(narrow_columns) <=
                      narrow_columns * pack_depth);
    const Paired product(stride_, pairs_, panel_ + panel, panel_ + panel + Paired::a_floats);
    for_packed<paired_steps>(part, [&](std::size_t k, std::size_t steps) {
      product.take_rows(panel_, steps);
      const std::size_t next = k + steps * Products::products;
      product.add(place(part.column, k), part.columns, steps,
                  place(part.column, next < args_.k ? next : k), k == 0);
    });
    product.turn(part.columns, part.rows, to, part.stride);
  }
#endif

  void run_lines(const GemmTile& part, float* to) const {
    float* const sums = panel_ + pack_depth * micro_columns;
    for_packed<pack_depth>(part, [&](std::size_t k, std::size_t steps) {
      add_block(part.column, part.columns, k, steps, sums);
    });
    turn(part.columns, part.rows, sums, to, part.stride);
  }

  // Where a block of columns starts: the last overlaps the one before it, in sums of its own.
  static std::size_t start_of(std::size_t block, std::size_t columns) {
    return (std::min)(block, columns - micro_rows);
  }

  void add_block(std::size_t first, std::size_t columns, std::size_t k, std::size_t steps,
                 float* sums) const {
    const SumPath path{sums, micro_columns, k == 0};
    for (std::size_t at = 0; at < columns; at += micro_rows) {
      const MatrixRows rows(place(first + start_of(at, columns), k), stride_);
      fetch_sums<micro_rows>(path, (at + micro_rows) * micro_columns);
      MicroKernel<Products, MatrixRows>::run(steps, rows, panel_, path, at * micro_columns);
    }
  }

  // From [column][row] to the tile.
  static void turn(std::size_t columns, std::size_t rows, const float* sums, float* tile,
                   std::size_t tile_stride) {
    const auto line_of = [&](std::size_t column) {
      const std::size_t block = column / micro_rows * micro_rows;
      return sums + (column + block - start_of(block, columns)) * micro_columns;
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
  [[maybe_unused]] float* pairs_;  // paired products take it
  float* panel_;
  std::size_t stride_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
