// One connection of a client. A request has to arrive within a time limit, however fast the client
// sends.
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
  // Why a read failed: time was up, the byte limit was reached, or the client sends no more.
  enum class Failure : unsigned char { none, deadline, limit, end };

  // The least number of bytes a second that a client has to read of an answer. A slow client gets
  // the whole answer, but no client holds a thread for ever.
  static constexpr std::size_t least_rate = std::size_t{1} << 16;
  // The size of the buffer of received bytes: room for the longest line of a request.
  static constexpr std::size_t buffer_bytes = std::size_t{1} << 16;

  // Owns the socket.
  Connection(int socket, std::chrono::milliseconds timeout) : socket_(socket), timeout_(timeout) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    if (linger_) read_to_the_end();
    ::close(socket_);
  }

  // True if there is something to read within the time; the end of the stream counts.
  bool wait(std::chrono::milliseconds time) const {
    return buffer_.size() > 0 || poll_for(POLLIN, Clock::now() + time);
  }
  // Begins the time limit of a request and the byte limit of its head.
  void begin_request(std::size_t bytes) {
    deadline_ = Clock::now() + timeout_;
    left_ = bytes;
  }
  // Begins the byte limit of the body; the request's time limit goes on.
  void begin_body(std::size_t bytes) { left_ = bytes; }
  Failure failure() const { return failure_; }
  // True if a read or a write failed. The next bytes then do not begin a request.
  bool broken() const { return broken_ || failure_ != Failure::none; }
  // Marks the connection as broken because a body was not read to the end.
  void give_up() { broken_ = true; }
  // Reads the client's remaining bytes before closing: closing with unread bytes would make the
  // system discard the answer.
  void linger() { linger_ = true; }

  // The received bytes that are not consumed yet, in one piece.
  boost::asio::const_buffer unread() const { return buffer_.cdata(); }
  void consume(std::size_t bytes) { buffer_.consume(bytes); }
  // Waits for more bytes. Returns false if none came: failure() says why, or is `none` if the
  // buffer is full.
  bool fill() {
    if (buffer_.size() == buffer_.max_size()) return false;
    return (failure_ = receive()) == Failure::none;
  }

  // Begins the time limit of an answer.
  void begin_answer() {
    answer_begin_ = Clock::now();
    sent_ = 0;
  }
  // Returns how many bytes of the buffers the client has taken; 0: the client takes no more.
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
      // The system accepts bytes into its own buffer and reports room only after much of the buffer
      // was sent. Therefore the time limit covers the whole answer instead of each piece.
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
