// cpp-httplib's server with what it lacks: connections that wait cannot starve others, requests
// have a time to arrive in, and a stop answers whoever was accepted. For versions from 0.11 on.
#pragma once

#include "serve_connection.hpp"

#include <soma/base/error.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>

class HttpServer final : public httplib::Server {
 public:
  // `expected` says of a request's head whether a handler reads its body to the end; after all
  // others the connection is closed. A request has at most `max_bytes`, head and all.
  HttpServer(std::chrono::milliseconds read_timeout, std::size_t max_bytes,
             std::function<bool(const httplib::Request&)> expected)
      : read_timeout_(read_timeout), max_bytes_(max_bytes), expected_(std::move(expected)) {
    new_task_queue = [this] { return new Threads(*this); };
    set_tcp_nodelay(true);
    // Two servers must not share a port, as the library's default has it.
    set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
  }

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

  // Counts the connections, and those that no thread has.
  class Threads final : public httplib::TaskQueue {
   public:
    explicit Threads(HttpServer& server) : server_(server) {}
    Enqueued enqueue(std::function<void()> serve) override {
      ++server_.accepted_;
      ++server_.queued_;
      return pool_.enqueue([this, serve = std::move(serve)] {
        --server_.queued_;
        serve();
      });
    }
    void shutdown() override { pool_.shutdown(); }

   private:
    HttpServer& server_;
    httplib::ThreadPool pool_{max_connections};
  };

  bool process_and_close_socket(socket_t socket) override {
    Connection connection(socket, read_timeout_);
    bool last = false;
    while (!last && another(connection)) {
      connection.begin_request(max_bytes_);
      bool asked_to_close = false, understood = false;
      const bool close = leave();
      const bool answered =
          process(*this, connection, close, asked_to_close, [&](httplib::Request& request) {
            understood = expected_(request);
            if (understood) return;
            request.headers.erase("Connection");
            request.headers.emplace("Connection", "close");  // the answer says so
          });
      if (!understood || connection.broken()) connection.linger();
      last = close || asked_to_close || !understood || !answered || connection.broken();
    }
    return true;
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

  bool leave() const { return stopping_ || queued_ > 0; }
  // Waits for a request to begin.
  bool another(const Connection& connection) const {
    for (auto waited = look; waited <= keep_alive; waited += look) {
      if (leave()) return connection.wait(last_look);
      if (connection.wait(look)) return true;
    }
    return false;
  }

  std::chrono::milliseconds read_timeout_;
  std::size_t max_bytes_;
  std::function<bool(const httplib::Request&)> expected_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> queued_{0};
  std::atomic<std::int64_t> accepted_{0};
};
