// Gemm: one matrix product on one thread. Blocks of a and b are packed (gemm/panels-inl.hpp) for
// the innermost loop, and finished sums pass through the epilogue (gemm/epilogue-inl.hpp). In most
// products one block holds all of k. Other products cut c into tiles whose sums wait, in fp32,
// between blocks of k, so no result depends on blocking.

#if defined(SOMA_KERNELS_GEMM_PRODUCT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_PRODUCT_INL_HPP
#undef SOMA_KERNELS_GEMM_PRODUCT_INL_HPP
#else
#define SOMA_KERNELS_GEMM_PRODUCT_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/args.hpp>
#include <soma/kernels/gemm/epilogue-inl.hpp>
#include <soma/kernels/gemm/few_rows/few_rows-inl.hpp>
#include <soma/kernels/gemm/few_rows/operands-inl.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>
#include <soma/kernels/gemm/panels-inl.hpp>
#include <soma/kernels/gemm/workspace-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <new>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace {  // internal linkage: units with other flags have their own

template <class Panels>
class Gemm {
  using Source = typename Panels::Source;
  using SourceOfB = typename Panels::SourceOfB;
  using Buffer = typename Panels::Buffer;
  using FewRows = typename Panels::FewRows;
  using PackedRow = typename Panels::PackedRow;

 public:
  explicit Gemm(const GemmArgs& args)
      : args_(args),
        cut_(args),
        a_(args.a, args.m, args.k, args.a.row_stride, args.a.column_stride),
        b_(args.b, args.n, args.k, args.b.column_stride, args.b.row_stride),
        workspace_(args),
        buffer_(new (workspace_.pack) Buffer),
        epilogue_(args) {}

  void run() {
    sum();
    epilogue_.finish();
  }

  // Implements the function of GemmKernels.
  static std::size_t queue_workspace(const GemmArgs& args) {
    if constexpr (!std::is_void_v<FewRows>)
      if (FewRows::takes(args)) return FewRowsWorkspace::bytes(args.k);
    return 0;
  }
  static SharedPacking shared_packing(const GemmArgs& args) {
    const Cut cut(args);
    if (cut.groups != 1 || args.k == 0) return {};
    const std::size_t most = cut.in_one_block(args)
                                 ? most_together(args, cut)
                                 : Panels::most_columns(cut.steps(), Panels::shared_floats);
    if (most < (std::min)(args.n, gemm_tile_columns)) return {};
    const std::size_t columns = even_share(args.n, most, micro_columns);
    GemmArgs call = args;
    call.m = (std::min)(args.m, Panels::packed_rows), call.n = columns;
    const GemmWorkspace::Sizes sizes(call, false);
    return {columns, Panels::packed_b_floats(columns, cut.steps()) * sizeof(float),
            Panels::packed_rows, Panels::least_rows, Panels::most_rows,
            // PackedRow may compute a last row.
            (std::max)(sizes.all(), FewRowsWorkspace::bytes(args.k))};
  }
  static std::size_t packed_bytes(const GemmArgs& args) {
    const Cut cut(args);
    return cut.groups != 1 || args.k == 0
               ? 0
               : Panels::packed_b_floats(args.n, cut.steps()) * sizeof(float);
  }
  static bool reads_packed(const GemmArgs& args) {
    if constexpr (!std::is_void_v<FewRows>) {
      GemmArgs in_place = args;
      in_place.packed_b = {};
      return !in_place_is_faster(args.m) || !FewRows::takes(in_place);
    }
    return true;
  }
  void pack_b() {
    const PackedB& to = args_.packed_b;
    for_packed(cut_.steps(), [&](const PackedSteps& steps) {
      Panels::pack_b(b_, 0, {to.first, args_.n, to.columns}, steps, *buffer_, shared_b(steps));
    });
  }

 private:
  static constexpr std::size_t whole_steps = 32;  // steps of k, for every kind of product
  static_assert(Panels::packed_depth % whole_steps == 0);

