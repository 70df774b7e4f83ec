// An HTTP server on the system's sockets: waiting connections cannot starve others, requests have a
// time limit, and a stop still answers every accepted connection.
#pragma once

#include "bert_classifier/serve/connection.hpp"
#include "bert_classifier/serve/message.hpp"

#include <soma/base/error.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

// Error executor.thread_start.
template <class Work>
std::thread start_thread(Work work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::exception& error) {
    soma::fail(soma::error_id::thread_start, "serve", "thread", error.what(),
               "one more thread: use fewer threads elsewhere, or more memory");
  }
}

class HttpServer {
 public:
  struct Limits {
    std::chrono::milliseconds read_timeout;
    std::size_t head_bytes, body_bytes;  // limits for a request, as it is sent
  };
  // Called by the threads of connections, concurrently.
  struct Handlers {
    // True if answer() reads the whole body of a request with this head; after any other request
    // the connection is closed.
    std::function<bool(const Request&)> expected;
    std::function<void(Connection&, Request&, Response&)> answer;
    // Answers a request whose head could not be read.
    std::function<void(const Connection&, const Request&, int status, Response&)> refuse;
  };

  // Error executor.thread_start.
  HttpServer(const Limits& limits, Handlers handlers)
      : limits_(limits), handlers_(std::move(handlers)), threads_(*this) {}
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer() {
    if (socket_ >= 0) ::close(socket_);
  }

