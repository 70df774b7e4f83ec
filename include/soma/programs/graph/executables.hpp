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

namespace SOMA_NAMESPACE {

struct Executable {
  GraphKey key;
  std::uint64_t calls = 0, instructions = 0;
  std::uint64_t stream = 0;              // stream_hash() of its instructions; 0: not recorded
  PredictedTime predicted{};             // by the clock; 0: nobody asked
  std::uint64_t peak_bytes = 0;          // peak_bytes() of its calls
  std::vector<std::string> operators{};  // that it calls, each once
  bool loaded = false;                   // from a file

  std::size_t bytes() const;
};

// A graph that had no executable, and in which field it differs from the nearest one there was.
struct GraphMiss {
  std::uint64_t calls = 0;
  std::string differs{};               // "call 3 (linear) input 1 size"; empty: there was none
  std::uint64_t given = 0, known = 0;  // the field's values, here and there
};

// A hash of instructions: operations, lanes, cost fields, and the order in which they wait for each
// other. Equal programs have equal hashes wherever in a run they are recorded.
std::uint64_t stream_hash(std::span<const neuroncore::Instruction> record);

// The most bytes that results of calls take at once, if each result is freed after its last use.
// Storage that views share counts once; inputs of the graph do not count.
std::uint64_t peak_bytes(std::span<const RecordedCall> calls);

class ExecutableCache {
 public:
  static constexpr std::size_t most_misses = 64;  // that are kept with their reasons

  explicit ExecutableCache(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  // nullptr: there is none. A pointer stays valid until the next add().
  const Executable* find(const GraphKey& key);
  // Why there is none for a key: by the executable that has the most of its beginning. `names` are
  // those of the key.
  GraphMiss reason_of_miss(const GraphKey& key, const GraphKey::Names& names,
                           std::uint64_t calls) const;
  void count_compilation(GraphMiss miss);
  // Those that were not used for the longest time leave until there is room; the new one stays, and
  // is returned: valid until the next add().
  const Executable& add(Executable executable);

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

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/programs/graph/impl/executables.ipp>
#endif
