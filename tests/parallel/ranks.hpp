// Runs a function as every rank of a group, over either transport that needs no library.
#pragma once

#include <soma/parallel/in_process.hpp>
#include <soma/runtime/heap.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/socket.h>

#include "parallel/socket_communicator.hpp"

namespace soma_test {

enum class Transport { threads, sockets };

// sockets[a][b] is rank a's way to rank b.
inline std::vector<std::vector<int>> connect_all(int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<std::vector<int>> sockets(count, std::vector<int>(count, -1));
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = a + 1; b < count; ++b) {
      int pair[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) std::terminate();
      sockets[a][b] = pair[0];
      sockets[b][a] = pair[1];
    }
  return sockets;
}

// Calls function(communicator, heap) on a thread for each rank. Returns each rank's error message,
// or an empty text. A rank throws its failures (require() in checks.hpp), because Catch2 is for one
// thread. A wait lasts ten seconds at most.
template <class Function>
std::vector<std::string> run_ranks(Transport transport, int ranks, const Function& function) {
  soma::InProcessGroup group(ranks);
  std::vector<std::vector<int>> sockets;
  if (transport == Transport::sockets) sockets = connect_all(ranks);
  std::vector<std::string> messages(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto index = static_cast<std::size_t>(rank);
      try {
        soma::Heap heap(nullptr);
        std::unique_ptr<soma::Communicator> communicator;
        if (transport == Transport::threads)
          communicator = std::make_unique<soma::InProcessCommunicator>(group, rank);
        else
          communicator = std::make_unique<SocketCommunicator>(rank, sockets[index]);
        communicator->set_time_limit(10);
        function(*communicator, heap);
      } catch (const std::exception& error) {
        messages[index] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return messages;
}

}  // namespace soma_test
