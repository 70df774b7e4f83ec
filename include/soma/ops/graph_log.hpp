#pragma once
// GraphLog: the calls that a device ran in graphs, in words, so that ranks can compare them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace soma {

class GraphLog {
 public:
  // Calls beyond these are part of hash() and not of calls().
  static constexpr std::size_t most_calls = 4096;
  struct Call {
    std::uint64_t graph = 0, number = 0;  // both from 1
    std::string words;
  };

  // Nothing is noted before this is asked for: words for each call cost time.
  void keep(bool on) {
    on_ = on;
    clear();
  }
  bool kept() const { return on_; }

  void begin_graph() {
    ++graph_;
    number_ = 0;
  }
  void add(std::string_view words) {
    ++number_;
    if (hash_ == 0) hash_ = 0xCBF29CE484222325u;  // FNV-1a
    const auto mix = [this](std::uint64_t value) { hash_ = (hash_ ^ value) * 0x100000001B3u; };
    mix(graph_);
    for (const char letter : words) mix(static_cast<unsigned char>(letter));
    if (calls_.size() < most_calls) calls_.push_back({graph_, number_, std::string(words)});
  }

  // The hash of all calls since the last clear(); 0: there were none.
  std::uint64_t hash() const { return hash_; }
  const std::vector<Call>& calls() const { return calls_; }
  void clear() {
    calls_.clear();
    graph_ = number_ = hash_ = 0;
  }

 private:
  bool on_ = false;
  std::uint64_t graph_ = 0, number_ = 0, hash_ = 0;
  std::vector<Call> calls_;
};

}  // namespace soma
