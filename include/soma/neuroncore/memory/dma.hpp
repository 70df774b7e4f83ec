#pragma once
// Dma: transfers between HBM and SBUF, and within SBUF. A transfer copies, and converts where the
// types differ: source to fp32 to destination (guide: DMA casts in two steps). It moves bytes of
// memory, so its tiles may begin at any partition.
//
// The last argument of every call is the source line that is recorded, by default the line of the
// call.
//
// A queue runs its own transfers in order; transfers of different queues run in any order. core.dma
// is queue 0, core.dma.queue(i) is another queue.

#include <soma/neuroncore/core_state.hpp>
#include <soma/neuroncore/memory/hbm.hpp>
#include <soma/neuroncore/memory/hbm_rows.hpp>
#include <soma/neuroncore/order/semaphore.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

// The effect of an index beyond the table.
enum class OutOfBounds : std::uint8_t { error, skip };
// The effect of a scatter on the rows that it writes.
enum class Scatter : std::uint8_t { overwrite, add };

class Dma {
 public:
  explicit Dma(CoreState& core, std::size_t queue = 0) : core_(&core), queue_(queue) {}

  // Error neuroncore.rule_broken.
  Dma queue(std::size_t index, SourceLine source = calling_line()) const;
  Lane lane() const;

  // Loads row r of the view into partition r.
  Dma& load(const Tile& tile, const HbmView& view, SourceLine source = calling_line());
  // The same for a view whose rows are not adjacent in memory because it was transposed: slow on
  // this hardware, and counted separately.
  Dma& load_transposed(const Tile& tile, const HbmView& view, SourceLine source = calling_line());
  // Stores the tile in the view.
  Dma& store(const HbmView& view, const Tile& tile, SourceLine source = calling_line());
  // dst = src, both in SBUF: the elements of src in the order of its partitions become those of dst
  // in the order of its own. Partitions and free dimensions may differ, the number of elements may
  // not. An overlap is refused unless both are the same elements.
  Dma& copy(const Tile& dst, const Tile& src, SourceLine source = calling_line());
  // Partition p = row indices[p] of a matrix; indices is [P, 1] of int32 or uint32 in SBUF.
  Dma& gather(const Tile& tile, const HbmView& table, const Tile& indices,
              OutOfBounds out_of_bounds = OutOfBounds::error, SourceLine source = calling_line());
  // Row indices[p] of a matrix = partition p (the last of equal ones stays), or += partition p (in
  // fp32, partitions in ascending order, so that equal indices add up).
  Dma& scatter(const HbmView& table, const Tile& tile, const Tile& indices,
               Scatter how = Scatter::overwrite, OutOfBounds out_of_bounds = OutOfBounds::error,
               SourceLine source = calling_line());
  // tile = the sum of up to 16 views, in fp32, in their order.
  Dma& sum(const Tile& tile, std::initializer_list<HbmView> views,
           SourceLine source = calling_line());

  // The queue waits; and it signals once its last transfer has ended: every DMA engine adds one.
  Dma& wait(Semaphore& semaphore, std::uint32_t value, SourceLine source = calling_line());
  Dma& signal(Semaphore& semaphore);

 private:
  Dma& load(SourceLine source, Opcode opcode, const Tile& tile, const HbmView& view);

  // ---- checks and order

  void check_tile(const CallSite& call, const Operand& operand);
  void check(const CallSite& call, const Operand& operand, const HbmView& view);
  static void check_writable(const CallSite& call, const HbmView& view);
  static void check_sizes(const CallSite& call, const Tile& tile, const HbmView& view);
  void check_indices(const CallSite& call, const Tile& tile, const HbmView& table,
                     const Tile& indices);
  // The rows of `tile` move from or to the same number of rows of a view, `views` times.
  Position begin(SourceLine source, Opcode opcode, std::initializer_list<Operand> reads,
                 std::initializer_list<Operand> writes, const HbmView* from, const HbmView* to,
                 const Tile& tile, std::size_t views = 1);
  // To whoever looks on while instructions run.
  void show_read(const HbmView& view);
  static void show_written(CoreState& core, const HbmView& view);

  static std::int64_t index_of(CoreState& core, const CallSite& call, const Tile& indices,
                               std::size_t p, const HbmView& table, OutOfBounds out_of_bounds);
  CoreState* core_;
  std::size_t queue_;
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/memory/impl/dma.ipp>
#endif
