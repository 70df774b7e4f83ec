#pragma once
// Executables: what is known of graphs that ran once, so that their next run compiles nothing, in a
// cache of limited bytes. "Compiling" a graph is recording the instructions that its programs make,
// hashing them and timing them; running it is running its programs.

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

namespace soma {

struct Executable {
  GraphKey key;
  std::uint64_t calls = 0, instructions = 0;
  std::uint64_t stream = 0;              // stream_hash() of its instructions; 0: not recorded
  PredictedTime predicted{};             // by the clock; 0: nobody asked
  std::uint64_t peak_bytes = 0;          // peak_bytes() of its calls
  std::vector<std::string> operators{};  // that it calls, each once
  bool loaded = false;                   // from a file

  std::size_t bytes() const { return sizeof(Executable) + key.bytes().size(); }
};

// A graph that had no executable, and in which field it differs from the nearest one there was.
struct GraphMiss {
  std::uint64_t calls = 0;
  std::string differs{};               // "call 3 (linear) input 1 size"; empty: there was none
  std::uint64_t given = 0, known = 0;  // the field's values, here and there
};

// A hash of instructions: operations, lanes, cost fields, and the order in which they wait for each
// other. Equal programs have equal hashes wherever in a run they are recorded.
inline std::uint64_t stream_hash(std::span<const neuroncore::Instruction> record) {
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

// The most bytes that results of calls take at once, if each result is freed after its last use.
// Storage that views share counts once; inputs of the graph do not count.
inline std::uint64_t peak_bytes(std::span<const RecordedCall> calls) {
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

class ExecutableCache {
 public:
  static constexpr std::size_t most_misses = 64;  // that are kept with their reasons

  explicit ExecutableCache(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  // nullptr: there is none. A pointer stays valid until the next add().
  const Executable* find(const GraphKey& key) {
    for (auto at = kept_.begin(); at != kept_.end(); ++at)
      if (at->key == key) {
        kept_.splice(kept_.begin(), kept_, at);
        ++hits_;
        if (at->loaded) ++loaded_hits_;
        return &kept_.front();
      }
    return nullptr;
  }
  // Why there is none for a key: by the executable that has the most of its beginning. `names` are
  // those of the key.
  GraphMiss reason_of_miss(const GraphKey& key, const GraphKey::Names& names,
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
  void count_compilation(GraphMiss miss) {
    ++compilations_;
    if (reasons_.size() < most_misses) reasons_.push_back(std::move(miss));
  }
  // Those that were not used for the longest time leave until there is room; the new one stays, and
  // is returned: valid until the next add().
  const Executable& add(Executable executable) {
    bytes_ += executable.bytes();
    kept_.push_front(std::move(executable));
    while (bytes_ > most_bytes_ && kept_.size() > 1) {
      bytes_ -= kept_.back().bytes();
      kept_.pop_back();
      ++evicted_;
    }
    return kept_.front();
  }

  const std::list<Executable>& executables() const { return kept_; }
  std::uint64_t hits() const { return hits_; }
  // The number of hits whose executable was loaded from a file.
  std::uint64_t loaded_hits() const { return loaded_hits_; }
  std::uint64_t compilations() const { return compilations_; }
  std::uint64_t evicted() const { return evicted_; }
  std::size_t bytes() const { return bytes_; }
  // The reasons for the first most_misses compilations.
  const std::vector<GraphMiss>& misses() const { return reasons_; }

 private:
  std::size_t most_bytes_, bytes_ = 0;
  std::list<Executable> kept_;  // the one used last in front
  std::vector<GraphMiss> reasons_;
  std::uint64_t hits_ = 0, loaded_hits_ = 0, compilations_ = 0, evicted_ = 0;
};

}  // namespace soma
