// One connection of a client, with a time for a request to arrive in, whatever its pace.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string_view>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

class Connection {
 public:
  using Clock = std::chrono::steady_clock;
  // Why a read came to nothing: no time or no bytes were left, or the client sends no more.
  enum class Failure : unsigned char { none, deadline, limit, end };

  // Bytes a second that a client takes of an answer, at least: one that reads slowly gets all of
  // it, and none holds a thread for ever.
  static constexpr std::size_t least_rate = std::size_t{1} << 16;

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
    return begin_ < end_ || poll_for(POLLIN, Clock::now() + time);
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

  // How many bytes have come, at most `size`; -1: failure() says why none.
  ssize_t read(char* to, std::size_t size) {
    if (begin_ == end_ && (failure_ = refill()) != Failure::none) return -1;
    const std::size_t count = (std::min)(size, end_ - begin_);
    std::memcpy(to, buffer_.data() + begin_, count);
    begin_ += count;
    return static_cast<ssize_t>(count);
  }
  // False: the client has not taken all of it.
  bool write(std::string_view bytes) {
    const auto begin = Clock::now() + timeout_;
    for (std::size_t done = 0; done < bytes.size();) {
      // What the system has taken for the client counts, and it asks for more only once much of
      // that is gone: the time is one for all, not one since the last piece.
      const std::chrono::milliseconds earned(done * 1000 / least_rate);
      if (!poll_for(POLLOUT, begin + earned)) return !(broken_ = true);
      const ssize_t count =
          ::send(socket_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0 && errno != EAGAIN && errno != EINTR) return !(broken_ = true);
      if (count > 0) done += static_cast<std::size_t>(count);
    }
    return true;
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
  Failure refill() {
    const std::size_t room = (std::min)(left_, buffer_.size());
    if (room == 0) return Failure::limit;
    while (poll_for(POLLIN, deadline_)) {
      const ssize_t count = ::recv(socket_, buffer_.data(), room, MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (count <= 0) return Failure::end;
      begin_ = 0;
      end_ = static_cast<std::size_t>(count);
      left_ -= end_;
      return Failure::none;
    }
    return Failure::deadline;
  }
  void read_to_the_end() {
    ::shutdown(socket_, SHUT_WR);
    const auto until = Clock::now() + (std::min)(timeout_, std::chrono::milliseconds(1000));
    while (Clock::now() < until && poll_for(POLLIN, until))
      if (::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT) <= 0) return;
  }

  int socket_;
  std::chrono::milliseconds timeout_;
  Clock::time_point deadline_{};
  std::array<char, 16384> buffer_{};
  std::size_t begin_ = 0, end_ = 0, left_ = 0;
  Failure failure_ = Failure::none;
  bool broken_ = false, linger_ = false;
};
