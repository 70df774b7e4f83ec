#pragma once
// The functions of core_state.hpp.

#include <soma/neuroncore/core_state.hpp>

#include <soma/neuroncore/engines/engine_kernels.hpp>
#include <soma/neuroncore/machine_check.hpp>
#include <soma/neuroncore/memory/on_chip_memory.hpp>
#include <soma/neuroncore/memory/partition_io.hpp>
#include <soma/neuroncore/options.hpp>
#include <soma/neuroncore/order/instruction.hpp>
#include <soma/neuroncore/order/order.hpp>
#include <soma/neuroncore/order/recorder.hpp>
#include <soma/numeric/philox.hpp>
#include <soma/runtime/callback.hpp>
#include <soma/runtime/float_environment.hpp>
#include <soma/runtime/heap_vector.hpp>
#include <soma/runtime/parallel.hpp>
#include <soma/tensor/storage.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE CoreState::CoreState(Context& context_in, const Machine& machine_in,
                                 const CoreOptions& options_in, const EngineKernels& kernels_in)
    : context(context_in),
      machine(checked(machine_in)),
      options(options_in),
      kernels(kernels_in),
      sbuf(context_in, Memory::sbuf, machine, options.uninitialised, options.everything_fp32,
           options.compute),
      psum(context_in, Memory::psum, machine, options.uninitialised, options.everything_fp32,
           options.compute),
      recorder(context_in.heap(), options.record),
      order(context_in.heap(), options.synchronization, options.check_races, recorder.names()),
      held(context_in.heap()),
      pending_(context_in.heap()) {}

SOMA_INLINE OnChipMemory& CoreState::memory_of(const Tile& tile) {
  return tile.memory() == Memory::sbuf ? sbuf : psum;
}

SOMA_INLINE void CoreState::check(const CallSite& call, const Operand& operand) {
  check_transfer(call, operand);
  const Tile& tile = operand.tile;
  const std::size_t start = tile.first_partition(), count = tile.partitions();
  const std::size_t step = count > 64 ? 128 : count > 32 ? 64 : 32;
  if (start % step != 0)
    rule_broken(call, operand,
                std::to_string(count) + " partitions from " + std::to_string(start) + " on",
                count > 64   ? "start partition 0 for more than 64"
                : count > 32 ? "start partition 0 or 64 for 33 to 64"
                             : "start partition 0, 32, 64 or 96 for up to 32");
}

SOMA_INLINE void CoreState::check_transfer(const CallSite& call, const Operand& operand) {
  const Tile& tile = operand.tile;
  if (!tile.defined()) rule_broken(call, operand, "no tile", "a tile");
  memory_of(tile).check_alive(call, operand);
  if (tile.partitions() == 0) rule_broken(call, operand, "0 partitions", "1 to 128");
  at_most(call, operand, tile.first_partition() + tile.partitions(), machine.partitions,
          "partitions");
  for (std::size_t i = 0; i < tile.rank(); ++i) {
    const FreeDimension& dimension = tile.dimension(i);
    if (dimension.size == 0)
      rule_broken(call, operand, tile.describe(), "free dimensions of 1 or more");
    if (dimension.size > 65536 || dimension.stride > 32767 || dimension.stride < -32768)
      rule_broken(call, operand,
                  "a free dimension of " + std::to_string(dimension.size) + " elements " +
                      std::to_string(dimension.stride) + " apart",
                  "16-bit sizes and strides");
  }
}

SOMA_INLINE void CoreState::check_free(const CallSite& call, const Operand& operand) {
  check(call, operand);
  at_most(
      call, operand, operand.tile.free_size(),
      operand.tile.memory() == Memory::sbuf ? machine.sbuf_operand_free : machine.psum_operand_free,
      "elements a partition");
}

SOMA_INLINE void CoreState::check_has(const CallSite& call, Feature feature) const {
  if (!machine.has(feature))
    no_such_thing(call, "instruction", info(feature).name, machine.name, info(feature).first);
}

SOMA_INLINE void CoreState::check_memory(const CallSite& call, const Operand& operand,
                                         Memory memory, std::string_view engine) {
  if (operand.tile.memory() != memory)
    rule_broken(call, operand, operand.tile.describe(),
                "in " + std::string(to_string(memory)) + ", which is all that the " +
                    std::string(engine) + " engine reaches");
}

SOMA_INLINE void CoreState::check_same_partitions(const CallSite& call, const Operand& a,
                                                  const Operand& b) {
  if (a.tile.partitions() != b.tile.partitions())
    rule_broken(
        call, b, b.tile.describe(),
        "the " + std::to_string(a.tile.partitions()) + " partitions of " + std::string(a.name));
}

