#pragma once
// Touches: the bytes that instructions touched, searchable by place. It is a search tree over first
// bytes in which each node knows the last byte below it, so that a search visits near nodes only.
// Random priorities keep the tree flat (Seidel and Aragon, "Randomized search trees", 1996); they
// come from the touch's number and are the same in every run.

#include <soma/neuroncore/memory/region.hpp>
#include <soma/neuroncore/order/instruction.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace SOMA_NAMESPACE::neuroncore {

struct Touch {
  Region region;
  Position at;
  Opcode opcode = Opcode::copy;
  bool writes = false;
  SourceLine source;          // where the instruction was issued
  std::uint32_t program = 0;  // the region of the program that it belongs to: Instruction::region
};

// Adding, erasing and finding take time logarithmic in the number of touches; finding also takes
// time linear in the number found.
class Touches {
 public:
  using Index = std::uint32_t;

  explicit Touches(Heap& heap) : nodes_(heap), touches_(heap), unused_(heap), found_(heap) {}

  const Touch& operator[](Index index) const { return touches_[index]; }
  std::size_t size() const;

  // The touches with a first byte before the region's last and a last byte after its first, in the
  // order of addition. Valid until the next call.
  std::span<const Index> close_by(const Region& region);

  void add(const Touch& touch);
  void erase(Index index);
  void clear();

 private:
  static constexpr Index none = static_cast<Index>(-1);

  struct Node {
    std::uintptr_t first = 0, last = 0;  // bytes; one past the end
    std::uintptr_t last_below = 0;       // the largest `last` of this node and those below it
    std::uint64_t number = 0;            // in the order in which they were added
    std::uint64_t priority = 0;          // no node has a larger one than the node above it
    Index left = none, right = none;     // earlier and later in the order of before()
  };

  // A bijection whose values look random (Steele, Lea and Flood, "Fast splittable pseudorandom
  // number generators", 2014).
  static std::uint64_t spread(std::uint64_t number);
  bool before(Index a, Index b) const;
  void renew(Index index);

  void collect(Index at, std::uintptr_t first, std::uintptr_t last);

  // The tree below `at` with a new node. The depth of recursion is the depth of the tree.
  Index with(Index at, Index added);
  struct Halves {
    Index left, right;
  };
  // Splits a tree into the nodes before `middle` and the rest.
  Halves split(Index at, Index middle);
  Index without(Index at, Index erased);
  // Joins two trees; all of `left` must be before all of `right`.
  Index joined(Index left, Index right);

  HeapVector<Node> nodes_;
  HeapVector<Touch> touches_;
  HeapVector<Index> unused_, found_;
  Index root_ = none;
  std::uint64_t added_ = 0;
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/order/impl/touches.ipp>
#endif
