#pragma once
// Ranks that are threads of one process: for tests, for experiments, and for programs with one
// context per processor socket. A message is copied once, from the sender's buffer to the
// receiver's, when both have started: nothing is buffered between them.

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

// The shared state of the ranks. Must outlive their communicators.
class InProcessGroup {
 public:
  // Error parallel.argument: the number of ranks is not 1 to 4096.
  explicit InProcessGroup(int ranks);
  InProcessGroup(const InProcessGroup&) = delete;
  InProcessGroup& operator=(const InProcessGroup&) = delete;

  int size() const;

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
    bool meets(const Message& other) const;
  };
  struct Rank {
    bool taken = false;
    std::string lost;  // why; empty: it is there, or yet to come
  };

  // The caller must hold the mutex.
  void changed();
  void lose(int rank, std::string_view reason);

  Mutex mutex_;
  Condition bell_;
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
  InProcessCommunicator(InProcessGroup& group, int rank);
  SOMA_INLINE ~InProcessCommunicator() override;

  int rank() const override { return rank_; }
  SOMA_INLINE int size() const override;
  SOMA_INLINE void abort(std::string_view reason) override;

 protected:
  SOMA_INLINE std::uint64_t begin_send(int to, int tag, std::span<const std::byte> bytes) override;
  SOMA_INLINE std::uint64_t begin_receive(int from, int tag, std::span<std::byte> bytes) override;
  SOMA_INLINE bool poll(std::uint64_t number) override;
  SOMA_INLINE void cancel(std::uint64_t number) noexcept override;
  // Sleeps until something has changed since the last poll.
  SOMA_INLINE void idle(std::uint64_t round) override;

 private:
  using Message = InProcessGroup::Message;
  using State = InProcessGroup::State;

  // The second side to arrive copies, without holding the mutex.
  std::uint64_t begin(const Message& made);
  void check_alive(int peer);

  InProcessGroup& group_;
  int rank_;
  std::uint64_t seen_ = 0;  // changes that the last poll knew of
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/parallel/impl/in_process.ipp>
#endif
