#pragma once
// The functions of in_process.hpp.

#include <soma/parallel/in_process.hpp>

#include <soma/base/error.hpp>
#include <soma/parallel/communicator.hpp>
#include <soma/system/threads.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE InProcessGroup::InProcessGroup(int ranks) {
  if (ranks < 1 || ranks > 4096)
    fail(error_id::parallel_argument, "InProcessGroup", "ranks", std::to_string(ranks),
         "1 to 4096");
  ranks_.resize(static_cast<std::size_t>(ranks));
}

SOMA_INLINE int InProcessGroup::size() const { return static_cast<int>(ranks_.size()); }

SOMA_INLINE bool InProcessGroup::Message::meets(const Message& other) const {
  return state == State::waiting && receives != other.receives && from == other.from &&
         to == other.to && tag == other.tag;
}

SOMA_INLINE void InProcessGroup::changed() {
  ++changes_;
  bell_.notify_all();
}

SOMA_INLINE void InProcessGroup::lose(int rank, std::string_view reason) {
  std::string& lost = ranks_[static_cast<std::size_t>(rank)].lost;
  if (lost.empty()) lost = reason;
  changed();
}

SOMA_INLINE InProcessCommunicator::InProcessCommunicator(InProcessGroup& group, int rank)
    : group_(group), rank_(rank) {
  if (rank < 0 || rank >= group.size())
    fail(error_id::parallel_argument, "InProcessCommunicator", "rank", std::to_string(rank),
         "below the group's " + std::to_string(group.size()));
  const Mutex::Lock lock(group_.mutex_);
  bool& taken = group_.ranks_[static_cast<std::size_t>(rank)].taken;
  if (taken)
    fail(error_id::parallel_argument, "InProcessCommunicator", "rank", std::to_string(rank),
         "a rank that has no communicator and had none");
  taken = true;
}

SOMA_INLINE InProcessCommunicator::~InProcessCommunicator() {
  const Mutex::Lock lock(group_.mutex_);
  group_.lose(rank_, "its communicator was destroyed");
}

SOMA_INLINE int InProcessCommunicator::size() const { return group_.size(); }

SOMA_INLINE void InProcessCommunicator::abort(std::string_view reason) {
  const Mutex::Lock lock(group_.mutex_);
  if (group_.broken_by_ < 0) group_.broken_by_ = rank_;
  group_.lose(rank_, reason.empty() ? "it gave up" : reason);
}

SOMA_INLINE std::uint64_t InProcessCommunicator::begin_send(int to, int tag,
                                                            std::span<const std::byte> bytes) {
  return begin({rank_, to, tag, false, bytes.data(), nullptr, bytes.size()});
}

SOMA_INLINE std::uint64_t InProcessCommunicator::begin_receive(int from, int tag,
                                                               std::span<std::byte> bytes) {
  return begin({from, rank_, tag, true, nullptr, bytes.data(), bytes.size()});
}

SOMA_INLINE bool InProcessCommunicator::poll(std::uint64_t number) {
  const Mutex::Lock lock(group_.mutex_);
  seen_ = group_.changes_;
  const auto found = group_.messages_.find(number);
  const Message message = found->second;
  if (message.state == State::over) {
    group_.messages_.erase(found);
    return true;
  }
  if (message.state == State::wrong_size)
    wrong_size(message.from, message.to, message.tag,
               message.receives ? message.other_bytes : message.bytes,
               message.receives ? message.bytes : message.other_bytes);
  if (message.state == State::waiting) check_alive(message.peer());
  return false;
}

SOMA_INLINE void InProcessCommunicator::cancel(std::uint64_t number) noexcept {
  Mutex::Lock lock(group_.mutex_);
  const auto found = group_.messages_.find(number);
  group_.bell_.wait(lock, [&] { return found->second.state != State::copying; });
  group_.messages_.erase(found);
}

SOMA_INLINE void InProcessCommunicator::idle(std::uint64_t round) {
  constexpr std::int64_t longest_sleep = 1'000'000;  // nanoseconds
  if (round < 20) return Communicator::idle(round);
  Mutex::Lock lock(group_.mutex_);
  if (group_.changes_ == seen_) group_.bell_.sleep_for(lock, longest_sleep);
}

SOMA_INLINE std::uint64_t InProcessCommunicator::begin(const Message& made) {
  Mutex::Lock lock(group_.mutex_);
  Message* other = nullptr;
  for (auto& [number, message] : group_.messages_)
    if (other == nullptr && message.meets(made)) other = &message;
  const std::uint64_t number = ++group_.last_number_;
  Message& own = group_.messages_.emplace(number, made).first->second;
  if (other == nullptr) return number;
  if (own.bytes != other->bytes) {
    own.other_bytes = other->bytes;
    other->other_bytes = own.bytes;
    own.state = other->state = State::wrong_size;
  } else {
    own.state = other->state = State::copying;
    lock.unlock();
    const Message& sent = own.receives ? *other : own;
    const Message& received = own.receives ? own : *other;
    if (own.bytes != 0) std::memcpy(received.target, sent.source, own.bytes);
    lock.lock();
    own.state = other->state = State::over;
  }
  group_.changed();
  return number;
}

SOMA_INLINE void InProcessCommunicator::check_alive(int peer) {
  const auto reason = [this](int rank) -> const std::string& {
    return group_.ranks_[static_cast<std::size_t>(rank)].lost;
  };
  if (group_.broken_by_ < 0 && !reason(peer).empty()) group_.broken_by_ = peer;
  if (group_.broken_by_ >= 0) lost(group_.broken_by_, reason(group_.broken_by_));
}

}  // namespace SOMA_NAMESPACE
