#pragma once
// Record: the instructions that a core issued, and the names that they refer to. A program names
// its parts with regions, which nest; a device names the operator that a program belongs to.

#include <soma/neuroncore/order/instruction.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <cstdint>
#include <string>

namespace SOMA_NAMESPACE::neuroncore {

// A part of a program. `parent`: the enclosing region's index + 1; 0: none. Regions with the same
// name and parent are one region.
struct RegionName {
  std::string name;
  std::uint32_t parent = 0;
};

// One call of an operator, by the operator's name.
struct CallName {
  std::string name;
};

struct RecordNames {
  explicit RecordNames(Heap& heap) : regions(heap), calls(heap) {}

  HeapVector<RegionName> regions;
  HeapVector<CallName> calls;

  // "attention/softmax": a region (Instruction::region) after its enclosing regions; "" for 0.
  std::string path(std::uint32_t region) const;
};

struct Record {
  explicit Record(Heap& heap) : instructions(heap), names(heap) {}

  HeapVector<Instruction> instructions;  // in the order in which they were issued
  RecordNames names;
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/order/impl/record.ipp>
#endif
