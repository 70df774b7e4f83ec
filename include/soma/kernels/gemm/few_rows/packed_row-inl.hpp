// Products of one row of a with b that is packed (PackedB), as for the next token of a text: all
// time goes into reading b. A register block of one row has too few chains of sums, so this code
// reads several panels of b side by side. Each sum is the same chain as in gemm/gemm-inl.hpp.

#if defined(SOMA_KERNELS_GEMM_FEW_ROWS_PACKED_ROW_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_FEW_ROWS_PACKED_ROW_INL_HPP
#undef SOMA_KERNELS_GEMM_FEW_ROWS_PACKED_ROW_INL_HPP
#else
#define SOMA_KERNELS_GEMM_FEW_ROWS_PACKED_ROW_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/args.hpp>
#include <soma/kernels/gemm/few_rows/operands-inl.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>
#include <soma/kernels/gemm/pack/fp32-inl.hpp>
#include <soma/kernels/gemm/workspace-inl.hpp>
#include <soma/kernels/rows/matrix_io-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace {  // internal linkage: units with other flags have their own

// Panels of packed b: step by step, `depth` steps of all columns after one another.
struct PanelsOfB {
  const float* data;
  std::size_t columns, steps, depth;  // columns in whole panels
};

// A row of a with kPanels panels of b.
template <class Products, class Columns, std::size_t kPanels>
class PanelsSideBySide {
  static constexpr std::size_t step_floats = Columns::floats(micro_columns);
  using All = std::make_index_sequence<kPanels * micro_vectors>;
  using Panels = std::make_index_sequence<kPanels>;
  using OfPanel = std::make_index_sequence<micro_vectors>;

 public:
  // Stores the sums of the columns from `column` on.
  HWY_NOINLINE HWY_MAYBE_UNUSED static void run(const float* a, const PanelsOfB& b,
                                                std::size_t column, float* to) {
    FloatVector sums[kPanels * micro_vectors];
    clear(All(), sums);
    for (std::size_t first = 0; first < b.steps; first += b.depth) {
      const std::size_t panel = (std::min)(b.depth, b.steps - first) * step_floats;
      const float* at =
          b.data + Columns::floats(b.columns) * first + column / micro_columns * panel;
      for (const float* const end = at + panel; at != end; at += step_floats, ++a)
        step(Panels(), sums, hn::Set(Floats(), *a), at, panel);
    }
    store(All(), sums, to);
  }

 private:
  template <std::size_t... i>
  static HWY_INLINE void clear(std::index_sequence<i...>, FloatVector* sums) {
    ((sums[i] = hn::Zero(Floats())), ...);
  }
  template <std::size_t... i>
  static HWY_INLINE void store(std::index_sequence<i...>, const FloatVector* sums, float* to) {
    (hn::StoreU(sums[i], Floats(), to + i * float_lanes), ...);
  }
  template <std::size_t... i>
  static HWY_INLINE void step(std::index_sequence<i...>, FloatVector* sums, FloatVector a,
                              const float* b, std::size_t panel) {
    (add(OfPanel(), sums + i * micro_vectors, a, b + i * panel), ...);
  }
  template <std::size_t... j>
  static HWY_INLINE void add(std::index_sequence<j...>, FloatVector* sums, FloatVector a,
                             const float* b) {
    FloatVector columns[micro_vectors];
    Columns::load(OfPanel(), columns, b);
    ((sums[j] = Products::add(a, columns[j], sums[j])), ...);
  }
};

template <class Products, class Columns>
class PackedRowProduct {
 public:
  // True if this class can compute the product.
  static bool takes(const GemmArgs& args) {
    return args.packed_b.data != nullptr && args.m == 1 && args.segments.count == 1 &&
           args.k != 0 && args.k <= few_rows_most_depth;
  }

  // `depth`: the steps of b that are packed together.
  PackedRowProduct(const GemmArgs& args, std::size_t depth)
      : args_(args),
        b_{args.packed_b.data, round_up_to(args.packed_b.columns, micro_columns), args.k, depth},
        workspace_(args.workspace) {}

  // Calls finish(tile, sums) for all columns of the product.
  template <class Finish>
  void run(const Finish& finish) const {
    const MatrixReader a(FactorSource::without_factor(args_.a));
    for (std::size_t k = 0; k < args_.k; k += row_chunk) {
      const std::size_t count = (std::min)(row_chunk, args_.k - k);
      float* const to = workspace_.a + k;
      const float* const from = a.read(0, k, count, to);
      if (from != to) std::copy_n(from, count, to);
    }
    for (std::size_t first = 0; first < args_.n; first += FewRowsWorkspace::tile_columns) {
      const std::size_t count = (std::min)(FewRowsWorkspace::tile_columns, args_.n - first);
      std::size_t at = 0;
      for (; at + together * micro_columns <= count; at += together * micro_columns)
        add<together>(first, at);
      for (; at < count; at += micro_columns) add<1>(first, at);
      finish(GemmTile{0, first, 1, count, FewRowsWorkspace::tile_stride}, workspace_.tile);
    }
  }

 private:
  // Panels of b, which have the eight chains that hide the latency of a multiply-add.
  static constexpr std::size_t together = (std::max)(8 / micro_vectors, std::size_t{1});

  template <std::size_t kPanels>
  void add(std::size_t first, std::size_t at) const {
    PanelsSideBySide<Products, Columns, kPanels>::run(
        workspace_.a, b_, args_.packed_b.first + first + at, workspace_.tile + at);
  }

  const GemmArgs& args_;
  PanelsOfB b_;
  FewRowsWorkspace workspace_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
