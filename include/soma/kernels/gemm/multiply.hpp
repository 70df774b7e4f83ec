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
#include <new>

namespace SOMA_NAMESPACE {

namespace detail {

// The product of some rows and columns of the result.
inline GemmArgs part(GemmArgs args, std::size_t row, std::size_t rows, std::size_t column,
                     std::size_t columns) {
  args.m = rows;
  args.n = columns;
  args.a = part(args.a, row, 0);
  args.b = part(args.b, 0, column);
  if (args.packed_b.data != nullptr) args.packed_b.first += column;
  args.c = part(args.c, row, column);
  if (args.epilogue.bias != nullptr) args.epilogue.bias += column;
  args.epilogue.pre_activation = part(args.epilogue.pre_activation, row, column);
  args.epilogue.residual = part(args.epilogue.residual, row, column);
  shift_draws(args.epilogue.dropout, row, column);
  return args;
}

// The number of parts that a total has if no part is larger than `part`.
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

// The number of parts that the rows and the columns of a result are cut into.
struct ProductGrid {
  std::size_t row_parts, column_parts;
};

namespace detail {

// The grid of at most `width` tasks in which the largest task takes the least time. A task
// multiplies its whole tile and packs its own rows of a and, unless b `is_packed`, columns of b.
inline ProductGrid product_grid(std::size_t row_tiles, std::size_t column_tiles,
                                std::size_t tile_rows, std::size_t tile_columns, std::size_t width,
                                bool is_packed) {
  // Packing an element takes about the time of 24 multiply-adds: a load (often from memory), a
  // transposition and a store.
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
    const double cost = rows * columns + packing * (rows + (is_packed ? 0 : columns));
    if (row_parts == 1 || cost < best_cost) {
      best = {row_parts, column_parts};
      best_cost = cost;
    }
  }
  return best;
}

// A product on several workers. Each worker has its own rows, and takes rows of other workers when
// its own are done. So no worker waits for a core that is slower for a while, and most rows stay
// with the core that wrote them and will read the result. All of b is packed before: each worker
// packs a part, or each worker packs all of it for itself.
class SharedProduct {
 public:
  // `packing`: the packing of args.
  SharedProduct(Context& context, const GemmArgs& args, const SharedPacking& packing,
                std::size_t workers)
      : context_(context),
        args_(args),
        packing_(packing),
        workers_(workers),
        row_tiles_(parts_of(args.m, packing.tile_rows)),
        panes_((std::min)(parts_of(args.n, packing.columns),
                          (std::max)(most_bytes / packing.bytes, std::size_t{1}))),
        each_packs_(workers < least_together && panes_ * packing.bytes <= most_bytes_of_one &&
                    panes_ * packing.columns >= args.n),
        stride_(counter_bytes + packing.workspace + (each_packs_ ? panes_ * packing.bytes : 0)),
        memory_(Storage::allocate(
            context.heap(),
            checked_add(each_packs_ ? 0 : panes_ * packing.bytes,
                        checked_multiply(stride_, workers, "multiply"), "multiply"))) {}

  // True if each worker gets eight tiles of rows, so that the balance is as good as with halves,
  // and enough work to pay for two fork-joins.
  static bool worthwhile(const GemmArgs& args, const SharedPacking& packing, std::size_t workers,
                         double products) {
    return packing.columns != 0 && args.m >= 8 * workers * packing.tile_rows &&
           products >= 4e6 * static_cast<double>(workers);
  }

  void run() {
    HeapVector<float> amax(args_.epilogue.amax != nullptr ? workers_ : 0, context_.heap());
    const std::size_t most = panes_ * packing_.columns;
    for (std::size_t first = 0; first < args_.n; first += most) {
      const std::size_t panes = parts_of((std::min)(most, args_.n - first), packing_.columns);
      if (!each_packs_)
        in_parallel([&](std::size_t worker) {
          for (std::size_t pane = 0; pane < panes; ++pane) pack(first, pane, worker);
        });
      for (std::size_t worker = 0; worker < workers_; ++worker)
        new (memory_.data() + worker * stride_) Counter(0);
      in_parallel([&](std::size_t worker) {
        // Packs each pane just before it is used. A worker that comes late packs only if a pane is
        // left.
        std::size_t packed = each_packs_ ? 0 : panes;
        for (std::size_t i = 0; i < workers_; ++i)
          while (const Tiles tiles =
                     take((worker + i) % workers_, i == 0 ? 2 : 2 * workers_, panes)) {
            for (; packed <= tiles.pane; ++packed) pack(first, packed, worker);
            multiply(tiles, first, worker, amax.empty() ? nullptr : &amax[worker]);
          }
      });
    }
    for (const float value : amax) *args_.epilogue.amax = (std::max)(*args_.epilogue.amax, value);
  }

