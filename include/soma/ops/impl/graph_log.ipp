#pragma once
// The functions of graph_log.hpp.

#include <soma/ops/graph_log.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE void GraphLog::keep(bool on) {
  on_ = on;
  clear();
}

SOMA_INLINE void GraphLog::begin_graph() {
  ++graph_;
  number_ = 0;
}

SOMA_INLINE void GraphLog::add(std::string_view words) {
  ++number_;
  if (hash_ == 0) hash_ = 0xCBF29CE484222325u;  // FNV-1a
  const auto mix = [this](std::uint64_t value) { hash_ = (hash_ ^ value) * 0x100000001B3u; };
  mix(graph_);
  for (const char letter : words) mix(static_cast<unsigned char>(letter));
  if (calls_.size() < most_calls) calls_.push_back({graph_, number_, std::string(words)});
}

SOMA_INLINE void GraphLog::clear() {
  calls_.clear();
  graph_ = number_ = hash_ = 0;
}

}  // namespace SOMA_NAMESPACE
