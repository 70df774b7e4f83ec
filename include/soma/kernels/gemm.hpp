#pragma once
// How a matrix product is cut into tasks. Each writes its own tile of the result, so nothing is
// added across threads, and no sum depends on the cut.

#include <soma/base/sizes.hpp>
#include <soma/kernels/table.hpp>
#include <soma/runtime/heap_vector.hpp>
#include <soma/runtime/parallel.hpp>
#include <soma/tensor/storage.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <vector>

namespace soma {

namespace detail {

// The product of some rows and columns of the result.
inline GemmArgs part(GemmArgs args, std::size_t row, std::size_t rows, std::size_t column,
                     std::size_t columns) {
  args.m = rows;
  args.n = columns;
  args.a = part(args.a, row, 0);
  args.b = part(args.b, 0, column);
  args.c = part(args.c, row, column);
  if (args.eviction.bias != nullptr) args.eviction.bias += column;
  args.eviction.pre_activation = part(args.eviction.pre_activation, row, column);
  args.eviction.residual = part(args.eviction.residual, row, column);
  shift_draws(args.eviction.dropout, row, column);
  return args;
}

// How many parts of at most that size a total has.
constexpr std::size_t parts_of(std::size_t total, std::size_t part) {
  return (total + part - 1) / part;
}

// Border `index` of `parts` nearly equal parts of `size`, at multiples of `tile`.
inline std::size_t border(std::size_t size, std::size_t tile, std::size_t index,
                          std::size_t parts) {
  const std::size_t tiles = parts_of(size, tile);
  return (std::min)(size, (tiles / parts * index + tiles % parts * index / parts) * tile);
}

}  // namespace detail

// Into how many parts rows and columns of a result are cut.
struct ProductGrid {
  std::size_t row_parts, column_parts;
};

namespace detail {

// The grid of at most `width` tasks whose largest is done first. A task multiplies all of its tile
// and packs its own rows of a and columns of b.
inline ProductGrid product_grid(std::size_t row_tiles, std::size_t column_tiles,
                                std::size_t tile_rows, std::size_t tile_columns,
                                std::size_t width) {
  // An element is packed in the time of about so many multiply-adds (a load, a turn and a store of
  // what often comes from memory).
  constexpr double packing = 24;
  ProductGrid best{1, 1};
  double best_cost = 0;
  for (std::size_t row_parts = 1; row_parts <= (std::min)(width, row_tiles); ++row_parts) {
    const std::size_t column_parts = (std::min)(width / row_parts, column_tiles);
    const auto largest = [](std::size_t tiles, std::size_t parts, std::size_t tile) {
      return static_cast<double>(parts_of(tiles, parts) * tile);
    };
    const double rows = largest(row_tiles, row_parts, tile_rows);
    const double columns = largest(column_tiles, column_parts, tile_columns);
    const double cost = rows * columns + packing * (rows + columns);
    if (row_parts == 1 || cost < best_cost) {
      best = {row_parts, column_parts};
      best_cost = cost;
    }
  }
  return best;
}

// Workers of a product whose b all of them share: each packs a part of it, and takes the next rows
// when it has done its own, fewer towards the end. So nothing of b is packed twice, and nobody
// waits for a core that is slower for a while, or for the last rows.
class SharedProduct {
 public:
  // `packing`: of args.
  SharedProduct(Context& context, const GemmArgs& args, const SharedPacking& packing,
                std::size_t workers)
      : context_(context),
        args_(args),
        packing_(packing),
        workers_(workers),
        row_tiles_(parts_of(args.m, packing.tile_rows)),
        panes_((std::min)(parts_of(args.n, packing.columns),
                          (std::max)(most_bytes / packing.bytes, std::size_t{1}))),
        memory_(Storage::allocate(
            context.heap(),
            checked_add(panes_ * packing.bytes,
                        checked_multiply(packing.workspace, workers, "multiply"), "multiply"))) {}

  // Whether there are eight tiles of rows for each, which are no worse balanced than halves, and
  // enough to do for two fork-joins.
  static bool worthwhile(const GemmArgs& args, const SharedPacking& packing, std::size_t workers,
                         double products) {
    return packing.columns != 0 && args.m >= 8 * workers * packing.tile_rows &&
           products >= 4e6 * static_cast<double>(workers);
  }

