#pragma once
// GraphLog: the calls that a device ran in graphs, in words, so that ranks can compare them.

#include <soma/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

class GraphLog {
 public:
  // Calls beyond these are part of hash() and not of calls().
  static constexpr std::size_t most_calls = 4096;
  struct Call {
    std::uint64_t graph = 0, number = 0;  // both from 1
    std::string words;
  };

  // Nothing is noted before this is asked for: words for each call cost time.
  void keep(bool on);
  bool kept() const { return on_; }

  void begin_graph();
  void add(std::string_view words);

  // The hash of all calls since the last clear(); 0: there were none.
  std::uint64_t hash() const { return hash_; }
  const std::vector<Call>& calls() const { return calls_; }
  void clear();

 private:
  bool on_ = false;
  std::uint64_t graph_ = 0, number_ = 0, hash_ = 0;
  std::vector<Call> calls_;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/impl/graph_log.ipp>
#endif
