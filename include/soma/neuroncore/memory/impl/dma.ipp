#pragma once
// The functions of dma.hpp.

#include <soma/neuroncore/memory/dma.hpp>

#include <soma/neuroncore/core_state.hpp>
#include <soma/neuroncore/memory/hbm.hpp>
#include <soma/neuroncore/memory/hbm_rows.hpp>
#include <soma/neuroncore/order/semaphore.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE Dma Dma::queue(std::size_t index, SourceLine source) const {
  if (index >= dma_lanes)
    rule_broken({"dma.queue", source}, "index", std::to_string(index),
                "below " + std::to_string(dma_lanes));
  return Dma(*core_, index);
}

SOMA_INLINE Lane Dma::lane() const { return lane_of(Engine::dma, queue_); }

SOMA_INLINE Dma& Dma::load(const Tile& tile, const HbmView& view, SourceLine source) {
  return load(source, Opcode::dma_copy, tile, view);
}

SOMA_INLINE Dma& Dma::load_transposed(const Tile& tile, const HbmView& view, SourceLine source) {
  return load(source, Opcode::dma_transpose, tile, view);
}

SOMA_INLINE Dma& Dma::store(const HbmView& view, const Tile& tile, SourceLine source) {
  const CallSite call{"dma.store", source};
  check(call, {"tile", tile}, view);
  check_writable(call, view);
  check_sizes(call, tile, view);
  const Position at = begin(source, Opcode::dma_copy, {{"tile", tile}}, {}, nullptr, &view, tile);
  CoreState* core = core_;
  core->statistics.hbm_bytes_written += view.rows() * view.row_elements() * size_of(view.dtype());
  if (!core->options.compute) {
    core->context.heap().mark_dry();
    detail::write_zeros(view);
    return *this;
  }
  core->transfer(at, [core, tile, view] {
    core->for_partitions(
        tile.partitions(), 2 * tile.free_size(), tile.free_size() * 2,
        [&](std::size_t p, float* buffer) { detail::store_row(*core, tile, p, view, p, buffer); });
    show_written(*core, view);
  });
  return *this;
}

SOMA_INLINE Dma& Dma::copy(const Tile& dst, const Tile& src, SourceLine source) {
  const CallSite call{"dma.copy", source};
  check_tile(call, {"src", src});
  check_tile(call, {"dst", dst});
  const std::size_t count = src.partitions() * src.free_size();
  if (dst.partitions() * dst.free_size() != count)
    rule_broken(call, {"dst", dst}, dst.describe(),
                "the " + std::to_string(count) + " elements of src, " + src.describe());
  CostFields cost = CoreState::cost_of(dst);
  cost.bytes = count * (std::max)(size_of(src.dtype()), size_of(dst.dtype()));
  cost.buffers = static_cast<std::uint32_t>(count / (std::min)(src.run(), dst.run()));
  const Position at = core_
                          ->begin(source, Opcode::dma_copy, lane(), {{"src", src}}, {{"dst", dst}},
                                  cost, Direction::on_chip)
                          .at;
  CoreState* core = core_;
  if (core->dry(dst)) return *this;
  core->transfer(at, [core, dst, src] {
    detail::copy_tile(*core, dst, src);
    core->end(dst);
  });
  return *this;
}

SOMA_INLINE Dma& Dma::gather(const Tile& tile, const HbmView& table, const Tile& indices,
                             OutOfBounds out_of_bounds, SourceLine source) {
  const CallSite call{"dma.gather", source};
  check(call, {"tile", tile}, table);
  check_indices(call, tile, table, indices);
  const Position at = begin(source, Opcode::dma_gather, {{"indices", indices}}, {{"tile", tile}},
                            &table, nullptr, tile);
  CoreState* core = core_;
  core->statistics.hbm_bytes_read += tile.partitions() * tile.free_size() * size_of(table.dtype());
  if (core->dry(tile)) return *this;
  if (out_of_bounds == OutOfBounds::skip) core->show_kept(tile);
  core->transfer(at, [core, call, tile, table, indices, out_of_bounds] {
    std::vector<float> buffer(2 * tile.free_size() + 64);
    const PartitionWriter writer = detail::writer_of(*core, tile);
    bool all = true;
    for (std::size_t p = 0; p < tile.partitions(); ++p) {
      const std::int64_t row = index_of(*core, call, indices, p, table, out_of_bounds);
      all = all && row >= 0;
      if (row < 0) continue;
      const HbmView one =
          table.rows(static_cast<std::size_t>(row), static_cast<std::size_t>(row) + 1);
      detail::load_row(*core, call, writer, tile, p, one, 0, buffer.data());
      core->sbuf.mark_written(tile.rows(p, p + 1), Written::somebody);
    }
    all ? core->end(tile) : core->show(tile);
  });
  return *this;
}

