#pragma once
// ThreadPool: the default executor. A fixed team of threads, fork-join, static partition.
//
// The calling thread is worker 0; width - 1 threads are started by the first run that needs them.
// Between runs a worker spins for a while, so that a step's many short kernels follow each other
// quickly, and then sleeps on a futex. Where the pool is wider than the cores there are, it does
// not spin. Task i of n goes to worker i * width / n, always the same.
//
//   nested     a run from inside a task runs its tasks one after another on that thread
//   concurrent runs from several threads take turns
//   fork       a child process starts a team of its own on first use; the parent's is untouched
//              (one that clone() alone made, without fork(), is not noticed)
//   end        the destructor wakes and joins the team (a forked child that never used it has none)

#include <soma/base/error.hpp>
#include <soma/runtime/clock.hpp>
#include <soma/runtime/cpu.hpp>
#include <soma/runtime/executor.hpp>
#include <soma/runtime/mutex.hpp>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <pthread.h>
#include <sched.h>

namespace soma {

class ThreadPool {
 public:
  static constexpr int max_width = max_threads;

  // width 0: as many as the affinity mask and the control group's quota allow. Errors
  // executor.width below 0 or above max_width, executor.thread_start where there is no memory for
  // what follows forks.
  explicit ThreadPool(int width = 0) : width_(width), turn_(new Turn(process())) {
    if (width < 0 || width > max_width)
      fail(error_id::executor_width, "ThreadPool", "width", std::to_string(width),
           "0 (automatic) to " + std::to_string(max_width));
    const int usable = cpu_share().usable();
    if (width_ == 0) width_ = usable;
    spin_ = width_ <= usable;
  }
  ~ThreadPool() {
    stop();
    delete turn_.load(std::memory_order_acquire);
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int width() const noexcept { return width_; }

  // The interface soma itself uses. The pool has to outlive it.
  Executor executor() noexcept {
    return {this, width_, [](void* self, int tasks, void (*task)(void*, int), void* arg) {
              static_cast<ThreadPool*>(self)->run(tasks, task, arg);
            }};
  }

  // Error executor.thread_start if the system cannot start another thread.
  void run(int tasks, void (*task)(void*, int), void* arg) {
    if (tasks <= 1 || width_ == 1 || inside_task()) {
      for (int index = 0; index < tasks; ++index) task(arg, index);
      return;
    }
    Turn& turn = turn_here();
    const Mutex::Lock lock(turn.mutex);
    start();
    Team& team = *team_;
    turn.caller.store(this_thread(), std::memory_order_relaxed);
    const Job job{task, arg, tasks};
    team.job = job;
    team.all_finished += static_cast<std::uint32_t>(width_ - 1);
    const std::uint32_t all = team.all_finished;
    team.epoch.fetch_add(1, std::memory_order_release);
    team.epoch.notify_all();
    run_share(job, 0);
    std::uint32_t finished;
    while ((finished = team.finished.load(std::memory_order_acquire)) != all)
      if (!spin_until([&] { return team.finished.load(std::memory_order_acquire) == all; }))
        team.finished.wait(finished, std::memory_order_acquire);
    turn.caller.store(0, std::memory_order_relaxed);
  }

 private:
  // The job that runs. It lies outside of the pool, as the team does: if a process forks during
  // another thread's job, the child must not wait for that thread forever.
  struct Turn {
    explicit Turn(std::uint32_t here) : process(here) {}
    const std::uint32_t process;
    Mutex mutex;
    std::atomic<std::uintptr_t> caller{0};  // the thread that runs a job
  };
  struct Job {
    void (*task)(void*, int) = nullptr;
    void* arg = nullptr;
    int tasks = 0;
  };
  // The state that workers share. It lies outside of the pool, so that a forked child can leave the
  // parent's team behind.
  struct Team {
    explicit Team(std::size_t count) { workers.reserve(count); }

    // One cache line goes from the caller to the workers, and one back: a cache line that has to
    // travel takes up to 160 nanoseconds between two cores, which is most of a fork-join. The two
    // lines lie apart, because some processors fetch lines in pairs.
    static constexpr std::size_t apart = 128;
    alignas(apart) std::atomic<std::uint32_t> epoch{0};  // one more for each job
    std::uint32_t all_finished = 0;                      // `finished` when the job is done
    Job job;
    bool stopping = false;                                  // read after an epoch change
    alignas(apart) std::atomic<std::uint32_t> finished{0};  // shares of jobs, never set back
    struct Worker {
      const ThreadPool* pool;
      Team* team;
      int number;
      pthread_t thread;
    };
    // Never reallocated: threads are given their addresses.
    alignas(apart) std::vector<Worker> workers;
  };

  // The number of fork() calls between the first use and this process. It is counted, because
  // asking the system for the process id takes as long as the rest of a fork-join.
  static std::uint32_t process() {
    static std::atomic<std::uint32_t> forks{0};
    static const bool counted = [] {
      const int error = pthread_atfork(nullptr, nullptr, [] { ++forks; });
      if (error != 0)
        fail(error_id::thread_start, "ThreadPool", "handler of forks",
             std::string("refused by the system (") + std::strerror(error) + ")", "memory for one");
      return true;
    }();
    static_cast<void>(counted);
    return forks.load(std::memory_order_relaxed);
  }

  Turn& turn_here() {
    const std::uint32_t here = process();
    Turn* turn = turn_.load(std::memory_order_acquire);
    while (turn->process != here) {
      auto* own = new Turn(here);
      if (turn_.compare_exchange_strong(turn, own, std::memory_order_acq_rel)) return *own;
      delete own;  // another thread has made one first
    }
    return *turn;
  }

  static std::uintptr_t name_of(pthread_t thread) { return std::bit_cast<std::uintptr_t>(thread); }
  static std::uintptr_t this_thread() { return name_of(pthread_self()); }

  static void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
  }

