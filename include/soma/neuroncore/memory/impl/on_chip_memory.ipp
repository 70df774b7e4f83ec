#pragma once
// The functions of on_chip_memory.hpp.

#include <soma/neuroncore/memory/on_chip_memory.hpp>

#include <soma/neuroncore/machine.hpp>
#include <soma/neuroncore/memory/tile.hpp>
#include <soma/runtime/context.hpp>
#include <soma/runtime/heap_vector.hpp>
#include <soma/tensor/storage.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE OnChipMemory::OnChipMemory(Context& context, Memory memory, const Machine& machine,
                                       Uninitialised uninitialised, bool everything_fp32,
                                       bool holds_numbers)
    : memory_(memory),
      uninitialised_(uninitialised),
      holds_numbers_(holds_numbers),
      factor_(everything_fp32 ? 4 : 1),
      partitions_(machine.partitions),
      capacity_(memory == Memory::sbuf ? machine.sbuf_partition_bytes
                                       : machine.psum_partition_bytes()),
      step_(memory == Memory::sbuf ? machine.sbuf_align : machine.psum_bank_bytes),
      allocations_(context.heap()),
      bytes_(Storage::allocate(context.heap(), holds_numbers ? stride(factor_) * partitions_ : 0)),
      written_(Storage::allocate(context.heap(), stride(1) * partitions_)) {}

SOMA_INLINE Tile OnChipMemory::tile(const Machine& machine, DType dtype, std::size_t partitions,
                                    std::size_t elements, SourceLine source) {
  const CallSite call{memory_ == Memory::sbuf ? "sbuf.tile" : "psum.tile", source};
  if (!machine.has(dtype) && (machine.not_here & dtype_bit(dtype)) != 0)
    not_implemented(call, "dtype", std::string(to_string(dtype)), "integers of at most 32 bits");
  if (!machine.has(dtype) && first_generation_of(dtype) != 0)
    no_such_thing(call, "dtype", to_string(dtype), machine.name, first_generation_of(dtype));
  if (!machine.has(dtype))
    rule_broken(call, "dtype", std::string(to_string(dtype)),
                "a type that " + std::string(machine.name) + " has");
  if (partitions == 0 || partitions > partitions_)
    rule_broken(call, "partitions", std::to_string(partitions),
                "1 to " + std::to_string(partitions_));
  if (elements == 0 || elements > capacity_)
    rule_broken(call, "elements", std::to_string(elements),
                "1 to the " + std::to_string(capacity_) + " bytes of a partition");
  const std::size_t wanted = round_up(elements * size_of(dtype));
  if (wanted > capacity_ - used_)
    rule_broken(
        call, "tile",
        std::to_string(wanted) + " bytes a partition with " + std::to_string(used_) + " in use",
        "at most " + std::to_string(capacity_) + " together");
  const std::uint64_t id = next_id();
  const std::size_t begin =
      end_ == MemoryEnd::first ? used_ : capacity_ / step_ * step_ - used_ - wanted;
  allocations_.push_back(
      {id, begin, begin + elements * size_of(dtype), partitions, Written::nobody});
  const Tile tile(memory_, dtype, factor_ != 1, partitions, begin, begin * factor_, elements, id,
                  source);
  for (std::size_t p = 0; p < partitions; ++p) {
    if (holds_numbers_ && uninitialised_ == Uninitialised::nan)
      std::memset(at(tile, p), 0xFF, elements * tile.width());
    std::memset(written_row(p) + tile.offset(), 0, elements * size_of(dtype));
  }
  used_ += wanted;
  high_water_ = (std::max)(high_water_, used_);
  return tile;
}

SOMA_INLINE void OnChipMemory::allocate_from(MemoryEnd end) {
  if (used_ == 0) end_ = end;
}

SOMA_INLINE auto OnChipMemory::mark() const -> Mark { return {allocations_.size(), used_}; }

SOMA_INLINE void OnChipMemory::release(const Mark& mark) {
  allocations_.resize(mark.allocations);
  used_ = mark.used;
}