  void sum() {
    if constexpr (!std::is_void_v<FewRows>)
      if (FewRows::takes(args_)) return run_few_rows();
    if constexpr (!std::is_void_v<PackedRow>)
      if (PackedRow::takes(args_)) return run_packed_row();
    if (in_one_block()) return run_at_once();
    const std::size_t columns = columns_together(waiting_columns());
    const std::size_t stride = columns + gemm_tile_padding;
    const std::size_t capacity = gemm_tile_capacity(gemm_levels(cut_.groups));
    const std::size_t rows = even_share(
        args_.m, capacity / stride / Panels::panel_rows * Panels::panel_rows, Panels::panel_rows);
    tile_floats_ = rows * stride;
    for_tiles(rows, columns, stride, [&](const GemmTile& tile) { sum_tile(tile); });
  }

  // Groups of neighbouring segments that are packed together.
  struct Cut {
    explicit Cut(const GemmArgs& args)
        : whole{0, args.k}, bounds(args.segments.bounds != nullptr ? args.segments.bounds : whole) {
      const std::size_t segments = args.segments.bounds != nullptr ? args.segments.count : 1;
      group = Panels::group_of(bounds, segments);
      groups = segments / group;
    }
    Cut(const Cut&) = delete;
    Cut& operator=(const Cut&) = delete;

    bool in_one_block(const GemmArgs& args) const {
      return groups == 1 && args.k != 0 && (group != 1 || args.k <= Panels::packed_depth);
    }
    PackedSteps steps() const { return {bounds, group}; }

    std::size_t whole[2];
    const std::size_t* bounds;
    std::size_t group = 1, groups = 1;  // segments in a group, and groups
  };

  bool in_one_block() const { return cut_.in_one_block(args_); }

  // The number of columns of b that are multiplied by rows of a together, if at most `most` columns
  // are packed together. If b is packed already, each element of a is packed once.
  std::size_t columns_together(std::size_t most) const {
    return args_.packed_b.data != nullptr ? round_up_to(args_.n, micro_columns)
                                          : even_share(args_.n, most, micro_columns);
  }

  // The most columns of b that are packed together in one block.
  static std::size_t most_together(const GemmArgs& args, const Cut& cut) {
    const std::size_t all = Panels::most_columns(cut.steps(), Panels::whole_floats);
    const std::size_t rows = size_of(args.a.dtype) == 1 ? tile_whole_byte_rows : tile_whole_rows;
    return args.m >= rows && args.n <= all
               ? all
               : Panels::most_columns(cut.steps(), Panels::packed_floats);
  }

  template <class Each>
  void for_tiles(std::size_t rows, std::size_t columns, std::size_t stride, const Each& each) {
    for (std::size_t column = 0; column < args_.n; column += columns)
      for (std::size_t row = 0; row < args_.m; row += rows)
        each(GemmTile{row, column, (std::min)(rows, args_.m - row),
                      (std::min)(columns, args_.n - column), stride});
  }

  // The number of columns of b that are packed together if sums wait between its parts.
  std::size_t waiting_columns() const {
    std::size_t most = gemm_tile_columns;
    for (std::size_t group = 0; group < cut_.groups; ++group)
      if (!is_empty(group))
        for_packed({cut_.bounds + group * cut_.group, cut_.group}, [&](const PackedSteps& steps) {
          most = (std::min)(most, Panels::most_columns(steps, Panels::packed_floats));
        });
    return most;
  }

  void run_few_rows() {
    FewRows(args_, a_).run([&](const GemmTile& tile, float* sums) { finish(tile, sums); });
  }

  void run_packed_row() {
    PackedRow(args_, packed_together(args_.k)).run([&](const GemmTile& tile, float* sums) {
      finish(tile, sums);
    });
  }

  // If all of k fits in a block, sums are finished at once and need no tile to wait in. As many
  // columns are packed together as fit.
  void run_at_once() {
    const PackedSteps steps = cut_.steps();
    const std::size_t columns = columns_together(most_together(args_, cut_));
    for_tiles(args_.m, columns, (std::min)(columns, gemm_tile_columns) + gemm_tile_padding,
              [&](const GemmTile& tile) {
                add_block(tile, steps, {workspace_.tiles, tile.stride}, true);
              });
  }

