#pragma once
// Ranks that are threads of one process: for tests, for experiments, and for programs with one
// context per processor socket. A message is copied once, from the sender's buffer to the
// receiver's, when both have started: nothing is buffered between them.

#include <soma/base/error.hpp>
#include <soma/parallel/communicator.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace soma {

// The shared state of the ranks. Must outlive their communicators.
class InProcessGroup {
 public:
  // Error parallel.argument: the number of ranks is not 1 to 4096.
  explicit InProcessGroup(int ranks) {
    if (ranks < 1 || ranks > 4096)
      fail(error_id::parallel_argument, "InProcessGroup", "ranks", std::to_string(ranks),
           "1 to 4096");
    ranks_.resize(static_cast<std::size_t>(ranks));
  }
  InProcessGroup(const InProcessGroup&) = delete;
  InProcessGroup& operator=(const InProcessGroup&) = delete;

  int size() const { return static_cast<int>(ranks_.size()); }

 private:
  friend class InProcessCommunicator;

  enum class State : std::uint8_t { waiting, copying, over, wrong_size };
  struct Message {  // one side of it
    int from, to, tag;
    bool receives;
    const std::byte* source;  // for a sent message
    std::byte* target;        // for a received message
    std::size_t bytes;
    std::size_t other_bytes = 0;  // the other side's, if that is another number
    State state = State::waiting;

    int peer() const { return receives ? from : to; }
    bool meets(const Message& other) const {
      return state == State::waiting && receives != other.receives && from == other.from &&
             to == other.to && tag == other.tag;
    }
  };
  struct Rank {
    bool taken = false;
    std::string lost;  // why; empty: it is there, or yet to come
  };

  // The caller must hold the mutex.
  void changed() {
    ++changes_;
    bell_.notify_all();
  }
  void lose(int rank, std::string_view reason) {
    std::string& lost = ranks_[static_cast<std::size_t>(rank)].lost;
    if (lost.empty()) lost = reason;
    changed();
  }

  std::mutex mutex_;
  std::condition_variable bell_;
  std::uint64_t changes_ = 0, last_number_ = 0;
  std::map<std::uint64_t, Message> messages_;  // in the order in which they were started
  std::vector<Rank> ranks_;
  int broken_by_ = -1;  // the rank whose loss was noticed first: all others' waits name it
};

// Made and used by the rank's own thread. Other ranks may send to a rank that has no communicator
// yet. When a communicator is destroyed, ranks that still wait for it get parallel.rank_lost; and
// when one rank got that error, all get it.
class InProcessCommunicator final : public Communicator {
 public:
  // Error parallel.argument: no such rank, or it exists already.
  InProcessCommunicator(InProcessGroup& group, int rank) : group_(group), rank_(rank) {
    if (rank < 0 || rank >= group.size())
      fail(error_id::parallel_argument, "InProcessCommunicator", "rank", std::to_string(rank),
           "below the group's " + std::to_string(group.size()));
    const std::lock_guard lock(group_.mutex_);
    bool& taken = group_.ranks_[static_cast<std::size_t>(rank)].taken;
    if (taken)
      fail(error_id::parallel_argument, "InProcessCommunicator", "rank", std::to_string(rank),
           "a rank that has no communicator and had none");
    taken = true;
  }
  ~InProcessCommunicator() override {
    const std::lock_guard lock(group_.mutex_);
    group_.lose(rank_, "its communicator was destroyed");
  }

  int rank() const override { return rank_; }
  int size() const override { return group_.size(); }
  void abort(std::string_view reason) override {
    const std::lock_guard lock(group_.mutex_);
    if (group_.broken_by_ < 0) group_.broken_by_ = rank_;
    group_.lose(rank_, reason.empty() ? "it gave up" : reason);
  }

 protected:
  std::uint64_t begin_send(int to, int tag, std::span<const std::byte> bytes) override {
    return begin({rank_, to, tag, false, bytes.data(), nullptr, bytes.size()});
  }
  std::uint64_t begin_receive(int from, int tag, std::span<std::byte> bytes) override {
    return begin({from, rank_, tag, true, nullptr, bytes.data(), bytes.size()});
  }
  bool poll(std::uint64_t number) override {
    const std::lock_guard lock(group_.mutex_);
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
  void cancel(std::uint64_t number) noexcept override {
    std::unique_lock lock(group_.mutex_);
    const auto found = group_.messages_.find(number);
    group_.bell_.wait(lock, [&] { return found->second.state != State::copying; });
    group_.messages_.erase(found);
  }
  // Sleeps until something has changed since the last poll.
  void idle(std::uint64_t round) override {
    if (round < 20) return Communicator::idle(round);
    std::unique_lock lock(group_.mutex_);
    group_.bell_.wait_for(lock, std::chrono::milliseconds(1),
                          [this] { return group_.changes_ != seen_; });
  }

 private:
  using Message = InProcessGroup::Message;
  using State = InProcessGroup::State;

  // The second side to arrive copies, without holding the mutex.
  std::uint64_t begin(const Message& made) {
    std::unique_lock lock(group_.mutex_);
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
  void check_alive(int peer) {
    const auto reason = [this](int rank) -> const std::string& {
      return group_.ranks_[static_cast<std::size_t>(rank)].lost;
    };
    if (group_.broken_by_ < 0 && !reason(peer).empty()) group_.broken_by_ = peer;
    if (group_.broken_by_ >= 0) lost(group_.broken_by_, reason(group_.broken_by_));
  }

  InProcessGroup& group_;
  int rank_;
  std::uint64_t seen_ = 0;  // changes that the last poll knew of
};

}  // namespace soma
