// Threads that the system takes away: nobody waits for one that has begun nothing, every task is
// still done once, and no bit changes.

#include <soma/kernels/gemm/multiply.hpp>
#include <soma/runtime/thread_pool.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <pthread.h>

using namespace soma;

namespace {

// ---- threads as if taken away: they sleep in a signal handler

std::atomic<int> held{0};
std::atomic<bool> hold{false};
std::atomic<int> milliseconds_away{0};

// As long as `hold` is set, or for some time.
void sleep_in_handler(int) {
  const int before = errno;
  ++held;
  if (milliseconds_away != 0)
    poll(nullptr, 0, milliseconds_away);
  else
    while (hold) poll(nullptr, 0, 1);
  --held;
  errno = before;
}

class Handler {
 public:
  Handler() {
    struct sigaction action {};
    action.sa_handler = sleep_in_handler;
    sigaction(SIGUSR2, &action, &before_);
  }
  ~Handler() {
    hold = false;
    while (held != 0) std::this_thread::yield();
    sigaction(SIGUSR2, &before_, nullptr);
  }

 private:
  struct sigaction before_ {};
};

void run_tasks(const Executor& executor, int tasks, std::function<void(int)> task) {
  executor.run(
      executor.self, tasks,
      [](void* arg, int index) { (*static_cast<std::function<void(int)>*>(arg))(index); }, &task);
}

// The threads of a pool but the calling one: tasks that wait for each other are on one each.
std::vector<pthread_t> workers_of(const Executor& executor) {
  std::vector<pthread_t> threads(static_cast<std::size_t>(executor.width));
  std::atomic<int> arrived{0};
  run_tasks(executor, executor.width, [&](int index) {
    threads[static_cast<std::size_t>(index)] = pthread_self();
    ++arrived;
    while (arrived != executor.width) std::this_thread::yield();
  });
  std::erase_if(threads, [](pthread_t thread) { return pthread_equal(thread, pthread_self()); });
  return threads;
}

// ---- an executor that gives each thread its task beforehand, here one thread that begins the
// second half of the tasks only when all of the first half have ended

struct LateHalf {
  int late = 0, ran_late = 0;  // tasks that began late, and that had something to do then
  int* counted = nullptr;      // of tasks that have run
  static void run(void* self, int tasks, void (*task)(void*, int), void* arg) {
    auto& own = *static_cast<LateHalf*>(self);
    for (int index = 0; index < tasks; ++index) {
      const int before = *own.counted;
      task(arg, index);
      if (index < tasks / 2) continue;
      ++own.late;
      own.ran_late += *own.counted - before;
    }
  }
};

}  // namespace

TEST_CASE("a share is taken from both ends, each task once", "[unit]") {
  TaskShare share;
  CHECK(share.take_first() == -1);
  CHECK(share.finished());
  CHECK_FALSE(share.called());
  share.open(4);
  CHECK(share.called());
  CHECK(share.take_first() == 0);
  CHECK(share.take_last() == 3);
  CHECK(share.take_first() == 1);
  CHECK(share.take_last() == 2);
  CHECK(share.take_first() == -1);
  CHECK(share.take_last() == -1);
  CHECK_FALSE(share.called());
  for (int i = 0; i < 4; ++i) {
    CHECK_FALSE(share.finished());
    CHECK(share.finish() == (i == 3));
  }
  CHECK(share.finished());
  CHECK(share.finished_in_order());

  share.open_taken(1);  // nothing is left to take, or to finish
  CHECK(share.take_last() == -1);
  CHECK(share.finished());
  share.open_taken(2);
  CHECK_FALSE(share.finished());
  CHECK(share.take_first() == 1);
  CHECK(share.finish());
  share.open(TaskShare::most);
  CHECK(share.take_last() == TaskShare::most - 1);
  CHECK(share.take_first() == 0);
  CHECK_FALSE(share.closed());
  share.close();
  CHECK(share.called());
  CHECK(share.closed());
}

TEST_CASE("waits that do not succeed become shorter", "[unit]") {
  Patience patience;
  const std::int64_t most = patience.limit();
  CHECK(patience.spin_until([] { return true; }));
  CHECK(patience.limit() == most);
  CHECK_FALSE(patience.spin_until([] { return false; }));
  CHECK(patience.limit() == most / 2);
  for (int i = 0; i < 10; ++i) CHECK_FALSE(patience.spin_until([] { return false; }));
  const std::int64_t least = patience.limit();
  CHECK((0 < least && least < most / 2));
  const auto second = [asked = 0]() mutable { return ++asked == 2; };
  CHECK(patience.spin_until(second));
  CHECK(patience.limit() == 2 * least);
}

TEST_CASE("a run does not wait for threads that have begun nothing", "[unit]") {
  const Handler handler;
  for (const int width : {2, 3, 7}) {
    ThreadPool pool(width);
    const Executor executor = pool.executor();
    const std::vector<pthread_t> workers = workers_of(executor);
    REQUIRE(workers.size() == static_cast<std::size_t>(width - 1));
    hold = true;
    milliseconds_away = 0;
    for (const pthread_t worker : workers) pthread_kill(worker, SIGUSR2);
    while (held != width - 1) std::this_thread::yield();
    for (const int tasks : {2, width, 100}) {
      std::vector<int> runs(static_cast<std::size_t>(tasks));
      bool here = true;
      const pthread_t self = pthread_self();
      run_tasks(executor, tasks, [&](int index) {
        ++runs[static_cast<std::size_t>(index)];
        here = here && pthread_equal(self, pthread_self());
      });
      CHECK(runs == std::vector<int>(static_cast<std::size_t>(tasks), 1));
      CHECK(here);
      CHECK(held == width - 1);
    }
    hold = false;
    while (held != 0) std::this_thread::yield();
    CHECK(workers_of(executor).size() == workers.size());  // they are back
  }
}