 private:
  // The most bytes of b that are packed at a time.
  static constexpr std::size_t most_bytes = std::size_t{16} << 20;
  // Cache lines that other cores have read are written at a quarter of the rate. So packing a part
  // on each worker pays only with four or more workers, or if b comes from memory (AMD Zen 4: two
  // workers take 0.82 to 0.98 of the time if each packs up to 2.5 MiB, 1.04 of the time with 9
  // MiB).
  static constexpr std::size_t least_together = 4;
  static constexpr std::size_t most_bytes_of_one = std::size_t{5} << 19;

  // The number of a worker's tiles that are taken so far, counted pane by pane, at the start of the
  // worker's memory. It has two cache lines, because processors fetch lines in pairs.
  using Counter = std::atomic<std::size_t>;
  static constexpr std::size_t counter_bytes = 128;

  template <class Task>
  void in_parallel(const Task& task) {
    parallel(context_, static_cast<int>(workers_),
             [&](int worker) { task(static_cast<std::size_t>(worker)); });
  }

  // Tiles of rows in a pane.
  struct Tiles {
    std::size_t pane = 0, first = 0, count = 0;
    explicit operator bool() const { return count != 0; }
  };

  // Takes one of `parts` of the tiles that the owner has left, at most the number that are packed
  // together: half of the worker's own tiles, but less of another worker's, since the owner
  // continues as well. Takes at least the number of tiles for which columns serve enough rows.
  Tiles take(std::size_t owner, std::size_t parts, std::size_t panes) const {
    const std::size_t first = border(row_tiles_, 1, owner, workers_);
    const std::size_t tiles = border(row_tiles_, 1, owner + 1, workers_) - first;
    const std::size_t all = panes * tiles;
    Counter& taken = *std::launder(reinterpret_cast<Counter*>(memory_.data() + owner * stride_));
    Tiles next;
    std::size_t at = taken.load(std::memory_order_relaxed);
    do {
      if (at == all) return {};
      next = {at / tiles, first + at % tiles,
              (std::min)(
                  {(std::max)(parts_of(all - at, parts), packing_.least_rows / packing_.tile_rows),
                   packing_.rows / packing_.tile_rows, tiles - at % tiles})};
    } while (!taken.compare_exchange_weak(at, at + next.count, std::memory_order_relaxed));
    return next;
  }

  // The product of some rows and some columns of a pane; the columns begin `before` columns after
  // the pane's first.
  GemmArgs own(std::size_t row, std::size_t rows, std::size_t first, std::size_t pane,
               std::size_t before, std::size_t columns, std::size_t worker) const {
    GemmArgs result = part(args_, row, rows, first + pane * packing_.columns + before, columns);
    std::byte* const workspace = memory_.data() + worker * stride_ + counter_bytes;
    std::byte* const packed =
        each_packs_ ? workspace + packing_.workspace : memory_.data() + workers_ * stride_;
    result.packed_b = {reinterpret_cast<float*>(packed + pane * packing_.bytes), before,
                       packing_.columns, args_.packed_b.narrow};
    result.workspace = workspace;
    return result;
  }
  std::size_t columns_of(std::size_t first, std::size_t pane) const {
    return (std::min)(packing_.columns, args_.n - first - pane * packing_.columns);
  }

  void pack(std::size_t first, std::size_t pane, std::size_t worker) const {
    const GemmKernels& gemm = context_.kernels().gemm;
    const std::size_t columns = columns_of(first, pane);
    std::size_t from = 0, to = columns;
    if (!each_packs_) {
      from = border(columns, gemm.tile_columns, worker, workers_);
      to = border(columns, gemm.tile_columns, worker + 1, workers_);
    }
    if (from != to) gemm.pack_b(own(0, packing_.rows, first, pane, from, to - from, worker));
  }

  void multiply(const Tiles& tiles, std::size_t first, std::size_t worker, float* amax) const {
    const std::size_t row = tiles.first * packing_.tile_rows, pane = tiles.pane;
    const std::size_t rows = (std::min)(tiles.count * packing_.tile_rows, args_.m - row);
    GemmArgs args = own(row, rows, first, pane, 0, columns_of(first, pane), worker);
    args.epilogue.amax = amax;
    float same_factor = 1;  // one task writes where the caller reads
    if (args.factor != nullptr && row + first + pane != 0) args.factor = &same_factor;
    context_.kernels().gemm.multiply(args);
  }