  // Clients can connect from now on. Returns the port. Error serve.port.
  int bind(const std::string& host, int port) {
    addrinfo wanted{};
    wanted.ai_family = AF_UNSPEC;
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    errno = 0;
    if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) == 0) {
      for (const addrinfo* at = found; at != nullptr && socket_ < 0; at = at->ai_next)
        socket_ = open_socket(*at);
      ::freeaddrinfo(found);
    }
    if (socket_ < 0)
      soma::fail(
          soma::ErrorId{"serve.port"}, "serve", "--host " + host + " --port",
          std::to_string(port) + (errno == 0 ? "" : std::string(" (") + std::strerror(errno) + ")"),
          "an address of this machine and a port that is free");
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &size);
    return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(own).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(own).sin_port);
  }

  // Accepts connections until stop(); returns when every accepted connection is answered, even if
  // the system takes the port away.
  template <class Stop>
  void listen(const Stop& stop) {
    while (!stop() && accept_next(look) != Accepted::never) {
    }
    stopping_ = true;
    // Connections that were made but not accepted yet, however slow the machine is; they are next
    // in the queue, so a stream of new connections cannot delay the end.
    for (int left = backlog + 1; left > 0 && can_accept(std::chrono::milliseconds(0));) {
      const Accepted accepted = accept_next(std::chrono::milliseconds(0));
      if (accepted == Accepted::never) break;
      left -= accepted == Accepted::one ? 1 : 0;
    }
    ::close(std::exchange(socket_, -1));
    threads_.finish();
  }

 private:
  // One thread for each connection. If that is not enough, connections are closed after an answer.
  static constexpr std::size_t max_connections = 256;
  static constexpr int backlog = 512;  // connections that the system queues before accept()
  static constexpr std::chrono::milliseconds keep_alive{15000}, look{50}, last_look{100};

  // Starts a thread for a connection without one. If the system gives no more threads, connections
  // wait for the existing ones. The room for waiting connections is reserved from the beginning,
  // because a connection must not be lost for lack of memory.
  class Threads {
   public:
    // Starts with one thread. Error executor.thread_start.
    explicit Threads(HttpServer& server) : server_(server) {
      threads_.reserve(max_connections);
      threads_.push_back(start_thread([this] { work(); }));
    }
    ~Threads() { finish(); }
    Threads(const Threads&) = delete;
    Threads& operator=(const Threads&) = delete;

    // Waits until the queue has room.
    void serve(int socket) {
      std::unique_lock lock(mutex_);
      room_.wait(lock, [&] { return count_ < waiting_.size(); });
      waiting_[(first_ + count_++) % waiting_.size()] = socket;
      ++connections_;
      grow();
      server_.crowded_ = connections_ > most_;
      some_.notify_one();
    }
    // Returns when all connections have been served.
    void finish() {
      {
        const std::lock_guard lock(mutex_);
        ended_ = true;
      }
      some_.notify_all();
      for (std::thread& thread : threads_) thread.join();
      threads_.clear();
    }

   private:
    // The number of connections for which this process may have descriptors, with as many left for
    // other uses.
    static std::size_t descriptors() {
      rlimit limit{};
      if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return max_connections;
      return static_cast<std::size_t>((std::min)(rlim_t{max_connections}, limit.rlim_cur / 2));
    }
    // Starts a thread for each connection, as far as the system allows.
    void grow() {
      try {
        while (threads_.size() < (std::min)(connections_, max_connections))
          threads_.push_back(std::thread([this] { work(); }));
        most_ = descriptors();
      } catch (const std::exception&) {
        most_ = threads_.size();
      }
    }
    void work() {
      std::unique_lock lock(mutex_);
      while (true) {
        some_.wait(lock, [&] { return count_ > 0 || ended_; });
        if (count_ == 0) return;
        const int socket = waiting_[first_];
        first_ = (first_ + 1) % waiting_.size();
        --count_;
        lock.unlock();
        room_.notify_one();
        server_.serve(socket);
        lock.lock();
        server_.crowded_ = --connections_ > most_;
      }
    }

    HttpServer& server_;
    std::mutex mutex_;
    std::condition_variable some_, room_;
    std::array<int, backlog> waiting_{};  // a ring of sockets
    std::size_t first_ = 0, count_ = 0;
    std::size_t connections_ = 0, most_ = descriptors();  // open connections, and their limit
    bool ended_ = false;
    std::vector<std::thread> threads_;
  };

  // Returns -1, with errno, if it fails.
  static int open_socket(const addrinfo& address) {
    const int socket =
        ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol);
    if (socket < 0) return -1;
    const int yes = 1, no = 0;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (address.ai_family == AF_INET6)
      ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (::bind(socket, address.ai_addr, address.ai_addrlen) == 0 && ::listen(socket, backlog) == 0)
      return socket;
    const int number = errno;
    ::close(socket);
    errno = number;
    return -1;
  }

  bool can_accept(std::chrono::milliseconds time) const {
    pollfd entry{socket_, POLLIN, 0};
    return ::poll(&entry, 1, static_cast<int>(time.count())) > 0;
  }
  // Waits this long for a connection. `never`: the port is closed.
  enum class Accepted : unsigned char { one, none, never };
  Accepted accept_next(std::chrono::milliseconds time) {
    if (!can_accept(time)) return Accepted::none;
    const int client = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client >= 0) {
      const int yes = 1;
      ::setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      threads_.serve(client);
      return Accepted::one;
    }
    switch (errno) {
      case EBADF:
      case EINVAL:
      case ENOTSOCK:
      case EOPNOTSUPP:
        return Accepted::never;
      default:  // no descriptor or memory now, or the client has left
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return Accepted::none;
    }
  }

  void serve(int socket) {
    Connection connection(socket, limits_.read_timeout);
    try {
      while (another(connection) && answer_one(connection)) {
      }
    } catch (const std::exception&) {
      // There is no memory even to report it: the client sees the connection end.
    }
  }
  // Returns true if the connection continues.
  bool answer_one(Connection& connection) {
    connection.begin_request(limits_.head_bytes);
    const bool close = leave();
    Request request(connection);
    Response response;
    if (const int status = request.read_head(); status != 0) {
      connection.linger();
      if (connection.failure() == Connection::Failure::end) return false;
      handlers_.refuse(connection, request, status, response);
      return send(connection, response, true, true);
    }
    connection.begin_body(limits_.body_bytes);
    const bool understood = handlers_.expected(request);
    handlers_.answer(connection, request, response);
    if (!understood || connection.broken()) connection.linger();
    const bool last = close || !understood || connection.broken() || !request.keep_alive();
    return send(connection, response, request.method() != http::verb::head, last);
  }
  // Returns true if the connection continues: for the keep-alive time, and for any number of
  // requests.
  static bool send(Connection& connection, Response& response, bool with_body, bool last) {
    constexpr auto idle = std::chrono::duration_cast<std::chrono::seconds>(keep_alive);
    response.set(http::field::connection, last ? "close" : "keep-alive");
    if (!last)
      response.set(http::field::keep_alive,
                   "timeout=" + std::to_string(idle.count()) + ", max=1000000");
    response.prepare_payload();
    return write_message(connection, response, with_body) && !last;
  }

  bool leave() const { return stopping_ || crowded_; }
  // Waits for the begin of a request.
  bool another(const Connection& connection) const {
    for (auto waited = look; waited <= keep_alive; waited += look) {
      if (leave()) return connection.wait(last_look);
      if (connection.wait(look)) return true;
    }
    return false;
  }

  Limits limits_;
  Handlers handlers_;
  int socket_ = -1;
  std::atomic<bool> stopping_{false}, crowded_{false};
  Threads threads_;  // last member: the threads use all other members
};