SOMA_INLINE void CoreState::check_same_size(const CallSite& call, const Operand& a,
                                            const Operand& b) {
  check_same_partitions(call, a, b);
  if (a.tile.free_size() != b.tile.free_size())
    rule_broken(
        call, b, b.tile.describe(),
        std::to_string(a.tile.free_size()) + " elements a partition, as " + std::string(a.name));
}

SOMA_INLINE void CoreState::check_not_both_psum(const CallSite& call, const Operand& a,
                                                const Operand& b) {
  if (a.tile.memory() == Memory::psum && b.tile.memory() == Memory::psum)
    rule_broken(call, b, b.tile.describe(),
                "in SBUF, where " + std::string(a.name) + " is in PSUM");
}

SOMA_INLINE void CoreState::check_floating(const CallSite& call, const Operand& operand) {
  if (!is_floating(operand.tile.dtype()))
    rule_broken(call, operand, operand.tile.describe(), "a floating type");
}

SOMA_INLINE void CoreState::check_integer(const CallSite& call, const Operand& operand) {
  if (is_floating(operand.tile.dtype()))
    rule_broken(call, operand, operand.tile.describe(), "an integer type");
}

SOMA_INLINE void CoreState::check_apart(const CallSite& call, const Operand& src,
                                        const Operand& dst) {
  if (src.tile.memory() == dst.tile.memory() && region_of(src.tile).meets(region_of(dst.tile)))
    undefined(call, dst, dst.tile.describe() + " on bytes of " + src.text(),
              "other bytes than " + std::string(src.name));
}

SOMA_INLINE void CoreState::check_places(const CallSite& call, std::initializer_list<Operand> reads,
                                         const Operand& written) {
  if (overlaps_itself(written.tile))
    rule_broken(call, written, written.tile.describe() + " that is a broadcast",
                "a place of its own for each result");
  const Region bytes = region_of(written.tile);
  for (const Operand& read : reads)
    if (read.tile.defined() && read.tile.memory() == written.tile.memory() &&
        region_of(read.tile).meets(bytes) && !same_elements(read.tile, written.tile))
      undefined(call, written, written.tile.describe() + " on bytes of " + read.text(),
                "the same elements as " + std::string(read.name) + ", or none of its bytes");
}

SOMA_INLINE CostFields CoreState::cost_of(const Tile& tile, Alu op) {
  CostFields cost{.operators = {op}};
  cost.partitions = static_cast<std::uint32_t>(tile.partitions());
  cost.free_size = static_cast<std::uint32_t>(tile.free_size());
  return cost;
}

SOMA_INLINE Running CoreState::begin(const SourceLine& source, Opcode opcode, Lane lane,
                                     std::initializer_list<Operand> reads,
                                     std::initializer_list<Operand> writes, const CostFields& cost,
                                     Direction direction) {
  for (const Operand& written : writes)
    if (written.tile.defined()) check_places({to_string(opcode), source}, reads, written);
  const Position at = order.begin(lane);
  running_ = opcode;
  ++statistics.instructions[static_cast<std::size_t>(opcode)];
  ++statistics.of_engine[static_cast<std::size_t>(engine_of(lane))];
  statistics.dma_buffers += cost.buffers;
  const Order::Clock waits = order.take_waits(lane);
  if (options.record) {
    Instruction instruction;
    instruction.opcode = opcode;
    instruction.position = at;
    instruction.cost = cost;
    instruction.after = waits;
    instruction.direction = direction;
    instruction.source = source;
    record(instruction, reads, writes);
  }
  for (const Operand& operand : reads)
    if (operand.tile.defined()) touch(source, opcode, at, region_of(operand.tile), false);
  for (const Operand& operand : writes)
    if (operand.tile.defined()) touch(source, opcode, at, region_of(operand.tile), true);
  for (const Operand& operand : reads) {
    if (!operand.tile.defined()) continue;
    // A transfer's input may still be in transit in the same queue, which keeps the order.
    if (engine_of(lane) == Engine::dma && !memory_of(operand.tile).readable(operand.tile))
      end_transfers(lane, at.number - 1);
    memory_of(operand.tile).check_read({to_string(opcode), source}, operand);
  }
  if (instruction_watch != nullptr) {
    instruction_watch->begins(*this, opcode, lane, source);
    for (const Operand& operand : reads)
      if (operand.tile.defined()) instruction_watch->reads(*this, operand.tile);
  }
  return {at};
}

SOMA_INLINE void CoreState::touch(const SourceLine& source, Opcode opcode, Position at,
                                  const Region& region, bool writes) {
  if (options.record) recorder.touch(region, writes);
  const Touch touched{region, at, opcode, writes, source, recorder.region()};
  order.touch(touched, [this, writes](Position earlier) {
    if (options.record) recorder.wait(earlier, writes);
    if (order.synchronization() == Synchronization::automatic)
      end_transfers(earlier.lane, earlier.number);
  });
}

