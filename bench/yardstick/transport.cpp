// Measures threads of one process as ranks:
//
//   build/release/bin/soma_transport [RANKS]
#include <soma/parallel/in_process.hpp>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "transport.hpp"

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  if (ranks < 2 || ranks > 64 || (ranks & (ranks - 1)) != 0) {
    std::fprintf(stderr, "usage: soma_transport [RANKS], a power of two from 2 to 64\n");
    return 2;
  }
  soma::InProcessGroup group(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&group, rank] {
      soma::InProcessCommunicator communicator(group, rank);
      yardstick::measure_transport(communicator, "in_process");
    });
  for (std::thread& thread : threads) thread.join();
}
