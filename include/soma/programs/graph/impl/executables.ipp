#pragma once
// The functions of executables.hpp.

#include <soma/programs/graph/executables.hpp>

#include <soma/neuroncore/order/instruction.hpp>
#include <soma/programs/graph/graph_key.hpp>
#include <soma/programs/run_mode.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE std::size_t Executable::bytes() const {
  return sizeof(Executable) + key.bytes().size();
}

SOMA_INLINE std::uint64_t stream_hash(std::span<const neuroncore::Instruction> record) {
  std::uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a, 64 bits, word by word
  const auto add = [&hash](std::uint64_t word) { hash = (hash ^ word) * 0x100000001B3u; };
  std::array<std::uint32_t, neuroncore::lane_count> before{};
  std::array<bool, neuroncore::lane_count> seen{};
  for (const neuroncore::Instruction& instruction : record) {
    const neuroncore::Position at = instruction.position;
    if (!seen[at.lane]) before[at.lane] = at.number - 1;
    seen[at.lane] = true;
  }
  for (const neuroncore::Instruction& instruction : record) {
    const neuroncore::CostFields& cost = instruction.cost;
    add(static_cast<std::uint64_t>(instruction.opcode) | std::uint64_t{instruction.position.lane}
                                                             << 8);
    add(cost.partitions | std::uint64_t{cost.free_size} << 32);
    add(cost.stationary | std::uint64_t{cost.tensors} << 32 |
        std::uint64_t{cost.psum_tensors} << 40);
    add(cost.bytes);
    add(cost.buffers | std::uint64_t{cost.piece} << 32);
    add(static_cast<std::uint64_t>(cost.result) | static_cast<std::uint64_t>(cost.inputs[0]) << 8 |
        static_cast<std::uint64_t>(cost.inputs[1]) << 16 |
        static_cast<std::uint64_t>(cost.operators[0]) << 24 |
        static_cast<std::uint64_t>(cost.operators[1]) << 32);
    for (std::size_t lane = 0; lane < neuroncore::lane_count; ++lane)
      if (seen[lane] && instruction.after[lane] > before[lane])
        add(lane | std::uint64_t{instruction.after[lane] - before[lane]} << 8);
  }
  return hash;
}

SOMA_INLINE std::uint64_t peak_bytes(std::span<const RecordedCall> calls) {
  struct Life {
    std::uintptr_t storage;
    std::size_t first, last;
    std::uint64_t bytes;
    bool made;
  };
  std::vector<Life> lives;
  for (std::size_t c = 0; c < calls.size(); ++c) {
    const auto touch = [&](const Tensor& tensor, bool made) {
      if (!tensor.defined()) return;
      for (Life& life : lives)
        if (life.storage == tensor.storage().identity()) {
          life.last = c;
          return;
        }
      lives.push_back({tensor.storage().identity(), c, c, tensor.storage().bytes(), made});
    };
    for (const Tensor& input : calls[c].inputs) touch(input, false);
    for (const Tensor& output : calls[c].outputs) touch(output, true);
  }
  std::uint64_t peak = 0;
  for (std::size_t c = 0; c < calls.size(); ++c) {
    std::uint64_t now = 0;
    for (const Life& life : lives)
      if (life.made && life.first <= c && c <= life.last) now += life.bytes;
    peak = (std::max)(peak, now);
  }
  return peak;
}

SOMA_INLINE const Executable* ExecutableCache::find(const GraphKey& key) {
  for (auto at = kept_.begin(); at != kept_.end(); ++at)
    if (at->key == key) {
      kept_.splice(kept_.begin(), kept_, at);
      ++hits_;
      if (at->loaded) ++loaded_hits_;
      return &kept_.front();
    }
  return nullptr;
}

SOMA_INLINE GraphMiss ExecutableCache::reason_of_miss(const GraphKey& key,
                                                      const GraphKey::Names& names,
                                                      std::uint64_t calls) const {
  GraphMiss miss{calls};
  std::size_t longest = 0;
  for (const Executable& executable : kept_) {
    std::size_t at = 0;
    std::string differs = first_difference(key, names, executable.key, at);
    if (!miss.differs.empty() && at <= longest) continue;
    longest = at;
    miss.differs = std::move(differs);
    miss.given = key.number_around(at);
    miss.known = executable.key.number_around(at);
  }
  return miss;
}

SOMA_INLINE void ExecutableCache::count_compilation(GraphMiss miss) {
  ++compilations_;
  if (reasons_.size() < most_misses) reasons_.push_back(std::move(miss));
}

SOMA_INLINE const Executable& ExecutableCache::add(Executable executable) {
  bytes_ += executable.bytes();
  kept_.push_front(std::move(executable));
  while (bytes_ > most_bytes_ && kept_.size() > 1) {
    bytes_ -= kept_.back().bytes();
    kept_.pop_back();
    ++evicted_;
  }
  return kept_.front();
}

}  // namespace SOMA_NAMESPACE