TEST_CASE("a pool whose threads were away can end", "[unit]") {
  const Handler handler;
  for (int repeat = 0; repeat < 20; ++repeat) {
    ThreadPool pool(3);
    milliseconds_away = 1;
    for (const pthread_t worker : workers_of(pool.executor())) pthread_kill(worker, SIGUSR2);
    run_tasks(pool.executor(), 3, [](int) {});
  }
}

TEST_CASE("threads that come and go do each task once", "[unit]") {
  const Handler handler;
  milliseconds_away = 1;
  auto context = make_context({.threads = 7});
  const std::vector<pthread_t> workers = workers_of(context.executor());
  std::atomic<bool> done{false};
  std::thread tormentor([&] {
    for (std::uint32_t i = 1; !done; i = i * 1664525u + 1013904223u) {
      pthread_kill(workers[(i >> 16) % workers.size()], SIGUSR2);
      std::this_thread::sleep_for(std::chrono::microseconds(i >> 22));
    }
  });
  for (int job = 0; job < 600; ++job) {
    const int tasks = 2 + job % 23;
    std::vector<int> runs(static_cast<std::size_t>(tasks)), inner(runs);
    const bool throws = job % 5 == 4;
    std::string thrown;
    try {
      parallel(context, tasks, [&](int index) {
        const auto at = static_cast<std::size_t>(index);
        ++runs[at];
        if (job % 3 == 0) parallel(context, 4, [&](int) { ++inner[at]; });
        if (throws && index >= tasks / 2) throw std::runtime_error(std::to_string(index));
      });
    } catch (const std::runtime_error& error) {
      thrown = error.what();
    }
    REQUIRE(runs == std::vector<int>(static_cast<std::size_t>(tasks), 1));
    REQUIRE(inner == std::vector<int>(static_cast<std::size_t>(tasks), job % 3 == 0 ? 4 : 0));
    REQUIRE(thrown == (throws ? std::to_string(tasks / 2) : ""));
  }
  done = true;
  tormentor.join();
}

TEST_CASE("the same bits, whoever computes them", "[invariance]") {
  const Handler handler;
  constexpr std::size_t m = 301, n = 260, k = 130;
  const auto product = [&](int threads, bool taken_away) {
    auto context = make_context({.threads = threads});
    std::vector<float> a(m * k), b(k * n), c(m * n);
    std::vector<bf16> rounded(c.size());
    fill_normal(context, a, {.seed = 1});
    fill_normal(context, b, {.seed = 2});
    std::vector<pthread_t> workers;
    if (taken_away) workers = workers_of(context.executor());
    hold = true;
    milliseconds_away = 0;
    for (const pthread_t worker : workers) pthread_kill(worker, SIGUSR2);
    while (held != static_cast<int>(workers.size())) std::this_thread::yield();
    multiply(context, {.m = m,
                       .n = n,
                       .k = k,
                       .a = {.data = a.data(), .row_stride = k},
                       .b = {.data = b.data(), .row_stride = n},
                       .c = {.data = c.data(), .row_stride = n}});
    convert(context, c, rounded, {.rounding = Rounding::stochastic, .draw = {.seed = 3}});
    CHECK(held == static_cast<int>(workers.size()));
    hold = false;
    while (held != 0) std::this_thread::yield();
    return std::pair(c, rounded);
  };
  const auto [c, rounded] = product(1, false);
  for (const int threads : {2, 7})
    for (const bool taken_away : {false, true}) {
      const auto [same, same_rounded] = product(threads, taken_away);
      CHECK(std::memcmp(same.data(), c.data(), c.size() * sizeof(float)) == 0);
      CHECK(std::memcmp(same_rounded.data(), rounded.data(), rounded.size() * sizeof(bf16)) == 0);
    }
}

TEST_CASE("tasks of a host's executor do what others have not begun", "[unit]") {
  int ran = 0;
  LateHalf late{.counted = &ran};
  auto context = make_context({.executor = {&late, 4, LateHalf::run}});
  std::vector<int> runs(4);
  parallel(context, 4, [&](int index) {
    ++runs[static_cast<std::size_t>(index)];
    ++ran;
  });
  CHECK(runs == std::vector<int>(4, 1));
  CHECK(late.late == 2);
  CHECK(late.ran_late == 0);  // who began late had nothing to wait for
  for (const int tasks : {64, 65, 200}) {
    std::vector<int> many(static_cast<std::size_t>(tasks));
    parallel(context, tasks, [&](int index) { ++many[static_cast<std::size_t>(index)]; });
    CHECK(many == std::vector<int>(static_cast<std::size_t>(tasks), 1));
  }
  CHECK_THROWS_AS(parallel(context, 3, [](int index) { throw index; }), int);
}