SOMA_INLINE Dma& Dma::scatter(const HbmView& table, const Tile& tile, const Tile& indices,
                              Scatter how, OutOfBounds out_of_bounds, SourceLine source) {
  const CallSite call{"dma.scatter", source};
  check(call, {"tile", tile}, table);
  check_writable(call, table);
  check_indices(call, tile, table, indices);
  const Position at = begin(source, Opcode::dma_scatter, {{"tile", tile}, {"indices", indices}}, {},
                            nullptr, &table, tile);
  show_read(table);  // the rows that stay
  CoreState* core = core_;
  core->statistics.hbm_bytes_written +=
      tile.partitions() * tile.free_size() * size_of(table.dtype());
  if (!core->options.compute) {
    core->context.heap().mark_dry();
    return *this;
  }
  core->transfer(at, [core, call, tile, table, indices, how, out_of_bounds] {
    const std::size_t count = tile.free_size();
    std::vector<float> buffer(4 * count + 64);
    std::vector<std::int64_t> rows;
    for (std::size_t p = 0; p < tile.partitions(); ++p)
      rows.push_back(index_of(*core, call, indices, p, table, out_of_bounds));
    for (std::size_t p = 0; p < tile.partitions(); ++p) {
      const std::int64_t row = rows[p];
      if (row < 0) continue;
      const HbmView one =
          table.rows(static_cast<std::size_t>(row), static_cast<std::size_t>(row) + 1);
      if (how == Scatter::add) {
        float *more = buffer.data(), *old = more + 2 * count;
        PartitionReader(core->kernels, core->sbuf, tile).copy(p, more);
        detail::read_floats(*core, one, 0, old);
        core->kernels.alu(Alu::add, old, more, old, count);
        detail::write_floats(*core, one, 0, old, more);
      } else {
        detail::store_row(*core, tile, p, one, 0, buffer.data());
      }
    }
    show_written(*core, table);
  });
  return *this;
}

SOMA_INLINE Dma& Dma::sum(const Tile& tile, std::initializer_list<HbmView> views,
                          SourceLine source) {
  const CallSite call{"dma.sum", source};
  at_most(call, "views", views.size(), 16, "sources");
  if (views.size() == 0) rule_broken(call, "views", "none", "1 to 16");
  for (const HbmView& view : views) {
    check(call, {"tile", tile}, view);
    check_sizes(call, tile, view);
  }
  HeapVector<HbmView> sources(core_->context.heap());
  for (const HbmView& view : views) sources.push_back(view);
  const Position at = begin(source, Opcode::dma_sum, {}, {{"tile", tile}}, &sources[0], nullptr,
                            tile, sources.size());
  for (std::size_t i = 1; i < sources.size(); ++i) {
    core_->touch(source, Opcode::dma_sum, at, sources[i].region(), false);
    show_read(sources[i]);
  }
  CoreState* core = core_;
  for (const HbmView& view : sources)
    core->statistics.hbm_bytes_read += view.rows() * view.row_elements() * size_of(view.dtype());
  if (core->dry(tile)) return *this;
  core->transfer(at, [core, tile, sources = std::move(sources)] {
    const std::size_t count = tile.free_size();
    const PartitionWriter writer = detail::writer_of(*core, tile);
    core->for_partitions(tile.partitions(), 3 * count, count * 2 * sources.size(),
                         [&](std::size_t p, float* buffer) {
                           float* total = buffer + count;
                           detail::read_floats(*core, sources[0], p, total);
                           for (std::size_t i = 1; i < sources.size(); ++i) {
                             detail::read_floats(*core, sources[i], p, buffer);
                             core->kernels.alu(Alu::add, total, buffer, total, count);
                           }
                           writer.write(p, total, buffer);
                         });
    core->end(tile);
  });
  return *this;
}

SOMA_INLINE Dma& Dma::wait(Semaphore& semaphore, std::uint32_t value, SourceLine source) {
  semaphore.wait(*core_, lane(), value, source);
  return *this;
}

SOMA_INLINE Dma& Dma::signal(Semaphore& semaphore) {
  semaphore.signal(*core_, lane(), static_cast<std::uint32_t>(core_->machine.dma_semaphore_step));
  return *this;
}