  // Waits a while for `done`; returns false if it did not happen in that time.
  template <class Done>
  bool spin_until(Done done) const {
    if (!spin_) return done();
    // Longer than a fork-join (two cache-line transfers) and the gap between most kernels.
    constexpr std::int64_t alone = 20'000;  // nanoseconds
    // About the cost of waking a worker where cores are virtual: the worker starts 50 microseconds
    // late, and the caller spends 20.
    constexpr std::int64_t limit = 100'000;
    const std::int64_t start = monotonic_nanoseconds();
    for (std::int64_t waited = 0; waited < limit; waited = monotonic_nanoseconds() - start) {
      if (waited > alone) sched_yield();  // others may want the core
      for (int round = 0; round < 32; ++round) {
        if (done()) return true;
        relax();
      }
    }
    return false;
  }

  // Worker w takes a contiguous part, so that neighbours in memory stay on one core.
  void run_share(const Job& job, int worker) const {
    const auto part = [&](int w) {
      return static_cast<int>(static_cast<std::int64_t>(job.tasks) * w / width_);
    };
    for (int index = part(worker); index < part(worker + 1); ++index) job.task(job.arg, index);
  }

  bool inside_task() const {
    const std::uintptr_t self = this_thread();
    const Turn& turn = *turn_.load(std::memory_order_acquire);
    if (turn.process != process()) return false;
    if (turn.caller.load(std::memory_order_relaxed) == self) return true;
    const Team* team = visible_team_.load(std::memory_order_acquire);
    if (team == nullptr || process_ != process()) return false;
    for (const Team::Worker& worker : team->workers)
      if (name_of(worker.thread) == self) return true;
    return false;
  }

  void work(Team& team, int worker) const {
    std::uint32_t seen = 0;
    while (true) {
      if (!spin_until([&] { return team.epoch.load(std::memory_order_acquire) != seen; }))
        team.epoch.wait(seen, std::memory_order_acquire);
      if (team.epoch.load(std::memory_order_acquire) == seen) continue;
      ++seen;
      if (team.stopping) return;
      const Job job = team.job;
      const std::uint32_t all = team.all_finished;
      run_share(job, worker);
      if (team.finished.fetch_add(1, std::memory_order_acq_rel) + 1 == all)
        team.finished.notify_one();
    }
  }

  // Makes the team while the lock is held. After a fork the parent's threads do not exist in the
  // child: the child abandons their team and does not destroy it, because joining threads of
  // another process is undefined.
  void start() {
    if (team_ != nullptr && process_ == process()) return;
    visible_team_.store(nullptr, std::memory_order_release);
    const std::uint32_t here = process();
    team_ = new Team(static_cast<std::size_t>(width_ - 1));
    process_ = here;
    for (int number = 1; number < width_; ++number) {
      team_->workers.push_back({this, team_, number, {}});
      Team::Worker& worker = team_->workers.back();
      const int error = pthread_create(&worker.thread, nullptr, &begin, &worker);
      if (error == 0) continue;
      team_->workers.pop_back();
      const std::size_t started = team_->workers.size();
      stop();
      fail(error_id::thread_start, "ThreadPool", "thread",
           "refused by the system after " + std::to_string(started) + " (" + std::strerror(error) +
               ")",
           std::to_string(width_ - 1) + " threads: choose a smaller width");
    }
    visible_team_.store(team_, std::memory_order_release);
  }
  static void* begin(void* argument) {
    const auto& worker = *static_cast<const Team::Worker*>(argument);
    worker.pool->work(*worker.team, worker.number);
    return nullptr;
  }

  void stop() {
    Team* team = std::exchange(team_, nullptr);
    if (team == nullptr || process_ != process()) return;
    team->stopping = true;
    team->epoch.fetch_add(1, std::memory_order_release);
    team->epoch.notify_all();
    for (const Team::Worker& worker : team->workers) pthread_join(worker.thread, nullptr);
    visible_team_.store(nullptr, std::memory_order_release);
    delete team;
  }

  int width_;
  bool spin_ = true;
  std::atomic<Turn*> turn_;  // owned; a parent process's turn is left alone
  Team* team_ = nullptr;     // owned; another process's team is left alone
  std::atomic<const Team*> visible_team_{nullptr};
  std::atomic<std::uint32_t> process_{0};  // the process that owns team_
};

// A pool without a name, which a context owns. Errors as of ThreadPool's constructor.
inline OwnedExecutor make_thread_pool(int width) {
  auto* pool = new ThreadPool(width);
  return {pool->executor(), [](void* self) { delete static_cast<ThreadPool*>(self); }};
}

}  // namespace soma