  Context& context_;
  const GemmArgs& args_;
  SharedPacking packing_;
  std::size_t workers_;
  std::size_t row_tiles_;
  std::size_t panes_;   // number of panes: columns of b that are packed together
  bool each_packs_;     // all of b, for itself
  std::size_t stride_;  // bytes of a worker
  Storage memory_;
};

// The product on several workers that take columns from a queue, each with `workspace` bytes.
inline void multiply_by_columns(Context& context, GemmArgs args, std::size_t workspace,
                                std::size_t workers) {
  const std::size_t stride = parts_of(workspace, memory_alignment) * memory_alignment;
  const Storage memory =
      Storage::allocate(context.heap(), checked_multiply(stride, workers, "multiply"));
  HeapVector<float> amax(args.epilogue.amax != nullptr ? workers : 0, context.heap());
  ColumnQueue queue{.workers = workers};
  args.column_queue = &queue;
  parallel(context, static_cast<int>(workers), [&](int task) {
    const auto worker = static_cast<std::size_t>(task);
    GemmArgs own = args;
    own.workspace = memory.data() + worker * stride;
    float same_factor = 1;  // one worker writes where the caller reads
    if (args.factor != nullptr && worker != 0) own.factor = &same_factor;
    if (args.epilogue.amax != nullptr) own.epilogue.amax = &amax[worker];
    context.kernels().gemm.multiply(own);
  });
  for (const float value : amax) *args.epilogue.amax = (std::max)(*args.epilogue.amax, value);
}

}  // namespace detail

// Runs a product over the context's executor; args.workspace is not read. args.packed_b has all
// columns of b, packed for products in this context, or none.
inline void multiply(Context& context, GemmArgs args) {
  if (args.m == 0 || args.n == 0) return;
  const GemmKernels& gemm = context.kernels().gemm;
  args.bf16_products = context.bf16().products;
  args.fp32_products = context.fp32_products();
  const bool is_packed = args.packed_b.data != nullptr && gemm.reads_packed(args);
  // With 32 rows and codes in panels products take 0.98 of the time, with 256 rows 1.03 (Zen 3).
  constexpr std::size_t most_narrow = 32;
  if (!is_packed) args.packed_b = {.narrow = args.m <= most_narrow};
  const std::size_t tile_rows = gemm.tile_rows(args), tile_columns = gemm.tile_columns;
  const std::size_t row_tiles = detail::parts_of(args.m, tile_rows);
  const std::size_t column_tiles = detail::parts_of(args.n, tile_columns);
  // Below about a hundred thousand multiply-adds a second thread costs more than it saves.
  constexpr double worth_a_task = 1e5;
  const double products = static_cast<double>(args.m) * static_cast<double>(args.n) *
                          static_cast<double>((std::max)(args.k, std::size_t{1}));
  const auto most = static_cast<std::size_t>((std::min)(products / worth_a_task + 1, 1e6));
  const std::size_t width = (std::min)(
      most, most == 1 ? std::size_t{1} : static_cast<std::size_t>(context.executor().width));
  if (width > 1 && !is_packed) {
    if (const std::size_t workspace = gemm.queue_workspace(args); workspace != 0)
      return detail::multiply_by_columns(context, args, workspace, width);
    const SharedPacking packing = gemm.shared_packing(args);
    if (detail::SharedProduct::worthwhile(args, packing, width, products))
      return detail::SharedProduct(context, args, packing, width).run();
  }
  const ProductGrid grid =
      detail::product_grid(row_tiles, column_tiles, tile_rows, tile_columns, width, is_packed);
  const std::size_t row_parts = grid.row_parts, column_parts = grid.column_parts;
  const std::size_t tasks = row_parts * column_parts;

  GemmArgs largest = args;
  largest.m = (std::min)(detail::parts_of(row_tiles, row_parts) * tile_rows, args.m);
  largest.n = (std::min)(detail::parts_of(column_tiles, column_parts) * tile_columns, args.n);
  const std::size_t workspace =
      detail::parts_of(gemm.workspace_bytes(largest), memory_alignment) * memory_alignment;
  const Storage memory =
      Storage::allocate(context.heap(), checked_multiply(workspace, tasks, "multiply"));
  HeapVector<float> amax(args.epilogue.amax != nullptr ? tasks : 0, context.heap());
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
    if (args.epilogue.amax != nullptr) own.epilogue.amax = &amax[index];
    gemm.multiply(own);
  });
  for (const float value : amax) *args.epilogue.amax = (std::max)(*args.epilogue.amax, value);
}

}  // namespace SOMA_NAMESPACE
