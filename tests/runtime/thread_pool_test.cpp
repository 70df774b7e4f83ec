// The default executor: every task once, exceptions back, nesting, turns, fork, oversubscription.

#include <soma/runtime/thread_pool.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace soma;

TEST_CASE("every task runs exactly once", "[unit]") {
  for (const int width : {1, 2, 3, 7}) {
    ThreadPool pool(width);
    CHECK(pool.width() == width);
    for (const int tasks : {0, 1, 2, 3, 7, 100}) {
      std::vector<int> runs(static_cast<std::size_t>(tasks));
      pool.run(
          tasks, [](void* arg, int index) { ++static_cast<int*>(arg)[index]; }, runs.data());
      CHECK(runs == std::vector<int>(static_cast<std::size_t>(tasks), 1));
    }
  }
}

TEST_CASE("more tasks than shares have room for", "[unit]") {
  ThreadPool pool(2);
  const int tasks = 2 * TaskShare::most + 3;  // the last ones are a job of their own
  std::vector<unsigned char> runs(static_cast<std::size_t>(tasks));
  pool.run(
      tasks, [](void* arg, int index) { ++static_cast<unsigned char*>(arg)[index]; }, runs.data());
  CHECK(runs == std::vector<unsigned char>(static_cast<std::size_t>(tasks), 1));
}

TEST_CASE("the exception of the lowest index comes back, and the others still run", "[unit]") {
  auto context = make_context({.threads = 3});
  for (int repeat = 0; repeat < 10; ++repeat) {
    std::atomic<int> ran{0};
    try {
      parallel(context, 20, [&](int index) {
        ++ran;
        // Later in time than the others of its kind.
        if (index == 3) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        if (index % 4 == 3) throw std::runtime_error("task " + std::to_string(index));
      });
      FAIL("nothing was thrown");
    } catch (const std::runtime_error& error) {
      CHECK(std::string(error.what()) == "task 3");
    }
    CHECK(ran == 20);
  }
}

TEST_CASE("a task may start more work", "[unit]") {
  auto context = make_context({.threads = 3});
  std::atomic<int> inner{0};
  parallel(context, 9, [&](int) {
    const auto outer_thread = std::this_thread::get_id();
    parallel(context, 5, [&](int) {
      if (std::this_thread::get_id() == outer_thread) ++inner;  // on the thread that asked
    });
  });
  CHECK(inner == 45);
}

TEST_CASE("threads of the host may use one context at once", "[unit]") {
  auto context = make_context({.threads = 2});
  std::atomic<long> sum{0};
  std::vector<std::thread> hosts;
  for (int host = 0; host < 4; ++host)
    hosts.emplace_back([&] {
      for (int repeat = 0; repeat < 500; ++repeat)
        parallel(context, 6, [&](int index) { sum += index; });
    });
  for (std::thread& host : hosts) host.join();
  CHECK(sum == 4L * 500 * 15);
}

TEST_CASE("a forked child gets threads of its own", "[unit]") {
#if defined(__SANITIZE_THREAD__)
  SOMA_TEST_SKIP("ThreadSanitizer does not follow a fork of a program with threads");
#else
  auto context = make_context({.threads = 3});
  const auto total = [&context] {
    std::atomic<int> sum{0};
    parallel(context, 30, [&](int index) { sum += index; });
    return sum.load();
  };
  REQUIRE(total() == 435);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(20);  // a child that waits for threads it does not have ends here
    _exit(total() == 435 && total() == 435 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(total() == 435);  // the parent's team is as it was

  const pid_t idle = fork();  // and a child that never uses it can destroy the context
  if (idle == 0) {
    alarm(20);
    context.~Context();
    _exit(0);
  }
  REQUIRE(waitpid(idle, &status, 0) == idle);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
#endif
}

TEST_CASE("a child forked during the work of another thread has its own turns", "[unit]") {
#if defined(__SANITIZE_THREAD__)
  SOMA_TEST_SKIP("ThreadSanitizer does not follow a fork of a program with threads");
#else
  ThreadPool pool(2);
  std::atomic<bool> inside{false}, done{false};
  std::thread other([&] {
    const auto task = [&](int) {
      inside = true;
      while (!done) std::this_thread::yield();
    };
    pool.run(
        2, [](void* arg, int index) { (*static_cast<decltype(task)*>(arg))(index); },
        const_cast<void*>(static_cast<const void*>(&task)));
  });
  while (!inside) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    std::atomic<int> ran{0};
    for (int repeat = 0; repeat < 2; ++repeat)
      pool.run(
          8, [](void* arg, int) { ++*static_cast<std::atomic<int>*>(arg); }, &ran);
    _exit(ran == 16 ? 0 : 1);
  }
  int status = -1;
  const bool ended = child > 0 && waitpid(child, &status, 0) == child;
  done = true;
  other.join();
  REQUIRE(ended);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
#endif
}

TEST_CASE("threads start with the first parallel work and end with the context", "[unit]") {
  const auto threads = [] {
    const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  // A sanitizer starts a thread of its own beside the first one of the program.
  std::thread([] {}).join();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until the ended one is not listed
  const auto before = threads();
  {
    auto context = make_context({.threads = 5});
    parallel(context, 1, [](int) {});
    CHECK(threads() == before);
    parallel(context, 5, [](int) {});
    CHECK(threads() == before + 4);
  }
  // A joined thread may still be listed for a moment.
  for (int wait = 0; wait < 1000 && threads() != before; ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(threads() == before);
}

TEST_CASE("threads that wait sleep, whether there are cores for all or not", "[unit]") {
  const auto cpu_seconds = [] {
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return seconds(use.ru_utime) + seconds(use.ru_stime);
  };
  const int cores = cpu_share().usable();
  for (const int width : {cores, 4 * cores}) {
    auto context = make_context({.threads = width});
    parallel(context, width, [](int) {});
    // One task of many sleeps; were the others, or the caller, to spin meanwhile, cores would be
    // busy.
    for (const int sleeper : {0, width - 1}) {
      const double before = cpu_seconds();
      parallel(context, width, [sleeper](int index) {
        if (index == sleeper) std::this_thread::sleep_for(std::chrono::milliseconds(400));
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      INFO("width " << width << ", task " << sleeper << " sleeps");
      CHECK(cpu_seconds() - before < 0.2);
    }
  }
}

TEST_CASE("a width that cannot be is an error", "[unit]") {
  for (const int width : {-1, ThreadPool::max_width + 1}) {
    try {
      ThreadPool pool(width);
      FAIL("accepted " << width);
    } catch (const Error& error) {
      CHECK(error.id() == error_id::executor_width);
    }
    try {
      auto context = make_context({.threads = width});
      FAIL("accepted " << width);
    } catch (const Error& error) {
      CHECK(error.id() == error_id::executor_width);
    }
  }
}

TEST_CASE("a system without threads left is an error, and nothing hangs", "[unit]") {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  SOMA_TEST_SKIP("a sanitizer needs threads and address space of its own");
#else
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(60);
    // Each thread asks for its stack: with little address space left, starting hundreds fails for
    // root as well.
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = std::size_t{1} << 30;
    setrlimit(RLIMIT_AS, &limit);
    int result = 1;
    try {
      auto context = make_context({.threads = 2000});
      parallel(context, 2000, [](int) {});
    } catch (const Error& error) {
      result = error.id() == error_id::thread_start ? 0 : 2;
    }
    _exit(result);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
#endif
}
