#pragma once
// Communicator: how the ranks of one training send each other bytes. An abstract class: soma brings
// one for threads of a process (in_process.hpp) and one over MPI (mpi.hpp), and a host with a
// transport of its own derives from it. Collectives (collectives.hpp) need nothing else.
//
// What a host writes: rank(), size(), abort(), and the four protected functions begin_send(),
// begin_receive(), poll(), cancel(). tests/parallel/socket_communicator.hpp is one over sockets.

#include <soma/base/error.hpp>
#include <soma/runtime/clock.hpp>
#include <soma/runtime/stop_flag.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <sched.h>
#include <time.h>

namespace soma {

class Communicator;
class GroupCommunicator;

// Tags tell messages between the same two ranks apart. The last two are taken: a program uses those
// below. (MPI promises no more than 32767.)
inline constexpr int max_tag = 32767;
inline constexpr int collective_tag = max_tag;
inline constexpr int barrier_tag = max_tag - 1;

// One message on its way. Moved, never copied; it ends before its communicator. Destroyed before
// the message is over, it takes it back, so its buffer may go as well.
class Request {
 public:
  Request() = default;  // none: over
  Request(Request&& other) noexcept { *this = std::move(other); }
  Request& operator=(Request&& other) noexcept {
    std::swap(communicator_, other.communicator_);
    std::swap(number_, other.number_);
    std::swap(peer_, other.peer_);
    std::swap(tag_, other.tag_);
    std::swap(receives_, other.receives_);
    return *this;
  }
  ~Request() { cancel(); }

  bool pending() const { return communicator_ != nullptr; }
  inline void cancel() noexcept;

 private:
  friend class Communicator;
  Request(Communicator& communicator, std::uint64_t number, int peer, int tag, bool receives)
      : communicator_(&communicator),
        number_(number),
        peer_(peer),
        tag_(tag),
        receives_(receives) {}

  Communicator* communicator_ = nullptr;
  std::uint64_t number_ = 0;
  int peer_ = 0, tag_ = 0;
  bool receives_ = false;
};

// Used by one thread at a time. Messages with the same sender, receiver and tag arrive in the order
// in which they were started; others may be started and finished in any order. A message of any
// size, 0 included, is received into a buffer of exactly that size.
//
// Nothing waits for ever: errors parallel.rank_lost (the other rank is gone), parallel.timeout (it
// did not answer within the time limit), parallel.message_size, and what else a transport reports.
// After an error the communicator is of no use but for abort(), which tells the other ranks.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;  // 0 ... size() - 1
  virtual int size() const = 0;

  // Gives up for all: the others' waits end with parallel.rank_lost and the reason, or their
  // processes end. May not return.
  virtual void abort(std::string_view reason) = 0;

  // The buffer stays untouched (a sent one) or unread (a received one) until the request is over.
  // Errors parallel.argument.
  Request start_send(int to, int tag, std::span<const std::byte> bytes) {
    check("start_send", to, tag);
    return Request(*this, begin_send(to, tag, bytes), to, tag, false);
  }
  Request start_receive(int from, int tag, std::span<std::byte> bytes) {
    check("start_receive", from, tag);
    return Request(*this, begin_receive(from, tag, bytes), from, tag, true);
  }

  // Whether the message is over; never waits. A sent one is over when its buffer is free again.
  bool test(Request& request) {
    if (!request.pending()) return true;
    if (!poll(request.number_)) return false;
    request.communicator_ = nullptr;
    return true;
  }
  // Until it is over, but no longer than the time limit, and than give_up_after() allows. Errors
  // parallel.timeout, runtime.stopped.
  void wait(Request& request) {
    const std::int64_t start = monotonic_nanoseconds();
    for (std::uint64_t round = 0; !test(request); ++round) {
      const std::int64_t now = monotonic_nanoseconds();
      if (time_limit_ > 0 && now - start > time_limit_) timed_out(request, now - start);
      if (stop_ != nullptr && stop_->requested()) {
        if (stop_seen_ == 0) stop_seen_ = now;
        if (now - (std::max)(start, stop_seen_) >= patience_) given_up(request);
      }
      idle(round);
    }
  }

  void send(int to, int tag, std::span<const std::byte> bytes) {
    Request request = start_send(to, tag, bytes);
    wait(request);
  }
  void receive(int from, int tag, std::span<std::byte> bytes) {
    Request request = start_receive(from, tag, bytes);
    wait(request);
  }
  // Both ways at once; the buffers do not overlap.
  void exchange(int peer, int tag, std::span<const std::byte> sent, std::span<std::byte> received) {
    Request in = start_receive(peer, tag, received);
    Request out = start_send(peer, tag, sent);
    wait(in);
    wait(out);
  }

  // Returns when every rank has called it. Any number of ranks, ceil(log2(size)) rounds: in each a
  // rank hears, through one twice as far away, from twice as many.
  virtual void barrier() {
    for (int distance = 1; distance < size(); distance *= 2) {
      Request in = start_receive((rank() + size() - distance) % size(), barrier_tag, {});
      Request out = start_send((rank() + distance) % size(), barrier_tag, {});
      wait(in);
      wait(out);
    }
  }

