// The same checks between processes. Run by mpi.sh under mpirun; the first argument says what:
//   checks   all that collectives_test.cpp checks; messages in pieces
//   errors   what MPI refuses is an error with its text
//   killed   rank 1 is killed in the middle
//   hung     rank 1 sleeps: the others' waits end after two seconds
//   thrown   rank 1 throws something while the others wait
#include <soma/mpi.hpp>

#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "parallel/checks.hpp"
#include "support/errors.hpp"

using namespace soma_test;

namespace {

// Texts of one line come out whole.
void say(const soma::Communicator& communicator, const std::string& text) {
  const std::string line = "rank " + std::to_string(communicator.rank()) + ": " + text + "\n";
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

void checks(soma::Communicator& communicator) {
  soma::Heap heap(nullptr);
  check_all(communicator, heap);
  soma::mpi::Communicator in_pieces({.piece_bytes = 1000});
  check_all(in_pieces, heap);
  for (const std::size_t count : {999u, 1000u, 1001u, 5000u}) {
    std::vector<std::byte> bytes(count);
    if (in_pieces.rank() == 0) bytes.back() = std::byte{7};
    soma::broadcast(in_pieces, bytes);
    require(bytes.back() == std::byte{7}, "a message in pieces");
  }
}

void errors(soma::Communicator& communicator) {
  const auto size_refused = [&](std::size_t sent, std::size_t expected, std::size_t piece) {
    soma::mpi::Communicator own({.piece_bytes = piece});
    std::vector<std::byte> bytes(5000);
    std::string id = "parallel.message_size";
    if (own.rank() == 0) own.send(1, 0, std::span(bytes).first(sent));
    if (own.rank() == 1) id = id_of([&] { own.receive(0, 0, std::span(bytes).first(expected)); });
    require(id == "parallel.message_size",
            std::to_string(sent) + " bytes for " + std::to_string(expected) + ": " + id);
  };
  size_refused(10, 11, 2000);
  size_refused(11, 10, 2000);
  size_refused(0, 1, 2000);
  size_refused(1999, 2001, 2000);
  size_refused(2001, 1999, 2000);
  size_refused(2000, 4000, 2000);
  size_refused(4000, 2000, 2000);
  require(id_of([] { soma::mpi::Communicator({.piece_bytes = 0}); }) == "parallel.argument",
          "pieces of 0 bytes");
  require(id_of([] { soma::mpi::Communicator({.group = MPI_COMM_NULL}); }) == "parallel.argument",
          "no group");
  const std::string message = message_of([] { soma::mpi::check("MPI_Test", MPI_ERR_RANK); });
  require(message.find("MPI_Test: result is \"MPI_ERR_RANK") == 0 &&
              message.find("[parallel.transport]") != std::string::npos,
          message);
  communicator.barrier();
}

// Adds repeatedly until something happens to rank 1. The error ends all ranks, as in a host. After
// an exception nothing else ends them: they wait for rank 1 without a limit.
void until_an_error(soma::Communicator& communicator, std::string_view what) {
  soma::Heap heap(nullptr);
  std::vector<float> values(100'000);
  if (what != "thrown") communicator.set_time_limit(2);
  for (int step = 0;; ++step) {
    if (step == 20 && communicator.rank() == 1) {
      say(communicator, "process " + std::to_string(::getpid()) + " is " + std::string(what));
      if (what == "killed") ::kill(::getpid(), SIGKILL);
      if (what == "hung") ::sleep(60);
      if (what == "thrown") throw std::runtime_error("rank 1 was out of luck");
    }
    soma::all_reduce(communicator, heap, values);
  }
}

int run(std::string_view what) {
  const char* given = std::getenv("OMPI_MCA_btl_tcp_flags");
  const std::string flags = given != nullptr ? given : "1";
  const soma::mpi::Environment environment;
  const soma::mpi::Environment again;  // the host's own: does nothing
  given = std::getenv("OMPI_MCA_btl_tcp_flags");
  soma::mpi::Communicator communicator;
  if (what == "thrown") until_an_error(communicator, what);
  try {
    require(given != nullptr && given == flags, "OMPI_MCA_btl_tcp_flags is not " + flags);
    if (what == "checks")
      checks(communicator);
    else if (what == "errors")
      errors(communicator);
    else
      until_an_error(communicator, what);
  } catch (const std::exception& error) {
    say(communicator, error.what());
    communicator.abort(error.what());
  }
  say(communicator, "all passed");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "checks");
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());  // stays in a buffer until the process ends
    return 1;
  }
}
