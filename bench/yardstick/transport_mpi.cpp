// Measures processes as ranks, over MPI:
//
//   mpirun -n 2 build/release/bin/soma_transport_mpi
#include <soma/mpi.hpp>

#include <cstdio>
#include <exception>

#include "transport.hpp"

int main() {
  const soma::mpi::Environment environment;
  soma::mpi::Communicator communicator;
  try {
    soma::check_ranks(communicator.size(), 1024);
    if (communicator.size() > 1) yardstick::measure_transport(communicator, "mpi");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    communicator.abort(error.what());
  }
}