  // How long one wait may last, in seconds; 0: for ever. Error parallel.argument.
  double time_limit() const { return static_cast<double>(time_limit_) * 1e-9; }
  void set_time_limit(double seconds) {
    if (!(seconds >= 0 && seconds <= longest_limit))
      fail(error_id::parallel_argument, "Communicator", "time_limit", "out of range",
           "0 (none) to 1000000000 seconds");
    time_limit_ = static_cast<std::int64_t>(std::ceil(seconds * 1e9));  // 0 would be for ever
  }

  // From now on a wait that goes on for so many seconds behind the request to stop ends with
  // runtime.stopped; the flag outlives its use. nullptr: only the time limit ends waits.
  void give_up_after(const StopFlag* stop, double seconds) {
    stop_ = stop;
    stop_seen_ = 0;
    patience_ = static_cast<std::int64_t>((std::min)(seconds, longest_limit) * 1e9);
  }

 protected:
  Communicator() = default;

  // Starts to move bytes and returns at once, with a number for the message that no other has while
  // it is not over. It must not matter whether the receiver has called begin_receive() yet.
  virtual std::uint64_t begin_send(int to, int tag, std::span<const std::byte> bytes) = 0;
  virtual std::uint64_t begin_receive(int from, int tag, std::span<std::byte> bytes) = 0;
  // Moves what can be moved, of all messages, and returns whether this one is over; then its number
  // is forgotten. Where it fails (lost(), wrong_size()), cancel() follows.
  virtual bool poll(std::uint64_t number) = 0;
  // Forgets a message that is not over: its buffer is not touched any more.
  virtual void cancel(std::uint64_t number) noexcept = 0;
  // Between two polls of a wait, of which this is the round-th: may sleep until something arrives,
  // but not for much longer than a millisecond. By default the core is given away at first, then
  // there are short sleeps.
  virtual void idle(std::uint64_t round) {
    constexpr std::uint64_t busy_rounds = 1000;  // some milliseconds: longer than most waits
    constexpr timespec nap{0, 50'000};
    if (round < busy_rounds)
      ::sched_yield();
    else
      ::nanosleep(&nap, nullptr);
  }

  // What poll() ends in: errors parallel.rank_lost and parallel.message_size.
  [[noreturn]] void lost(int lost_rank, std::string_view reason) const {
    fail(error_id::rank_lost, "Communicator", "rank " + std::to_string(lost_rank),
         "lost (" + std::string(reason) + ")",
         "alive as long as rank " + std::to_string(rank()) + " waits for messages");
  }
  [[noreturn]] void wrong_size(int from, int to, int tag, std::size_t sent,
                               std::size_t expected) const {
    fail(error_id::message_size, "Communicator", name_of(from, to, tag),
         std::to_string(sent) + " bytes",
         std::to_string(expected) + " bytes, as the receiver said");
  }
  // "the message from rank 0 to rank 3 with tag 7".
  static std::string name_of(int from, int to, int tag) {
    return "the message from rank " + std::to_string(from) + " to rank " + std::to_string(to) +
           " with tag " + std::to_string(tag);
  }

 private:
  friend class Request;
  friend class GroupCommunicator;  // parallel/group.hpp
  static constexpr double longest_limit = 1e9;

  void check(std::string_view operation, int peer, int tag) const {
    if (peer < 0 || peer >= size() || peer == rank())
      fail(error_id::parallel_argument, operation, "rank", std::to_string(peer),
           "one of " + std::to_string(size()) + ", and not this one, " + std::to_string(rank()));
    if (tag < 0 || tag > max_tag)
      fail(error_id::parallel_argument, operation, "tag", std::to_string(tag),
           "0 to " + std::to_string(max_tag));
  }
  [[noreturn]] void timed_out(Request& request, std::int64_t waited) {
    const int from = request.receives_ ? request.peer_ : rank();
    const int to = request.receives_ ? rank() : request.peer_;
    request.cancel();
    fail(error_id::parallel_timeout, "Communicator", name_of(from, to, request.tag_),
         "not over after " + std::to_string(waited / 1'000'000) + " ms",
         "a rank " + std::to_string(request.peer_) + " that answers within the time limit");
  }

  [[noreturn]] void given_up(Request& request) {
    const std::string name = name_of(request.receives_ ? request.peer_ : rank(),
                                     request.receives_ ? rank() : request.peer_, request.tag_);
    request.cancel();
    fail(error_id::stopped, "Communicator", name, "not over though a stop is requested",
         "a rank " + std::to_string(request.peer_) + " that comes to the end of its step");
  }

  const StopFlag* stop_ = nullptr;
  std::int64_t stop_seen_ = 0;  // when a wait saw the request first; 0: not yet
  std::int64_t patience_ = 0;
  std::int64_t time_limit_ = 600'000'000'000;  // ten minutes: longer than any evaluation pause
};

inline void Request::cancel() noexcept {
  if (communicator_ != nullptr) std::exchange(communicator_, nullptr)->cancel(number_);
}

}  // namespace soma