SOMA_INLINE Dma& Dma::load(SourceLine source, Opcode opcode, const Tile& tile,
                           const HbmView& view) {
  const CallSite call{"dma.load", source};
  check(call, {"tile", tile}, view);
  check_sizes(call, tile, view);
  const Position at = begin(source, opcode, {}, {{"tile", tile}}, &view, nullptr, tile);
  CoreState* core = core_;
  core->statistics.hbm_bytes_read += view.rows() * view.row_elements() * size_of(view.dtype());
  if (core->dry(tile)) return *this;
  core->transfer(at, [core, call, tile, view] {
    const PartitionWriter writer = detail::writer_of(*core, tile);
    core->for_partitions(tile.partitions(), 2 * tile.free_size(), tile.free_size() * 2,
                         [&](std::size_t p, float* buffer) {
                           detail::load_row(*core, call, writer, tile, p, view, p, buffer);
                         });
    core->end(tile);
  });
  return *this;
}

SOMA_INLINE void Dma::check_tile(const CallSite& call, const Operand& operand) {
  core_->check_transfer(call, operand);
  CoreState::check_memory(call, operand, Memory::sbuf, "DMA");
}

SOMA_INLINE void Dma::check(const CallSite& call, const Operand& operand, const HbmView& view) {
  check_tile(call, operand);
  if (!core_->machine.has(view.dtype()) && view.dtype() != DType::int64)
    rule_broken(call, "view", view.describe(),
                "a type that " + std::string(core_->machine.name) + " has");
}

SOMA_INLINE void Dma::check_writable(const CallSite& call, const HbmView& view) {
  if (!view.writable()) rule_broken(call, "view", view.describe(), "one from hbm_target()");
}

SOMA_INLINE void Dma::check_sizes(const CallSite& call, const Tile& tile, const HbmView& view) {
  if (tile.partitions() != view.rows() || tile.free_size() != view.row_elements())
    rule_broken(call, "view", view.describe(),
                "the rows and the elements per row of " + tile.describe());
}

SOMA_INLINE void Dma::check_indices(const CallSite& call, const Tile& tile, const HbmView& table,
                                    const Tile& indices) {
  check_tile(call, {"indices", indices});
  if ((indices.dtype() != DType::int32 && indices.dtype() != DType::uint32) ||
      indices.free_size() != 1 || indices.partitions() != tile.partitions())
    rule_broken(call, {"indices", indices}, indices.describe(),
                "int32 or uint32, [" + std::to_string(tile.partitions()) + ", 1]");
  if (table.row_elements() != tile.free_size())
    rule_broken(call, "table", table.describe(),
                std::to_string(tile.free_size()) + " elements a row, as " + tile.describe());
}

SOMA_INLINE Position Dma::begin(SourceLine source, Opcode opcode,
                                std::initializer_list<Operand> reads,
                                std::initializer_list<Operand> writes, const HbmView* from,
                                const HbmView* to, const Tile& tile, std::size_t views) {
  const HbmView& view = from != nullptr ? *from : *to;
  const std::size_t elements = tile.free_size(), rows = tile.partitions() * views;
  CostFields cost = CoreState::cost_of(tile);
  cost.bytes = rows * elements * size_of(view.dtype());
  // A transfer has a list of pieces to read and one of pieces to write: the longer one counts.
  const std::size_t pieces =
      (std::max)(rows * elements / view.run(), tile.partitions() * elements / tile.run());
  cost.buffers = static_cast<std::uint32_t>(pieces);
  const Direction direction = from != nullptr ? Direction::load : Direction::store;
  if (to != nullptr && to->overlaps_itself())
    rule_broken({to_string(opcode), source}, "view", to->describe() + " that is a broadcast",
                "a place of its own for each result");
  const Position at = core_->begin(source, opcode, lane(), reads, writes, cost, direction).at;
  if (from != nullptr) core_->touch(source, opcode, at, from->region(), false);
  if (to != nullptr) core_->touch(source, opcode, at, to->region(), true);
  if (from != nullptr) show_read(*from);
  return at;
}

SOMA_INLINE void Dma::show_read(const HbmView& view) {
  if (core_->instruction_watch != nullptr) core_->instruction_watch->reads(*core_, view);
}

SOMA_INLINE void Dma::show_written(CoreState& core, const HbmView& view) {
  if (core.instruction_watch != nullptr) core.instruction_watch->wrote(core, view);
}

SOMA_INLINE std::int64_t Dma::index_of(CoreState& core, const CallSite& call, const Tile& indices,
                                       std::size_t p, const HbmView& table,
                                       OutOfBounds out_of_bounds) {
  const std::int64_t index = detail::integer_at(indices.dtype(), core.sbuf.at(indices, p));
  if (index >= 0 && static_cast<std::size_t>(index) < table.rows()) return index;
  if (out_of_bounds == OutOfBounds::error)
    undefined(call, {"indices", indices},
              std::to_string(index) + " in partition " + std::to_string(p),
              "a row of " + table.describe());
  return -1;
}

}  // namespace SOMA_NAMESPACE::neuroncore
