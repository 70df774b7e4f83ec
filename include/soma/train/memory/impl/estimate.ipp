#pragma once
// The functions of estimate.hpp.

#include <soma/train/memory/estimate.hpp>

#include <soma/base/fixed.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train::detail {

struct MemoryPart {
  std::string_view name;
  std::uint64_t MemoryEstimate::*bytes;
  bool heap;
};

inline constexpr std::array<MemoryPart, 13> memory_parts{{
    {"weights", &MemoryEstimate::weights, true},
    {"gradients", &MemoryEstimate::gradients, true},
    {"moments", &MemoryEstimate::moments, true},
    {"average", &MemoryEstimate::average, true},
    {"activations", &MemoryEstimate::activations, true},
    {"workspaces", &MemoryEstimate::workspaces, true},
    {"messages", &MemoryEstimate::messages, true},
    {"tables", &MemoryEstimate::tables, true},
    {"saving", &MemoryEstimate::saving, true},
    {"data", &MemoryEstimate::data, true},
    {"slack", &MemoryEstimate::slack, false},
    {"mapped", &MemoryEstimate::mapped, false},
    {"program", &MemoryEstimate::program, false},
}};

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

SOMA_INLINE std::uint64_t MemoryEstimate::heap() const {
  std::uint64_t sum = 0;
  for (const detail::MemoryPart& part : detail::memory_parts)
    if (part.heap) sum += this->*part.bytes;
  return sum;
}

SOMA_INLINE std::uint64_t MemoryEstimate::process() const {
  return heap() + slack + mapped + program;
}

SOMA_INLINE std::vector<std::pair<std::string_view, std::uint64_t>> parts_of(
    const MemoryEstimate& estimate) {
  std::vector<std::pair<std::string_view, std::uint64_t>> parts;
  for (const detail::MemoryPart& part : detail::memory_parts)
    parts.emplace_back(part.name, estimate.*part.bytes);
  return parts;
}

SOMA_INLINE void add_to_record(Record& record, std::string_view prefix,
                               const MemoryEstimate& estimate) {
  for (const auto& [name, bytes] : parts_of(estimate))
    record.set(std::string(prefix).append(name), bytes);
}

SOMA_INLINE MemoryEstimate estimate_from_record(const Record& record, std::string_view prefix) {
  MemoryEstimate estimate;
  for (const detail::MemoryPart& part : detail::memory_parts)
    estimate.*part.bytes = record.count(std::string(prefix).append(part.name));
  return estimate;
}

SOMA_INLINE std::string to_string(const MemoryEstimate& estimate) {
  std::string text;
  for (const detail::MemoryPart& part : detail::memory_parts) {
    const std::uint64_t bytes = estimate.*part.bytes;
    if (!part.heap || bytes == 0) continue;
    text.append(text.empty() ? "" : ", ").append(part.name).append(" ");
    text.append(soma::fixed(static_cast<double>(bytes) / (1 << 20), 2)).append(" MiB");
  }
  return text;
}

}  // namespace SOMA_NAMESPACE::train