SOMA_INLINE bool CoreState::dry(const Tile& written, Written by) {
  if (options.compute) return false;
  end(written, by);
  return true;
}

SOMA_INLINE void CoreState::end(const Tile& written, Written by) {
  memory_of(written).mark_written(written, by);
  show(written);
}

SOMA_INLINE void CoreState::show_kept(const Tile& tile) {
  if (instruction_watch != nullptr && memory_of(tile).written(tile))
    instruction_watch->reads(*this, tile);
}

SOMA_INLINE void CoreState::show(const Tile& written) {
  // A watcher may remove itself: the copy lives until it returns.
  if (const auto watching = watcher) watching(running_, written);
  if (instruction_watch != nullptr) instruction_watch->wrote(*this, written);
}

SOMA_INLINE void CoreState::end_transfers(Lane lane, std::uint32_t number) {
  for (std::size_t i = 0; i < pending_.size(); ++i)
    if (pending_[i].at.lane == lane && pending_[i].at.number <= number) {
      const Callback<void()> run = std::move(pending_[i].run);
      const Opcode current = std::exchange(running_, pending_[i].opcode);
      for (std::size_t j = i + 1; j < pending_.size(); ++j) std::swap(pending_[j - 1], pending_[j]);
      pending_.pop_back();
      const FloatEnvironment environment;
      run();
      running_ = current;
      i = static_cast<std::size_t>(-1);  // others may have ended meanwhile
    }
}

SOMA_INLINE void CoreState::end_transfers() {
  while (!pending_.empty()) end_transfers(pending_[0].at.lane, pending_[0].at.number);
}

SOMA_INLINE void CoreState::finish() {
  end_transfers();
  order.all_done();
  held.clear();
}

SOMA_INLINE void CoreState::abandon() {
  pending_.clear();
  order.all_done();
  held.clear();
}

SOMA_INLINE void CoreState::end_random_transfer() {
  const PhiloxCounter words =
      philox4x32_10({static_cast<std::uint32_t>(++stressed_), 0, 0, 0},
                    {static_cast<std::uint32_t>(options.dma_stress_seed),
                     static_cast<std::uint32_t>(options.dma_stress_seed >> 32)});
  if (words[0] % 4 != 0) return;
  const Position chosen = pending_[words[1] % pending_.size()].at;
  end_transfers(chosen.lane, chosen.number);
}

SOMA_INLINE void CoreState::record(Instruction& instruction, std::initializer_list<Operand> reads,
                                   std::initializer_list<Operand> writes) {
  CostFields& cost = instruction.cost;
  const auto uses = [&](const Tile& tile) {
    (tile.memory() == Memory::sbuf ? instruction.uses_sbuf : instruction.uses_psum) = true;
    if (tile.memory() == Memory::sbuf) return;
    const Region bytes = region_of(tile);
    for (std::size_t bank = bytes.first_byte / machine.psum_bank_bytes;
         bank <= (bytes.last_byte - 1) / machine.psum_bank_bytes; ++bank)
      instruction.psum_banks |= std::uint64_t{1} << bank % 64;
  };
  for (const Operand& operand : reads) {
    if (!operand.tile.defined()) continue;
    if (cost.tensors < cost.inputs.size()) cost.inputs[cost.tensors] = operand.tile.dtype();
    ++cost.tensors;
    if (operand.tile.memory() == Memory::psum) ++cost.psum_tensors;
    add_cost(cost, operand.tile);
    uses(operand.tile);
  }
  for (const Operand& operand : writes) {
    if (!operand.tile.defined()) continue;
    add_cost(cost, operand.tile);
    uses(operand.tile);
  }
  if (writes.size() != 0) {  // the first is the result
    const Tile& result = writes.begin()->tile;
    cost.result = result.dtype();
    instruction.result_in_psum = result.memory() == Memory::psum;
    if (cost.free_size == 0) {
      const CostFields size = cost_of(result);
      cost.partitions = size.partitions;
      cost.free_size = size.free_size;
    }
  }
  instruction.sbuf_used = static_cast<std::uint32_t>(sbuf.used());
  instruction.psum_used = static_cast<std::uint32_t>(psum.used());
  recorder.add(instruction);
}

SOMA_INLINE void CoreState::add_cost(CostFields& cost, const Tile& tile) {
  std::size_t innermost = tile.rank() - 1;  // with neighbours
  while (innermost != 0 && tile.dimension(innermost).size == 1) --innermost;
  const FreeDimension& inner = tile.dimension(innermost);
  if (inner.size == 1) return;
  if (inner.stride != 1) cost.unit_stride = false;
  const std::ptrdiff_t bytes = inner.stride * static_cast<std::ptrdiff_t>(size_of(tile.dtype()));
  if (bytes > 16 || bytes < -16) cost.narrow_stride = false;
}

}  // namespace SOMA_NAMESPACE::neuroncore
