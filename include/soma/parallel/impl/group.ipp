#pragma once
// The functions of group.hpp.

#include <soma/parallel/group.hpp>

#include <soma/parallel/communicator.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE GroupCommunicator::GroupCommunicator(Communicator& parent, std::vector<int> members)
    : parent_(parent), members_(std::move(members)) {
  const auto own = std::find(members_.begin(), members_.end(), parent.rank());
  std::vector<int> sorted = members_;
  std::sort(sorted.begin(), sorted.end());
  if (own == members_.end() || sorted.front() < 0 || sorted.back() >= parent.size() ||
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    fail(error_id::parallel_argument, "GroupCommunicator", "members",
         std::to_string(members_.size()) + " ranks",
         "different ranks of " + std::to_string(parent.size()) + ", " +
             std::to_string(parent.rank()) + " among them");
  rank_ = static_cast<int>(own - members_.begin());
  set_time_limit(parent.time_limit());
}

SOMA_INLINE int GroupCommunicator::size() const { return static_cast<int>(members_.size()); }

SOMA_INLINE void GroupCommunicator::abort(std::string_view reason) { parent_.abort(reason); }

SOMA_INLINE std::uint64_t GroupCommunicator::begin_send(int to, int tag,
                                                        std::span<const std::byte> bytes) {
  return parent_.begin_send(member(to), tag, bytes);
}

SOMA_INLINE std::uint64_t GroupCommunicator::begin_receive(int from, int tag,
                                                           std::span<std::byte> bytes) {
  return parent_.begin_receive(member(from), tag, bytes);
}

SOMA_INLINE bool GroupCommunicator::poll(std::uint64_t number) { return parent_.poll(number); }

SOMA_INLINE void GroupCommunicator::cancel(std::uint64_t number) noexcept {
  parent_.cancel(number);
}

SOMA_INLINE void GroupCommunicator::idle(std::uint64_t round) { parent_.idle(round); }

SOMA_INLINE int GroupCommunicator::member(int rank) const {
  return members_[static_cast<std::size_t>(rank)];
}

}  // namespace SOMA_NAMESPACE
