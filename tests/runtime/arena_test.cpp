// Arena: scopes give back, the second time round nothing is allocated, failure leaves it as it was.

#include <soma/runtime/arena.hpp>

#include "catch.hpp"

#include <csignal>
#include <cstdint>
#include <cstring>

#include <sys/wait.h>
#include <unistd.h>

using namespace soma;

TEST_CASE("blocks are aligned, distinct and given back by scope", "[unit]") {
  CountingResource memory(std::pmr::new_delete_resource());
  Arena arena(memory);
  {
    const Arena::Scope outer = arena.scope();
    const auto a = arena.allocate<float>(10);
    CHECK(a.size() == 10);
    CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % memory_alignment == 0);
    CHECK(arena.bytes_in_use() == 64);
    {
      const Arena::Scope inner = arena.scope();
      const auto b = arena.allocate<char>(65);
      CHECK(reinterpret_cast<const char*>(a.data() + 10) <= b.data());
      CHECK(arena.bytes_in_use() == 192);
      std::memset(b.data(), 1, b.size());
    }
    CHECK(arena.bytes_in_use() == 64);
    CHECK(arena.allocate<int>(0).empty());
  }
  CHECK(arena.bytes_in_use() == 0);
  CHECK(arena.high_water() == 192);
}

TEST_CASE("a step no larger than any before allocates nothing", "[unit]") {
  CountingResource memory(std::pmr::new_delete_resource());
  {
    Arena arena(memory);
    const auto step = [&](std::size_t size) {
      const Arena::Scope scope = arena.scope();
      for (int part = 0; part < 20; ++part) {
        const Arena::Scope inner = arena.scope();
        std::memset(arena.allocate<std::byte>(size).data(), part, size);
        std::memset(arena.allocate<std::byte>(size / 2).data(), part, size / 2);
      }
      arena.allocate<std::byte>(3 * size);
    };
    step(100000);
    step(100000);  // the blocks of the first become one
    const auto allocations = memory.use().allocations;
    step(100000);
    step(99999);
    step(2);
    CHECK(memory.use().allocations == allocations);
    CHECK(arena.capacity() >= arena.high_water());
    step(1000000);
    CHECK(memory.use().allocations > allocations);
  }
  CHECK(memory.use().bytes_in_use == 0);
}

TEST_CASE("reserved memory is enough", "[unit]") {
  CountingResource memory(std::pmr::new_delete_resource());
  Arena arena(memory);
  arena.reserve(1 << 20);
  const auto allocations = memory.use().allocations;
  const Arena::Scope scope = arena.scope();
  arena.allocate<std::byte>(1 << 20);
  CHECK(memory.use().allocations == allocations);
}

TEST_CASE("a broken contract ends the program", "[unit]") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // the test framework's handler would report it
    CountingResource memory(std::pmr::new_delete_resource());
    Arena arena(memory);
    arena.allocate<int>(1);
    arena.reserve(1000);  // while something is taken
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
}

TEST_CASE("what cannot be allocated is an error and the arena goes on", "[unit]") {
  CountingResource nothing(std::pmr::null_memory_resource());
  Arena empty(nothing);
  try {
    empty.allocate<float>(1);
    FAIL("allocated");
  } catch (const Error& error) {
    CHECK(error.id() == error_id::out_of_memory);
  }
  CountingResource memory(std::pmr::new_delete_resource());
  Arena arena(memory);
  const auto first = arena.allocate<int>(1);
  first[0] = 7;
  try {
    arena.allocate<double>(~std::size_t{0} / 4);
    FAIL("allocated");
  } catch (const Error& error) {
    CHECK(error.id() == error_id::size_overflow);
  }
  CHECK(arena.bytes_in_use() == 64);
  CHECK(first[0] == 7);
  CHECK(arena.allocate<int>(4).size() == 4);
}
