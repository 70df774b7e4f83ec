// One connection of a client, with a time for a request to arrive in, whatever its pace.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/flat_static_buffer.hpp>

class Connection {
 public:
  using Clock = std::chrono::steady_clock;
  // Why a read came to nothing: no time or no bytes were left, or the client sends no more.
  enum class Failure : unsigned char { none, deadline, limit, end };

  // Bytes a second that a client takes of an answer, at least: one that reads slowly gets all of
  // it, and none holds a thread for ever.
  static constexpr std::size_t least_rate = std::size_t{1} << 16;
  // What has come and is not consumed: room for the longest line of a request.
  static constexpr std::size_t buffer_bytes = std::size_t{1} << 16;

  // Owns the socket.
  Connection(int socket, std::chrono::milliseconds timeout) : socket_(socket), timeout_(timeout) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    if (linger_) read_to_the_end();
    ::close(socket_);
  }

  // Whether there is something to read within that time; the end of the stream is something.
  bool wait(std::chrono::milliseconds time) const {
    return buffer_.size() > 0 || poll_for(POLLIN, Clock::now() + time);
  }
  // Of the head of the request that begins now, as many bytes are read at most.
  void begin_request(std::size_t bytes) {
    deadline_ = Clock::now() + timeout_;
    left_ = bytes;
  }
  // And of its body, in the same time.
  void begin_body(std::size_t bytes) { left_ = bytes; }
  Failure failure() const { return failure_; }
  // Whether a read or a write came to nothing: what comes next is no beginning of a request.
  bool broken() const { return broken_ || failure_ != Failure::none; }
  // Of a request whose body was not read to the end, the same.
  void give_up() { broken_ = true; }
  // Closing with bytes that were not read takes the answer from the client: read them first.
  void linger() { linger_ = true; }

  // What has come and is not consumed, in one piece.
  boost::asio::const_buffer unread() const { return buffer_.cdata(); }
  void consume(std::size_t bytes) { buffer_.consume(bytes); }
  // Waits for more of it. False: failure() says why none came; nothing: there is no room for more.
  bool fill() {
    if (buffer_.size() == buffer_.max_size()) return false;
    return (failure_ = receive()) == Failure::none;
  }

  // Of the answer that begins now, all bytes have one time.
  void begin_answer() {
    answer_begin_ = Clock::now();
    sent_ = 0;
  }
  // How many bytes of the buffers the client has taken; 0: it takes no more.
  template <class Buffers>
  std::size_t write_some(const Buffers& buffers) {
    std::array<iovec, 16> pieces;
    msghdr message{};
    message.msg_iov = pieces.data();
    const auto end = boost::asio::buffer_sequence_end(buffers);
    for (auto at = boost::asio::buffer_sequence_begin(buffers);
         at != end && message.msg_iovlen < pieces.size(); ++at) {
      const boost::asio::const_buffer piece = *at;
      pieces[message.msg_iovlen++] = {const_cast<void*>(piece.data()), piece.size()};
    }
    while (true) {
      // What the system has taken for the client counts, and it asks for more only once much of
      // that is gone: the time is one for all, not one since the last piece.
      const std::chrono::milliseconds earned(sent_ * 1000 / least_rate);
      if (!poll_for(POLLOUT, answer_begin_ + timeout_ + earned)) break;
      const ssize_t count = ::sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0 && errno != EAGAIN && errno != EINTR) break;
      if (count <= 0) continue;
      sent_ += static_cast<std::size_t>(count);
      return static_cast<std::size_t>(count);
    }
    broken_ = true;
    return 0;
  }

 private:
  bool poll_for(short event, Clock::time_point until) const {
    while (true) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
      pollfd entry{socket_, event, 0};
      const int found = ::poll(&entry, 1, static_cast<int>((std::max)(left, decltype(left){0})));
      if (found >= 0 || errno != EINTR) return found > 0;
    }
  }
  Failure receive() {
    const std::size_t room = (std::min)(left_, buffer_.max_size() - buffer_.size());
    if (room == 0) return Failure::limit;
    const auto to = buffer_.prepare(room);
    while (poll_for(POLLIN, deadline_)) {
      const ssize_t count = ::recv(socket_, to.data(), to.size(), MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (count <= 0) return Failure::end;
      buffer_.commit(static_cast<std::size_t>(count));
      left_ -= static_cast<std::size_t>(count);
      return Failure::none;
    }
    return Failure::deadline;
  }
  void read_to_the_end() {
    ::shutdown(socket_, SHUT_WR);
    buffer_.clear();
    const auto rest = buffer_.prepare(buffer_.max_size());
    const auto until = Clock::now() + (std::min)(timeout_, std::chrono::milliseconds(1000));
    while (Clock::now() < until && poll_for(POLLIN, until))
      if (::recv(socket_, rest.data(), rest.size(), MSG_DONTWAIT) <= 0) return;
  }

  int socket_;
  std::chrono::milliseconds timeout_;
  Clock::time_point deadline_{}, answer_begin_{};
  boost::beast::flat_static_buffer<buffer_bytes> buffer_;
  std::size_t left_ = 0, sent_ = 0;
  Failure failure_ = Failure::none;
  bool broken_ = false, linger_ = false;
};
