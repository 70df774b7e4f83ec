// Messages between two ranks, and what happens when one of them is gone or hangs.
#include <soma/parallel.hpp>
#include <soma/parallel/in_process.hpp>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "catch.hpp"
#include "parallel/checks.hpp"
#include "parallel/ranks.hpp"
#include "support/errors.hpp"

using namespace soma_test;

namespace {

std::array<std::byte, 4> four{};

bool says(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a rank that ends makes the others' waits end, and is named", "[communicator]") {
  const auto transport = GENERATE(Transport::threads, Transport::sockets);
  const auto messages = run_ranks(transport, 4, [](soma::Communicator& c, soma::Heap& heap) {
    std::vector<float> values(50'000);
    soma::all_reduce(c, heap, values);
    if (c.rank() == 2) return;  // its communicator goes
    soma::all_reduce(c, heap, values);
  });
  CHECK(messages[2].empty());
  CHECK(says(messages[3], "rank 2 is lost"));  // which talks to it first
  for (const std::size_t rank : {0u, 1u, 3u}) CHECK(says(messages[rank], "[parallel.rank_lost]"));
}

TEST_CASE("in a process all ranks name the one that was lost first", "[communicator]") {
  const auto messages =
      run_ranks(Transport::threads, 8, [](soma::Communicator& c, soma::Heap& heap) {
        if (c.rank() == 5) c.abort("the disk is full");
        std::vector<float> values(50'000);
        soma::all_reduce(c, heap, values);
      });
  for (std::size_t rank = 0; rank < 8; ++rank)
    CHECK(says(messages[rank], "rank 5 is lost (the disk is full)"));
}

TEST_CASE("a process that is killed is lost to the others", "[communicator]") {
  std::vector<std::vector<int>> sockets = connect_all(2);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(sockets[0][1]);
    try {
      SocketCommunicator communicator(1, sockets[1]);
      communicator.send(0, 1, four);
      communicator.receive(0, 1, four);
    } catch (...) {
    }
    ::_exit(0);
  }
  ::close(sockets[1][0]);
  SocketCommunicator communicator(0, sockets[0]);
  communicator.set_time_limit(10);
  communicator.receive(1, 1, four);
  REQUIRE(::kill(child, SIGKILL) == 0);
  CHECK(id_of([&] { communicator.receive(1, 1, four); }) == "parallel.rank_lost");
  CHECK(id_of([&] { communicator.send(1, 1, four); }) == "parallel.rank_lost");
  REQUIRE(::waitpid(child, nullptr, 0) == child);
}

TEST_CASE("a rank that hangs is an error after the time limit, by name", "[communicator]") {
  const auto transport = GENERATE(Transport::threads, Transport::sockets);
  const auto messages = run_ranks(transport, 2, [](soma::Communicator& c, soma::Heap&) {
    if (c.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      return;
    }
    c.set_time_limit(0.05);
    require(c.time_limit() == 0.05, "time limit");
    c.receive(1, 7, four);
  });
  CHECK(says(messages[0], "the message from rank 1 to rank 0 with tag 7 is not over after"));
  CHECK(says(messages[0], "[parallel.timeout]"));
}

TEST_CASE("a message that was taken back does not touch its buffer", "[communicator]") {
  const auto transport = GENERATE(Transport::threads, Transport::sockets);
  const auto messages = run_ranks(transport, 2, [](soma::Communicator& c, soma::Heap&) {
    std::array<std::byte, 4> first{}, second{};
    const std::array<std::byte, 4> sent{std::byte{9}};
    if (c.rank() == 0) {
      { const soma::Request request = c.start_receive(1, 7, first); }
      c.barrier();
      c.receive(1, 7, second);
      if (first[0] != std::byte{0} || second[0] != std::byte{9}) throw std::runtime_error("bytes");
    } else {
      c.barrier();
      c.send(0, 7, sent);
    }
  });
  CHECK(messages == std::vector<std::string>(2));
}

TEST_CASE("a message of another size is refused", "[communicator]") {
  const auto transport = GENERATE(Transport::threads, Transport::sockets);
  const auto messages = run_ranks(transport, 2, [](soma::Communicator& c, soma::Heap&) {
    std::array<std::byte, 3> three{};
    if (c.rank() == 0)
      c.send(1, 0, four);
    else
      c.receive(0, 0, three);
  });
  CHECK(messages[1] ==
        "Communicator: the message from rank 0 to rank 1 with tag 0 is 4 bytes, wanted 3 bytes, as "
        "the receiver said [parallel.message_size]");
}

TEST_CASE("ranks, tags and limits outside their range are refused", "[communicator]") {
  soma::InProcessGroup group(2);
  std::optional<soma::InProcessCommunicator> made;
  made.emplace(group, 0);
  soma::Communicator& c = *made;
  const auto refused = [](auto&& action) { return id_of(action) == "parallel.argument"; };
  CHECK(refused([&] { c.send(0, 0, four); }));
  CHECK(refused([&] { c.send(2, 0, four); }));
  CHECK(refused([&] { c.receive(-1, 0, four); }));
  CHECK(refused([&] { c.receive(1, -1, four); }));
  CHECK(refused([&] { c.receive(1, soma::max_tag + 1, four); }));
  CHECK(refused([&] { c.set_time_limit(-1); }));
  CHECK(refused([&] { c.set_time_limit(0.0 / 0.0); }));
  c.set_time_limit(1e-10);
  CHECK(c.time_limit() > 0);  // 0 is for ever
  CHECK(refused([&] { soma::broadcast(c, four, 2); }));
  CHECK(refused([&] { soma::InProcessGroup(0); }));
  CHECK(refused([&] { soma::InProcessCommunicator(group, 2); }));
  CHECK(refused([&] { soma::InProcessCommunicator(group, 0); }));
}
