// A number for a record of instructions and its times: two records that differ in an opcode, a
// place in an order, a cost or a time have different ones.
#pragma once

#include <soma/neuroncore/clock/timeline.hpp>

#include <bit>
#include <cstdint>
#include <span>

namespace soma_test {

class RecordHash {
 public:
  void add(std::uint64_t value) {
    for (int byte = 0; byte < 8; ++byte)
      hash_ = (hash_ ^ (value >> (8 * byte) & 0xFF)) * 0x100000001B3u;
  }
  void add(double value) { add(std::bit_cast<std::uint64_t>(value)); }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xCBF29CE484222325u;
};

// Lines of sources and addresses are left out: they are no part of what the core does.
inline std::uint64_t record_hash(std::span<const soma::neuroncore::Instruction> record,
                                 const soma::neuroncore::Machine& machine) {
  RecordHash hash;
  const auto number = [&](auto value) { hash.add(static_cast<std::uint64_t>(value)); };
  for (const soma::neuroncore::Instruction& it : record) {
    number(it.opcode);
    number(it.position.lane);
    number(it.position.number);
    const soma::neuroncore::CostFields& cost = it.cost;
    for (const std::uint32_t value :
         {cost.partitions, cost.free_size, cost.stationary, cost.contraction, cost.piece,
          cost.buffers, std::uint32_t{cost.tensors}, std::uint32_t{cost.psum_tensors}})
      number(value);
    for (const soma::DType dtype : cost.inputs) number(dtype);
    number(cost.result);
    for (const soma::neuroncore::Alu op : cost.operators) number(op);
    for (const bool flag : {cost.zero, cost.transposes, cost.unit_stride, cost.narrow_stride})
      number(flag);
    number(cost.bytes);
    hash.add(cost.nanoseconds);
    for (const std::uint32_t after : it.after) number(after);
    number(it.reuses);
    for (const bool flag : {it.reads_previous, it.uses_sbuf, it.uses_psum, it.result_in_psum})
      number(flag);
    number(it.direction);
    for (const std::uint32_t value : {it.call, it.region, it.sbuf_used, it.psum_used})
      number(value);
  }
  for (const soma::neuroncore::Timed& timed :
       soma::neuroncore::timeline(record, machine).instructions) {
    hash.add(timed.start);
    hash.add(timed.end);
    number(timed.bound);
  }
  return hash.value();
}

}  // namespace soma_test
