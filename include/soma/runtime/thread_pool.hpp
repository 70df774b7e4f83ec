#pragma once
// ThreadPool: the default executor. A fixed team of threads, fork-join.
//
// The calling thread is member 0; width - 1 threads are started by the first run that needs them.
// Each member has a contiguous share of the tasks and takes it from the front. Who has done its own
// takes from the ends of the others' shares what nobody has begun, so a run does not wait for a
// thread that the system has taken away, unless that thread is in the middle of a task. Which
// thread runs a task therefore depends on timing; no result of soma does.
//
// Between runs a worker spins for a while, so that a step's many short kernels follow each other
// quickly, and then sleeps on a futex; waits that do not succeed become shorter. Where the pool is
// wider than the cores there are, it does not spin.
//
//   nested     a run from inside a task runs its tasks one after another on that thread
//   concurrent runs from several threads take turns
//   fork       a child process starts a team of its own on first use; the parent's is untouched
//              (one that clone() alone made, without fork(), is not noticed)
//   end        the destructor wakes and joins the team (a forked child that never used it has none)

#include <soma/base/error.hpp>
#include <soma/runtime/cpu.hpp>
#include <soma/runtime/executor.hpp>
#include <soma/runtime/mutex.hpp>
#include <soma/runtime/task_share.hpp>
#include <soma/runtime/waiting.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <pthread.h>

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
    turn.caller.store(this_thread(), std::memory_order_relaxed);
    // One job, but for millions of tasks.
    const std::int64_t most = std::int64_t{TaskShare::most} * width_;
    for (std::int64_t first = 0; first < tasks; first += most) {
      const auto count = static_cast<int>((std::min)(most, tasks - first));
      run_job(*team_, {task, arg, static_cast<int>(first), count, (std::min)(width_, count)});
    }
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
    int first = 0, tasks = 0;
    int sharers = 1;  // members 0 to sharers - 1 have a share
    // Contiguous, so that neighbours in memory mostly stay on one core.
    int border(int member) const {
      return static_cast<int>(static_cast<std::int64_t>(tasks) * member / sharers);
    }
  };
  // A cache line that travels between two cores takes up to 160 nanoseconds, which is most of a
  // fork-join. So the fields that one core writes for another core share one line, and are two
  // lines away from the fields of other writers, because some processors fetch lines in pairs.
  static constexpr std::size_t apart = 128;
  // The state of a member that the other members use.
  struct alignas(apart) Member {
    TaskShare share;
    // Members read the job after they have taken a task of this share. The caller writes the next
    // job only when all tasks of the share are done.
    Job job;
    Sleeper sleeper;
  };
  // The state that threads share. It lies outside of the pool, so that a forked child can leave
  // the parent's team behind.
  struct Team {
    explicit Team(std::size_t width) : members(width) { workers.reserve(width - 1); }
    std::vector<Member> members;  // the caller, then the workers
    Patience patience;            // the caller's
    // Workers asleep, or about to be.
    alignas(apart) std::atomic<std::uint32_t> sleepers{0};
    alignas(apart) Sleeper caller;
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

  void run_job(Team& team, const Job& job) const {
    for (int member = 1; member < job.sharers; ++member) {
      Member& other = team.members[static_cast<std::size_t>(member)];
      other.job = job;
      other.share.open(job.border(member + 1) - job.border(member));
    }
    if (const int own = job.border(1); own > 1) {  // else there is nothing to take
      team.members[0].job = job;
      team.members[0].share.open_taken(own);
    }
    wake_sleepers(team, job.sharers);
    job.task(job.arg, job.first);
    help(team, 0);
    int member = 0;  // all before have finished
    const auto finished = [&] {
      while (member < job.sharers &&
             team.members[static_cast<std::size_t>(member)].share.finished())
        ++member;
      return member == job.sharers;
    };
    while (!(spin_ ? team.patience.spin_until(finished) : finished()))
      team.caller.sleep_unless(
          [&] { return team.members[static_cast<std::size_t>(member)].share.finished_in_order(); });
  }

  // Called after shares were opened.
  static void wake_sleepers(Team& team, int members) {
    if (team.sleepers.fetch_add(0, std::memory_order_acq_rel) == 0) return;
    for (int member = 1; member < members; ++member)
      team.members[static_cast<std::size_t>(member)].sleeper.wake();
  }

  // Runs the rest of the member's own share, then tasks of other shares. The caller looks at all
  // shares, because it waits for all; a worker looks at the shares 1, 2, 4, ... members away. If
  // each member looked at all, the traffic of cache lines would grow with the square of the width.
  void help(Team& team, int self) const {
    run_share(team, self, &TaskShare::take_first);
    for (int away = 1; away < width_; away += self == 0 ? 1 : away)
      run_share(team, (self + away) % width_, &TaskShare::take_last);
  }
  static void run_share(Team& team, int owner, int (TaskShare::*take)()) {
    Member& member = team.members[static_cast<std::size_t>(owner)];
    for (int number = 0; (number = (member.share.*take)()) >= 0;) {
      const Job& job = member.job;
      job.task(job.arg, job.first + job.border(owner) + number);
      if (member.share.finish()) team.caller.wake();
    }
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

  void work(Team& team, int self) const {
    Member& own = team.members[static_cast<std::size_t>(self)];
    Patience patience;
    const auto called = [&] { return own.share.called(); };
    while (true) {
      while (!(spin_ ? patience.spin_until(called) : called())) {
        own.sleeper.sleep_unless([&] {
          team.sleepers.fetch_add(1, std::memory_order_acq_rel);
          return called();
        });
        team.sleepers.fetch_sub(1, std::memory_order_relaxed);
      }
      if (own.share.closed()) return;
      help(team, self);
    }
  }

  // Makes the team while the lock is held. After a fork the parent's threads do not exist in the
  // child: the child abandons their team and does not destroy it, because joining threads of
  // another process is undefined.
  void start() {
    if (team_ != nullptr && process_ == process()) return;
    visible_team_.store(nullptr, std::memory_order_release);
    const std::uint32_t here = process();
    team_ = new Team(static_cast<std::size_t>(width_));
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
    for (Member& member : team->members) member.share.close();
    wake_sleepers(*team, width_);
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