  void run() {
    HeapVector<float> amax(args_.eviction.amax != nullptr ? workers_ : 0, context_.heap());
    const std::size_t most = panes_ * packing_.columns;
    for (std::size_t first = 0; first < args_.n; first += most) {
      const std::size_t panes = parts_of((std::min)(most, args_.n - first), packing_.columns);
      in_parallel([&](std::size_t worker) {
        for (std::size_t pane = 0; pane < panes; ++pane) pack(first, pane, worker);
      });
      // Pane by pane, so that all workers read the same.
      std::atomic<std::size_t> next{0};
      in_parallel([&](std::size_t worker) {
        std::size_t tile = 0;
        while (const std::size_t tiles = take(next, panes * row_tiles_, tile))
          multiply(tile % row_tiles_, tiles, first, tile / row_tiles_, worker,
                   amax.empty() ? nullptr : &amax[worker]);
      });
    }
    for (const float value : amax) *args_.eviction.amax = (std::max)(*args_.eviction.amax, value);
  }

 private:
  // Of b that is packed at a time.
  static constexpr std::size_t most_bytes = std::size_t{16} << 20;

  template <class Task>
  void in_parallel(const Task& task) {
    parallel(context_, static_cast<int>(workers_),
             [&](int worker) { task(static_cast<std::size_t>(worker)); });
  }

  // The next of `all` tiles of rows, those of one pane behind those of the other: how many from
  // `tile` on are the caller's, 0 where none is left. As many as are packed together, while what
  // is left is twice as much for each worker.
  std::size_t take(std::atomic<std::size_t>& next, std::size_t all, std::size_t& tile) const {
    std::size_t tiles;
    tile = next.load(std::memory_order_relaxed);
    do {
      tiles = (std::min)({parts_of(all - tile, 2 * workers_), packing_.rows / packing_.tile_rows,
                          row_tiles_ - tile % row_tiles_});
    } while (tiles != 0 && !next.compare_exchange_weak(tile, tile + tiles));
    return tiles;
  }

  // The product of some rows and of columns of a pane, `before` columns behind its first.
  GemmArgs own(std::size_t row, std::size_t rows, std::size_t first, std::size_t pane,
               std::size_t before, std::size_t columns, std::size_t worker) const {
    GemmArgs result = part(args_, row, rows, first + pane * packing_.columns + before, columns);
    result.packed_b = {reinterpret_cast<float*>(memory_.data() + pane * packing_.bytes), before,
                       packing_.columns};
    result.workspace = memory_.data() + panes_ * packing_.bytes + worker * packing_.workspace;
    return result;
  }
  std::size_t columns_of(std::size_t first, std::size_t pane) const {
    return (std::min)(packing_.columns, args_.n - first - pane * packing_.columns);
  }

  void pack(std::size_t first, std::size_t pane, std::size_t worker) const {
    const GemmKernels& gemm = context_.kernels().gemm;
    const std::size_t columns = columns_of(first, pane);
    const std::size_t from = border(columns, gemm.tile_columns, worker, workers_);
    const std::size_t to = border(columns, gemm.tile_columns, worker + 1, workers_);
    if (from != to) gemm.pack_b(own(0, packing_.rows, first, pane, from, to - from, worker));
  }

  void multiply(std::size_t tile, std::size_t tiles, std::size_t first, std::size_t pane,
                std::size_t worker, float* amax) const {
    const std::size_t row = tile * packing_.tile_rows;
    const std::size_t rows = (std::min)(tiles * packing_.tile_rows, args_.m - row);
    GemmArgs args = own(row, rows, first, pane, 0, columns_of(first, pane), worker);
    args.eviction.amax = amax;
    float same_factor = 1;  // one task writes where the caller reads
    if (args.factor != nullptr && row + first + pane != 0) args.factor = &same_factor;
    context_.kernels().gemm.multiply(args);
  }

