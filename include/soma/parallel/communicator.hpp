#pragma once
// Communicator: how the ranks of one training send bytes to each other. It is an abstract class:
// soma has one for threads of a process (in_process.hpp) and one over MPI (mpi.hpp), and a host
// with a transport of its own derives from it. Collectives (collectives.hpp) need nothing else.
//
// A host implements rank(), size(), abort(), and the four protected functions begin_send(),
// begin_receive(), poll(), cancel(). tests/parallel/socket_communicator.hpp is an example over
// sockets.

#include <soma/base/error.hpp>
#include <soma/runtime/stop_flag.hpp>
#include <soma/system/clock.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE {

class Communicator;
class GroupCommunicator;

// Tags distinguish messages between the same two ranks. The last two are reserved: a program uses
// smaller tags. (MPI guarantees no more than 32767.)
inline constexpr int max_tag = 32767;
inline constexpr int collective_tag = max_tag;
inline constexpr int barrier_tag = max_tag - 1;

// One message in transit. Movable, not copyable; it must end before its communicator. Destroying it
// before the message is complete cancels the message, so its buffer may be freed as well.
class Request {
 public:
  Request() = default;  // none: over
  Request(Request&& other) noexcept;
  Request& operator=(Request&& other) noexcept;
  ~Request();

  bool pending() const { return communicator_ != nullptr; }
  inline void cancel() noexcept;

 private:
  friend class Communicator;
  Request(Communicator& communicator, std::uint64_t number, int peer, int tag, bool receives);

  Communicator* communicator_ = nullptr;
  std::uint64_t number_ = 0;
  int peer_ = 0, tag_ = 0;
  bool receives_ = false;
};

// Used by one thread at a time. Messages with the same sender, receiver and tag arrive in the order
// in which they were started; others may be started and completed in any order. A message of any
// size, 0 included, is received into a buffer of exactly that size.
//
// No wait lasts forever: errors parallel.rank_lost (the other rank is gone), parallel.timeout (it
// did not answer within the time limit), parallel.message_size, and further errors of a transport.
// After an error the communicator is only good for abort(), which tells the other ranks.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;  // 0 ... size() - 1
  virtual int size() const = 0;

  // Gives up on behalf of all ranks: the others' waits end with parallel.rank_lost and the reason,
  // or their processes end. May not return.
  virtual void abort(std::string_view reason) = 0;

  // The buffer must stay unchanged (for a send) or unread (for a receive) until the request is
  // complete. Errors parallel.argument.
  Request start_send(int to, int tag, std::span<const std::byte> bytes);
  Request start_receive(int from, int tag, std::span<std::byte> bytes);

  // True if the message is complete; never waits. A send is complete when its buffer is free again.
  bool test(Request& request);
  // Waits until it is complete, but no longer than the time limit and give_up_after() allow. Errors
  // parallel.timeout, runtime.stopped.
  void wait(Request& request);

  void send(int to, int tag, std::span<const std::byte> bytes);
  void receive(int from, int tag, std::span<std::byte> bytes);
  // Sends and receives at once; the buffers must not overlap.
  void exchange(int peer, int tag, std::span<const std::byte> sent, std::span<std::byte> received);

  // Returns when every rank has called it. Any number of ranks, ceil(log2(size)) rounds: in each
  // round, a rank hears of twice as many ranks, through one twice as far away.
  SOMA_INLINE virtual void barrier();

  // The limit of one wait, in seconds; 0: no limit. Error parallel.argument.
  double time_limit() const;
  void set_time_limit(double seconds);

  // From now on a wait that lasts this number of seconds after the stop request ends with
  // runtime.stopped; the flag must outlive its use. nullptr: only the time limit ends waits.
  void give_up_after(const StopFlag* stop, double seconds);

 protected:
  Communicator() = default;

  // Starts to move bytes and returns at once, with a number that no other incomplete message has.
  // It must work whether or not the receiver has called begin_receive() yet.
  virtual std::uint64_t begin_send(int to, int tag, std::span<const std::byte> bytes) = 0;
  virtual std::uint64_t begin_receive(int from, int tag, std::span<std::byte> bytes) = 0;
  // Moves data of all messages as far as possible, and returns true if this message is complete;
  // then its number is forgotten. If it fails (lost(), wrong_size()), cancel() follows.
  virtual bool poll(std::uint64_t number) = 0;
  // Forgets an incomplete message: its buffer is not touched any more.
  virtual void cancel(std::uint64_t number) noexcept = 0;
  // Called between two polls of a wait; `round` counts them. May sleep until something arrives, but
  // not for much longer than a millisecond. The default first yields the core, then sleeps briefly.
  SOMA_INLINE virtual void idle(std::uint64_t round);

  // The errors of poll(): parallel.rank_lost and parallel.message_size.
  [[noreturn]] void lost(int lost_rank, std::string_view reason) const;
  [[noreturn]] void wrong_size(int from, int to, int tag, std::size_t sent,
                               std::size_t expected) const;
  // "the message from rank 0 to rank 3 with tag 7".
  static std::string name_of(int from, int to, int tag);

 private:
  friend class Request;
  friend class GroupCommunicator;  // parallel/group.hpp
  static constexpr double longest_limit = 1e9;

  void check(std::string_view operation, int peer, int tag) const;
  [[noreturn]] void timed_out(Request& request, std::int64_t waited);

  [[noreturn]] void given_up(Request& request);

  const StopFlag* stop_ = nullptr;
  std::int64_t stop_seen_ = 0;  // when a wait saw the request first; 0: not yet
  std::int64_t patience_ = 0;
  std::int64_t time_limit_ = 600'000'000'000;  // ten minutes: longer than any evaluation pause
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/parallel/impl/communicator.ipp>
#endif
