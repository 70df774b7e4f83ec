// Threads, and what they wait with.
#include <soma/system/clock.hpp>
#include <soma/system/machine.hpp>
#include <soma/system/process.hpp>
#include <soma/system/threads.hpp>

#include "catch.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace {

namespace system = soma::system;

// Uses nearly all of the least stack that a thread may count on.
void* use_stack(void* result) {
  volatile char bytes[system::Thread::least_stack - (std::size_t{1} << 16)];
  for (std::size_t i = 0; i < sizeof bytes; i += 512) bytes[i] = static_cast<char>(i / 512);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < sizeof bytes; i += 512)
    sum += static_cast<unsigned char>(bytes[i]) == (i / 512) % 256 ? 1 : 0;
  *static_cast<std::uint64_t*>(result) = sum;
  return nullptr;
}

}  // namespace

TEST_CASE("a thread has its stack", "[unit][system]") {
  std::uint64_t sum = 0;
  system::Thread thread;
  REQUIRE(thread.start(&use_stack, &sum) == 0);
  thread.join();
  CHECK(sum == (system::Thread::least_stack - (std::size_t{1} << 16)) / 512);
}

TEST_CASE("threads have different numbers, and know themselves", "[unit][system]") {
  struct Shared {
    system::Thread thread{};
    std::atomic<bool> ready{false};
    std::uintptr_t number = 0;
    bool own = false;
  } shared;
  const auto work = [](void* argument) -> void* {
    auto& own = *static_cast<Shared*>(argument);
    while (!own.ready.load()) system::yield();
    own.number = system::this_thread();
    own.own = own.thread.is_this();
    return nullptr;
  };
  REQUIRE(shared.thread.start(work, &shared) == 0);
  CHECK_FALSE(shared.thread.is_this());
  shared.ready = true;
  shared.thread.join();
  CHECK(shared.own);
  CHECK(shared.number != 0);
  CHECK(shared.number != system::this_thread());
  CHECK(system::this_thread() == system::this_thread());
}

// Two threads hand a number to and fro; a lost wake-up would never end.
TEST_CASE("a sleeping thread is woken", "[unit][system]") {
  constexpr std::uint32_t rounds = 20000;
  std::atomic<std::uint32_t> turn{0};
  const auto work = [](void* argument) -> void* {
    auto& word = *static_cast<std::atomic<std::uint32_t>*>(argument);
    for (std::uint32_t round = 0; round < rounds; ++round) {
      while (word.load() != 2 * round + 1) system::sleep_while(word, 2 * round);
      word.store(2 * round + 2);
      system::wake(word);
    }
    return nullptr;
  };
  system::Thread thread;
  REQUIRE(thread.start(work, &turn) == 0);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    turn.store(2 * round + 1);
    system::wake(turn);
    while (turn.load() != 2 * round + 2) system::sleep_while(turn, 2 * round + 1);
  }
  thread.join();
  CHECK(turn.load() == 2 * rounds);
}

TEST_CASE("a condition sleeps for a while, and no longer", "[unit][system]") {
  soma::Mutex mutex;
  soma::Condition condition;
  soma::Mutex::Lock lock(mutex);
  const std::int64_t begin = soma::monotonic_nanoseconds();
  for (int i = 0; i < 20; ++i) condition.sleep_for(lock, 1'000'000);
  const std::int64_t taken = soma::monotonic_nanoseconds() - begin;
  CHECK(taken > 1'000'000);
  CHECK(taken < 10'000'000'000);
  lock.unlock();
  { const soma::Mutex::Lock other(mutex); }  // free meanwhile
  lock.lock();
}

TEST_CASE("the machine and the process have plausible numbers", "[unit][system]") {
  CHECK(system::processors() >= 1);
  CHECK(soma::physical_memory_bytes() > std::uint64_t{1} << 26);
  CHECK(soma::peak_resident_bytes() > std::uint64_t{1} << 20);
  // Counted in the wrong unit it would be a thousand times more or less than what is there. Pages
  // may come between both questions.
  CHECK(soma::peak_resident_bytes() >= system::resident_bytes() / 2);
  CHECK(soma::peak_resident_bytes() < soma::physical_memory_bytes());
  CHECK(system::process_number() != 0);
  CHECK_FALSE(system::host_name().empty());
  CHECK(system::time_of_day() > std::int64_t{1'700'000'000} * 1'000'000'000);
}
