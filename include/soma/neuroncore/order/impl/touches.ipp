#pragma once
// The functions of touches.hpp.

#include <soma/neuroncore/order/touches.hpp>

#include <soma/neuroncore/memory/region.hpp>
#include <soma/neuroncore/order/instruction.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE std::size_t Touches::size() const { return nodes_.size() - unused_.size(); }

SOMA_INLINE auto Touches::close_by(const Region& region) -> std::span<const Index> {
  found_.clear();
  collect(root_, region.first_byte, region.last_byte);
  std::sort(found_.begin(), found_.end(),
            [this](Index a, Index b) { return nodes_[a].number < nodes_[b].number; });
  return {found_.data(), found_.size()};
}

SOMA_INLINE void Touches::add(const Touch& touch) {
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

SOMA_INLINE void Touches::erase(Index index) {
  root_ = without(root_, index);
  unused_.push_back(index);
}

SOMA_INLINE void Touches::clear() {
  nodes_.clear();
  touches_.clear();
  unused_.clear();
  root_ = none;
}

SOMA_INLINE std::uint64_t Touches::spread(std::uint64_t number) {
  number *= 0x9E3779B97F4A7C15u;
  number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9u;
  number = (number ^ (number >> 27)) * 0x94D049BB133111EBu;
  return number ^ (number >> 31);
}

SOMA_INLINE bool Touches::before(Index a, Index b) const {
  const Node &x = nodes_[a], &y = nodes_[b];
  return x.first != y.first ? x.first < y.first : x.number < y.number;
}

SOMA_INLINE void Touches::renew(Index index) {
  Node& node = nodes_[index];
  node.last_below = node.last;
  for (const Index child : {node.left, node.right})
    if (child != none) node.last_below = (std::max)(node.last_below, nodes_[child].last_below);
}

SOMA_INLINE void Touches::collect(Index at, std::uintptr_t first, std::uintptr_t last) {
  while (at != none && nodes_[at].last_below > first) {
    const Node& node = nodes_[at];
    collect(node.left, first, last);
    if (node.first >= last) return;
    if (node.last > first) found_.push_back(at);
    at = node.right;
  }
}

SOMA_INLINE auto Touches::with(Index at, Index added) -> Index {
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

SOMA_INLINE auto Touches::split(Index at, Index middle) -> Halves {
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

SOMA_INLINE auto Touches::without(Index at, Index erased) -> Index {
  if (at == erased) return joined(nodes_[at].left, nodes_[at].right);
  if (before(erased, at))
    nodes_[at].left = without(nodes_[at].left, erased);
  else
    nodes_[at].right = without(nodes_[at].right, erased);
  renew(at);
  return at;
}

SOMA_INLINE auto Touches::joined(Index left, Index right) -> Index {
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

}  // namespace SOMA_NAMESPACE::neuroncore