  Context& context_;
  const GemmArgs& args_;
  SharedPacking packing_;
  std::size_t workers_;
  std::size_t row_tiles_;
  std::size_t panes_;  // columns of b that are packed together, so many times
  Storage memory_;
};

// Workers of a product that take its columns as they come for them, with so much memory each.
inline void multiply_by_columns(Context& context, GemmArgs args, std::size_t workspace,
                                std::size_t workers) {
  const std::size_t stride = parts_of(workspace, memory_alignment) * memory_alignment;
  const Storage memory =
      Storage::allocate(context.heap(), checked_multiply(stride, workers, "multiply"));
  HeapVector<float> amax(args.eviction.amax != nullptr ? workers : 0, context.heap());
  ColumnQueue queue{.workers = workers};
  args.column_queue = &queue;
  parallel(context, static_cast<int>(workers), [&](int task) {
    const auto worker = static_cast<std::size_t>(task);
    GemmArgs own = args;
    own.workspace = memory.data() + worker * stride;
    float same_factor = 1;  // one worker writes where the caller reads
    if (args.factor != nullptr && worker != 0) own.factor = &same_factor;
    if (args.eviction.amax != nullptr) own.eviction.amax = &amax[worker];
    context.kernels().gemm.multiply(own);
  });
  for (const float value : amax) *args.eviction.amax = (std::max)(*args.eviction.amax, value);
}

}  // namespace detail

// Runs a product over the context's executor; args.workspace is not read.
inline void multiply(Context& context, GemmArgs args) {
  if (args.m == 0 || args.n == 0) return;
  const GemmKernels& gemm = context.kernels().gemm;
  const bool wide = args.a.dtype == DType::fp32 || args.b.dtype == DType::fp32;
  const Bf16Products how = wide ? Bf16Products::widened : context.bf16().products;
  args.bf16_products = how;
  const std::size_t tile_rows = gemm.tile_rows(how), tile_columns = gemm.tile_columns;
  const std::size_t row_tiles = detail::parts_of(args.m, tile_rows);
  const std::size_t column_tiles = detail::parts_of(args.n, tile_columns);
  // Below about a hundred thousand multiply-adds a second thread costs more than it brings.
  constexpr double worth_a_task = 1e5;
  const double products = static_cast<double>(args.m) * static_cast<double>(args.n) *
                          static_cast<double>((std::max)(args.k, std::size_t{1}));
  const auto most = static_cast<std::size_t>((std::min)(products / worth_a_task + 1, 1e6));
  const std::size_t width = (std::min)(
      most, most == 1 ? std::size_t{1} : static_cast<std::size_t>(context.executor().width));
  if (width > 1) {
    if (const std::size_t workspace = gemm.queue_workspace(args); workspace != 0)
      return detail::multiply_by_columns(context, args, workspace, width);
    const SharedPacking packing = gemm.shared_packing(args);
    if (detail::SharedProduct::worthwhile(args, packing, width, products))
      return detail::SharedProduct(context, args, packing, width).run();
  }
  const ProductGrid grid =
      detail::product_grid(row_tiles, column_tiles, tile_rows, tile_columns, width);
  const std::size_t row_parts = grid.row_parts, column_parts = grid.column_parts;
  const std::size_t tasks = row_parts * column_parts;

  const std::size_t task_rows = detail::parts_of(row_tiles, row_parts) * tile_rows;
  const std::size_t task_columns = detail::parts_of(column_tiles, column_parts) * tile_columns;
  const std::size_t workspace =
      (gemm.workspace_bytes((std::min)(task_rows, args.m), (std::min)(task_columns, args.n), args.k,
                            args.segments.count, how) +
       memory_alignment - 1) /
      memory_alignment * memory_alignment;
  const Storage memory =
      Storage::allocate(context.heap(), checked_multiply(workspace, tasks, "multiply"));
  HeapVector<float> amax(args.eviction.amax != nullptr ? tasks : 0, context.heap());
  parallel(context, static_cast<int>(tasks), [&](int task) {
    const auto index = static_cast<std::size_t>(task);
    const std::size_t i = index / column_parts, j = index % column_parts;
    const std::size_t row = detail::border(args.m, tile_rows, i, row_parts);
    const std::size_t column = detail::border(args.n, tile_columns, j, column_parts);
    GemmArgs own =
        detail::part(args, row, detail::border(args.m, tile_rows, i + 1, row_parts) - row, column,
                     detail::border(args.n, tile_columns, j + 1, column_parts) - column);
    own.workspace = memory.data() + index * workspace;
    float same_factor = 1;  // one task writes where the caller reads
    if (args.factor != nullptr && index != 0) own.factor = &same_factor;
    if (args.eviction.amax != nullptr) own.eviction.amax = &amax[index];
    gemm.multiply(own);
  });
  for (const float value : amax) *args.eviction.amax = (std::max)(*args.eviction.amax, value);
}

}  // namespace soma