  // Adds the groups of Segments in a tree, as a binary counter: at each level one tile waits until
  // its neighbour is complete. The first tile gets the sum of all. An empty group adds zeros and
  // needs no tile: it can only turn a sum of -0 into +0, and doing that once is enough.
  void sum_tile(const GemmTile& tile) {
    bool full[gemm_most_levels] = {};    // true: a sum waits at the level, perhaps an empty one
    std::size_t waiting = 0, tiles = 0;  // levels, and tiles on them
    const bool any_empty = has_empty_group();
    for (std::size_t group = 0; group < cut_.groups; ++group) {
      const bool empty = is_empty(group);
      // Each trailing one bit of the group's number is a neighbour that waits, the nearest one
      // last.
      std::size_t neighbours = 0;
      for (auto i = static_cast<std::size_t>(std::countr_one(group)); i != 0; --i)
        neighbours += full[--waiting] ? 1u : 0u;
      if (!empty) {
        // The neighbours are added while the group's own sums are in registers.
        sum_group(tile, cut_.bounds + group * cut_.group, workspace_.tiles + tiles * tile_floats_,
                  neighbours, !any_empty && group + 1 == cut_.groups);
        tiles += 1 - neighbours;
      } else {
        for (; neighbours > 1; --neighbours) add_last(tile, --tiles);
      }
      full[waiting++] = !empty || neighbours != 0;
    }
    if (!any_empty) return;
    add_zero(tile, tiles == 0);
    finish(tile, workspace_.tiles);
  }

  bool is_empty(std::size_t group) const {
    return cut_.bounds[group * cut_.group] == cut_.bounds[(group + 1) * cut_.group];
  }
  bool has_empty_group() const {
    for (std::size_t group = 0; group < cut_.groups; ++group)
      if (is_empty(group)) return true;
    return false;
  }

  // `final`: the sums are the sums of the whole product, and go to c.
  void sum_group(const GemmTile& tile, const std::size_t* bounds, float* sums,
                 std::size_t neighbours, bool final) {
    for_packed({bounds, cut_.group}, [&](const PackedSteps& steps) {
      const bool last = steps.bounds[steps.segments] == bounds[cut_.group];
      add_block(
          tile, steps,
          {sums, tile.stride, steps.bounds[0] == bounds[0], last ? neighbours : 0, tile_floats_},
          final && last);
    });
  }

  // The steps of a long segment that are packed at a time.
  static std::size_t packed_together(std::size_t steps) {
    return even_share(steps, Panels::packed_depth, whole_steps);
  }

  // Calls each(steps) for the steps of a group that are packed at a time: all steps, or a part of a
  // long segment.
  template <class Each>
  static void for_packed(const PackedSteps& group, const Each& each) {
    if (group.segments != 1) return each(group);
    const std::size_t end = group.bounds[1];
    const std::size_t depth = packed_together(end - group.bounds[0]);
    for (std::size_t k = group.bounds[0]; k < end; k += depth) {
      const std::size_t part[] = {k, (std::min)(k + depth, end)};
      each(PackedSteps{part, 1});
    }
  }

  // If b is packed for all calls: the address of these steps, after the earlier steps.
  float* shared_b(const PackedSteps& steps) const {
    const std::size_t before[] = {cut_.bounds[0], steps.bounds[0]};
    return args_.packed_b.data + Panels::packed_b_floats(args_.packed_b.columns, {before, 1});
  }

  // Adds the tile after the first `tiles` tiles to the tile before it.
  void add_last(const GemmTile& tile, std::size_t tiles) {
    float* last = workspace_.tiles + tiles * tile_floats_;
    for (std::size_t row = 0; row < tile.rows * tile.stride; row += tile.stride)
      add_in_place(last + row, tile.columns, last - tile_floats_ + row);
  }

