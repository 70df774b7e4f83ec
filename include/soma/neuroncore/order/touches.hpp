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

namespace soma::neuroncore {

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
  std::size_t size() const { return nodes_.size() - unused_.size(); }

  // The touches with a first byte before the region's last and a last byte after its first, in the
  // order of addition. Valid until the next call.
  std::span<const Index> near(const Region& region) {
    found_.clear();
    collect(root_, region.first_byte, region.last_byte);
    std::sort(found_.begin(), found_.end(),
              [this](Index a, Index b) { return nodes_[a].number < nodes_[b].number; });
    return {found_.data(), found_.size()};
  }

  void add(const Touch& touch) {
    Index index = 0;
    if (unused_.empty()) {
      index = static_cast<Index>(nodes_.size());
      nodes_.push_back({});
      touches_.push_back(touch);
    } else {
      index = unused_.back();
      unused_.pop_back();
      touches_[index] = touch;
    }
    nodes_[index] = {.first = touch.region.first_byte,
                     .last = touch.region.last_byte,
                     .last_below = touch.region.last_byte,
                     .number = ++added_,
                     .priority = spread(added_)};
    root_ = with(root_, index);
  }
  void erase(Index index) {
    root_ = without(root_, index);
    unused_.push_back(index);
  }
  void clear() {
    nodes_.clear();
    touches_.clear();
    unused_.clear();
    root_ = none;
  }

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
  static std::uint64_t spread(std::uint64_t number) {
    number *= 0x9E3779B97F4A7C15u;
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9u;
    number = (number ^ (number >> 27)) * 0x94D049BB133111EBu;
    return number ^ (number >> 31);
  }
  bool before(Index a, Index b) const {
    const Node &x = nodes_[a], &y = nodes_[b];
    return x.first != y.first ? x.first < y.first : x.number < y.number;
  }
  void renew(Index index) {
    Node& node = nodes_[index];
    node.last_below = node.last;
    for (const Index child : {node.left, node.right})
      if (child != none) node.last_below = (std::max)(node.last_below, nodes_[child].last_below);
  }

  void collect(Index at, std::uintptr_t first, std::uintptr_t last) {
    while (at != none && nodes_[at].last_below > first) {
      const Node& node = nodes_[at];
      collect(node.left, first, last);
      if (node.first >= last) return;
      if (node.last > first) found_.push_back(at);
      at = node.right;
    }
  }

  // The tree below `at` with a new node. The depth of recursion is the depth of the tree.
  Index with(Index at, Index added) {
    if (at == none) return added;
    if (nodes_[added].priority > nodes_[at].priority) {
      const auto [left, right] = split(at, added);
      nodes_[added].left = left;
      nodes_[added].right = right;
      renew(added);
      return added;
    }
    if (before(added, at))
      nodes_[at].left = with(nodes_[at].left, added);
    else
      nodes_[at].right = with(nodes_[at].right, added);
    renew(at);
    return at;
  }
  struct Halves {
    Index left, right;
  };
  // Splits a tree into the nodes before `middle` and the rest.
  Halves split(Index at, Index middle) {
    if (at == none) return {none, none};
    Halves halves{};
    if (before(at, middle)) {
      halves = split(nodes_[at].right, middle);
      nodes_[at].right = halves.left;
      halves.left = at;
    } else {
      halves = split(nodes_[at].left, middle);
      nodes_[at].left = halves.right;
      halves.right = at;
    }
    renew(at);
    return halves;
  }
  Index without(Index at, Index erased) {
    if (at == erased) return joined(nodes_[at].left, nodes_[at].right);
    if (before(erased, at))
      nodes_[at].left = without(nodes_[at].left, erased);
    else
      nodes_[at].right = without(nodes_[at].right, erased);
    renew(at);
    return at;
  }
  // Joins two trees; all of `left` must be before all of `right`.
  Index joined(Index left, Index right) {
    if (left == none) return right;
    if (right == none) return left;
    if (nodes_[left].priority > nodes_[right].priority) {
      nodes_[left].right = joined(nodes_[left].right, right);
      renew(left);
      return left;
    }
    nodes_[right].left = joined(left, nodes_[right].left);
    renew(right);
    return right;
  }

  HeapVector<Node> nodes_;
  HeapVector<Touch> touches_;
  HeapVector<Index> unused_, found_;
  Index root_ = none;
  std::uint64_t added_ = 0;
};

}  // namespace soma::neuroncore