SOMA_INLINE std::byte* OnChipMemory::at(const Tile& tile, std::size_t partition) const {
  return bytes_.data() + (tile.first_partition() + partition) * stride(factor_) + tile.address();
}

SOMA_INLINE void OnChipMemory::check_alive(const CallSite& call, const Operand& operand) const {
  if (find(operand.tile) == nullptr)
    undefined(call, operand, operand.tile.describe() + " after its scope ended, or of another core",
              "a live tile of this core");
}

SOMA_INLINE bool OnChipMemory::readable(const Tile& tile) const {
  return uninitialised_ == Uninitialised::nan || written(tile);
}

SOMA_INLINE bool OnChipMemory::written(const Tile& tile) const {
  return find(tile)->written != Written::nobody ||
         all_written(tile, [](std::byte state) { return state != std::byte{0}; });
}

SOMA_INLINE void OnChipMemory::check_read(const CallSite& call, const Operand& operand) const {
  if (!readable(operand.tile))
    undefined(call, operand, operand.tile.describe() + " with elements that nobody wrote",
              "elements that were written");
}

SOMA_INLINE bool OnChipMemory::written_by_matmul(const Tile& tile) const {
  const Written all = find(tile)->written;
  if (all != Written::nobody) return all == Written::matmul;
  return all_written(
      tile, [](std::byte state) { return state == static_cast<std::byte>(Written::matmul); });
}

SOMA_INLINE void OnChipMemory::mark_written(const Tile& tile, Written by) {
  Allocation* const found = find(tile);
  if (found == nullptr || found->written == by) return;
  Allocation& allocation = *found;
  const bool whole = tile.adjacent() && tile.first_partition() == 0 &&
                     tile.partitions() == allocation.partitions &&
                     tile.offset() == allocation.begin &&
                     tile.offset() + tile.free_size() * size_of(tile.dtype()) == allocation.end;
  if (whole) {
    allocation.written = by;
    return;
  }
  open(allocation);
  for (std::size_t p = 0; p < tile.partitions(); ++p)
    for_each_run(tile, [&](std::size_t offset, std::size_t bytes) {
      std::memset(written_row(tile.first_partition() + p) + offset, static_cast<int>(by), bytes);
      return true;
    });
}

SOMA_INLINE bool OnChipMemory::mark_written_where(const Tile& tile, std::size_t p,
                                                  std::span<const std::uint32_t> chosen) {
  Allocation* const found = find(tile);
  if (found == nullptr || found->written == Written::somebody) return true;
  open(*found);
  std::size_t element = 0;
  const std::size_t width = size_of(tile.dtype());
  for_each_element(tile, [&](std::size_t offset) {
    if (chosen[element++] != 0)
      std::memset(written_row(tile.first_partition() + p) + offset,
                  static_cast<int>(Written::somebody), width);
    return true;
  });
  return std::find(chosen.begin(), chosen.end(), 0u) == chosen.end();
}

SOMA_INLINE std::uint64_t OnChipMemory::next_id() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

SOMA_INLINE std::size_t OnChipMemory::round_up(std::size_t bytes) const {
  return (bytes + step_ - 1) / step_ * step_;
}

SOMA_INLINE std::byte* OnChipMemory::written_row(std::size_t partition) const {
  return written_.data() + partition * stride(1);
}

SOMA_INLINE auto OnChipMemory::find(const Tile& tile) const -> Allocation* {
  auto* begin = const_cast<Allocation*>(allocations_.begin());
  auto* end = const_cast<Allocation*>(allocations_.end());
  auto* found = std::lower_bound(
      begin, end, tile.allocation(),
      [](const Allocation& allocation, std::uint64_t id) { return allocation.id < id; });
  return found != end && found->id == tile.allocation() ? found : nullptr;
}

SOMA_INLINE void OnChipMemory::open(Allocation& allocation) {
  if (allocation.written == Written::nobody) return;
  for (std::size_t p = 0; p < allocation.partitions; ++p)
    std::memset(written_row(p) + allocation.begin, static_cast<int>(allocation.written),
                allocation.end - allocation.begin);
  allocation.written = Written::nobody;
}

}  // namespace SOMA_NAMESPACE::neuroncore
