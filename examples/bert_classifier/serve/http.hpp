// cpp-httplib's server with what it lacks: connections that wait cannot starve others, requests
// have a time to arrive in, and a stop answers whoever was accepted. For versions from 0.11 on.
#pragma once

#include "bert_classifier/serve/connection.hpp"

#include <soma/base/error.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>

// Error executor.thread_start.
template <class Work>
std::thread start_thread(Work work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::exception& error) {
    soma::fail(soma::error_id::thread_start, "serve", "thread", error.what(),
               "one more: fewer of them elsewhere, or more memory");
  }
}

class HttpServer final : public httplib::Server {
 public:
  struct Limits {
    std::chrono::milliseconds read_timeout;
    std::size_t head_bytes, body_bytes;  // of a request, as they are sent
  };

  // `expected` says of a request's head whether a handler reads its body to the end; after all
  // others the connection is closed. Error executor.thread_start.
  HttpServer(const Limits& limits, std::function<bool(const httplib::Request&)> expected)
      : limits_(limits), expected_(std::move(expected)), threads_(new Threads(*this)) {
    new_task_queue = [this] { return threads_.release(); };
    set_keep_alive_timeout(std::chrono::duration_cast<std::chrono::seconds>(keep_alive).count());
    set_keep_alive_max_count(1'000'000);  // for what answers say: there is no limit
    set_tcp_nodelay(true);
    // Two servers must not share a port, as the library's default has it.
    set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
  }

  // Of the request that the calling thread answers.
  static Connection& connection() { return *connection_; }

  // Clients can connect from now on. Returns the port that was taken. Error serve.port.
  int bind(const std::string& host, int port) {
    errno = 0;
    const int bound = port == 0 ? bind_to_any_port(host) : bind_to_port(host, port) ? port : -1;
    // Again with room for more clients than the library's 5.
    if (bound < 0 || ::listen(svr_sock_, backlog) != 0)
      soma::fail(
          soma::ErrorId{"serve.port"}, "serve", "--host " + host + " --port",
          std::to_string(port) + (errno == 0 ? "" : std::string(" (") + std::strerror(errno) + ")"),
          "an address of this machine and a port that is free");
    return bound;
  }

  // Accepts nothing more; listen_after_bind() returns when all is answered that was accepted.
  void finish() {
    if (stopping_.exchange(true)) return;
    // Those that have connected but are not accepted yet, however slow the machine; they are the
    // next in the queue, so no stream of new ones can put off the end.
    const std::int64_t last = accepted_ + backlog + 1;
    pollfd waiting{svr_sock_, POLLIN, 0};
    while (is_running() && accepted_ <= last && ::poll(&waiting, 1, 0) > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stop();
  }

 private:
  // A thread a connection. Where that is not enough, connections are closed after an answer.
  static constexpr std::size_t max_connections = 256;
  static constexpr int backlog = 512;  // connections that the system keeps until they are accepted
  static constexpr std::chrono::milliseconds keep_alive{15000}, look{50}, last_look{100};

  // Nothing until 0.15, then whether there was room.
  using Enqueued = decltype(std::declval<httplib::TaskQueue&>().enqueue({}));

  // Starts a thread where a connection has none. Where the system gives no more, connections wait
  // for those that it gave. What waits has its place from the beginning: no memory is asked for
  // where a connection would be lost without it.
  class Threads final : public httplib::TaskQueue {
   public:
    // With one thread. Error executor.thread_start.
    explicit Threads(HttpServer& server) : server_(server) {
      threads_.reserve(max_connections);
      threads_.push_back(start_thread([this] { work(); }));
    }
    ~Threads() override { shutdown(); }

    Enqueued enqueue(std::function<void()> serve) override {
      ++server_.accepted_;
      std::unique_lock lock(mutex_);
      room_.wait(lock, [&] { return count_ < waiting_.size(); });
      waiting_[(first_ + count_++) % waiting_.size()] = std::move(serve);
      ++connections_;
      grow();
      server_.crowded_ = connections_ > most_;
      some_.notify_one();
      return static_cast<Enqueued>(true);
    }
    void shutdown() override {
      {
        const std::lock_guard lock(mutex_);
        ended_ = true;
      }
      some_.notify_all();
      for (std::thread& thread : threads_) thread.join();
      threads_.clear();
    }

   private:
    // How many connections this process may have files for, with as many left for itself.
    static std::size_t descriptors() {
      rlimit limit{};
      if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return max_connections;
      return static_cast<std::size_t>((std::min)(rlim_t{max_connections}, limit.rlim_cur / 2));
    }
    // A thread for each connection, as far as the system gives them.
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
        const std::function<void()> serve = std::exchange(waiting_[first_], nullptr);
        first_ = (first_ + 1) % waiting_.size();
        --count_;
        lock.unlock();
        room_.notify_one();
        serve();
        lock.lock();
        server_.crowded_ = --connections_ > most_;
      }
    }

    HttpServer& server_;
    std::mutex mutex_;
    std::condition_variable some_, room_;
    std::array<std::function<void()>, backlog> waiting_;  // a ring
    std::size_t first_ = 0, count_ = 0;
    std::size_t connections_ = 0, most_ = descriptors();  // that have threads, or could have
    bool ended_ = false;
    std::vector<std::thread> threads_;
  };

  bool process_and_close_socket(socket_t socket) override {
    Connection connection(socket, limits_.read_timeout);
    connection_ = &connection;
    try {
      serve(connection);
    } catch (const std::exception&) {
      // There is no memory even to say so: the client sees the connection end.
    }
    return true;
  }
  void serve(Connection& connection) {
    bool last = false;
    while (!last && another(connection)) {
      connection.begin_request(limits_.head_bytes);
      bool asked_to_close = false, understood = false;
      const bool close = leave();
      const bool answered =
          process(*this, connection, close, asked_to_close, [&](httplib::Request& request) {
            connection.begin_body(limits_.body_bytes);
            // The library cuts every answer into ranges, as many as are asked for and of any
            // method. None of ours has parts, and a server may pass over the wish.
            request.ranges.clear();
            request.headers.erase("Range");
            understood = expected_(request);
            if (understood) return;
            request.headers.erase("Connection");
            request.headers.emplace("Connection", "close");  // the answer says so
          });
      if (!understood || connection.broken()) connection.linger();
      last = close || asked_to_close || !understood || !answered || connection.broken();
    }
  }

  // Since 0.18 the library wants to be told who is at either end; nobody here asks.
  template <class Server, class Setup>
  static bool process(Server& server, Connection& connection, bool close, bool& asked_to_close,
                      Setup setup) {
    if constexpr (requires { server.process_request(connection, close, asked_to_close, setup); })
      return server.process_request(connection, close, asked_to_close, setup);
    else
      return server.process_request(connection, {}, 0, {}, 0, close, asked_to_close, setup);
  }

  bool leave() const { return stopping_ || crowded_; }
  // Waits for a request to begin.
  bool another(const Connection& connection) const {
    for (auto waited = look; waited <= keep_alive; waited += look) {
      if (leave()) return connection.wait(last_look);
      if (connection.wait(look)) return true;
    }
    return false;
  }

  inline static thread_local Connection* connection_ = nullptr;
  Limits limits_;
  std::function<bool(const httplib::Request&)> expected_;
  std::atomic<bool> stopping_{false}, crowded_{false};
  std::atomic<std::int64_t> accepted_{0};
  std::unique_ptr<Threads> threads_;  // until the library has them
};