  void add_zero(const GemmTile& tile, bool nothing_else) {
    alignas(64) static constexpr float zeros[gemm_tile_columns] = {};
    for (std::size_t row = 0; row < tile.rows * tile.stride; row += tile.stride)
      if (nothing_else)
        std::fill_n(workspace_.tiles + row, tile.columns, 0.0f);
      else
        add_in_place(zeros, tile.columns, workspace_.tiles + row);
  }

  // Writes the sums of a tile, or of a part of it, to c.
  void finish(const GemmTile& tile, float* sums) {
    const float factor = a_.factor() * b_.factor();  // packing leaves the factors out
    if (args_.factor != nullptr)
      *args_.factor = factor;
    else if (factor != 1)
      for (std::size_t row = 0; row < tile.rows; ++row)
        multiply(sums + row * tile.stride, tile.columns, factor);
    epilogue_.apply(tile.row, tile.column, tile.rows, tile.columns, sums, tile.stride);
  }

  // True if the sums of these rows and columns are added in c itself, which saves a copy. Whole
  // blocks only, because the innermost loop writes whole blocks.
  bool sum_in_c(std::size_t rows, std::size_t columns) const {
    return cut_.groups == 1 && epilogue_.in_place() && rows % Panels::panel_rows == 0 &&
           columns % micro_columns == 0;
  }

  // True if sums are written to c block by block without further steps: whole blocks of columns,
  // and no block waits for another segment.
  bool leave_by_blocks(std::size_t columns) const {
    return in_one_block() && epilogue_.by_blocks() && (Panels::streams || !args_.stream_c) &&
           columns % micro_columns == 0 && args_.factor == nullptr &&
           a_.factor() * b_.factor() == 1;
  }

  // If `final`, sums are written to c while they are in the caches, slab by slab or block by block.
  void add_block(const GemmTile& tile, const PackedSteps& steps, const SumPath& path, bool final) {
    const PackedB& shared = args_.packed_b;
    const float* b = shared.data != nullptr ? shared_b(steps) : workspace_.b;
    const std::size_t packed = shared.data != nullptr ? shared.columns : tile.columns;
    if (shared.data == nullptr)
      Panels::pack_b(b_, tile.column, {0, packed, packed}, steps, *buffer_, workspace_.b);
    const bool at_once = in_one_block();
    const std::size_t slab = even_share(tile.columns, gemm_tile_columns, micro_columns);
    const std::size_t together = Panels::rows_together(a_, steps, tile.rows);
    for (std::size_t row = 0; row < tile.rows; row += together) {
      const std::size_t rows = (std::min)(together, tile.rows - row);
      const typename Panels::RowBlock a =
          Panels::take_a(a_, tile.row + row, rows, steps, *buffer_, workspace_.a);
      for (std::size_t column = 0; column < tile.columns; column += slab) {
        const std::size_t columns = (std::min)(slab, tile.columns - column);
        const typename Panels::Lines lines{shared.first + column, columns, packed};
        if (leave_by_blocks(columns)) {
          panels_.multiply_out(a, lines, steps, b,
                               epilogue_.exit(tile.row + row, tile.column + column));
          continue;
        }
        SumPath part = path;
        const bool in_c = sum_in_c(rows, columns);
        if (in_c) {
          part.sums = epilogue_.place(tile.row + row, tile.column + column);
          part.stride = args_.c.row_stride;
        } else if (!at_once) {
          part.sums += row * tile.stride + column;
        }
        for (std::size_t first = 0; first < rows; first += Panels::swept_rows) {
          const typename Panels::RowBlock swept = Panels::swept(a, first, steps);
          panels_.multiply(swept, lines, steps, b, part);
          if (final)
            finish(
                {tile.row + row + first, tile.column + column, swept.count, columns, part.stride},
                part.end());
          // Finished sums free their place for the next sums.
          if (in_c || !at_once) part.sums += Panels::swept_rows * part.stride;
        }
      }
    }
  }

  const GemmArgs& args_;
  Cut cut_;
  std::size_t tile_floats_ = 0;
  Source a_;
  SourceOfB b_;
  GemmWorkspace workspace_;
  Buffer* buffer_;
  EpilogueWriter epilogue_;
  [[no_unique_address]] Panels panels_;  // without braces, as its kernel
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
