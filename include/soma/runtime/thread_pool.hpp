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
#include <soma/runtime/task_share.hpp>
#include <soma/runtime/waiting.hpp>
#include <soma/system/threads.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

class ThreadPool {
 public:
  static constexpr int max_width = max_threads;

  // width 0: as many as the affinity mask and the control group's quota allow. Errors
  // executor.width below 0 or above max_width, executor.thread_start where there is no memory for
  // what follows forks, or a width above 1 where there are no threads.
  explicit ThreadPool(int width = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int width() const noexcept { return width_; }

  // The interface soma itself uses. The pool has to outlive it.
  Executor executor() noexcept;

  // Error executor.thread_start if the system cannot start another thread.
  void run(int tasks, void (*task)(void*, int), void* arg);

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
    int border(int member) const;
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
    explicit Team(std::size_t width);
    std::vector<Member> members;  // the caller, then the workers
    Patience patience;            // the caller's
    // Workers asleep, or about to be.
    alignas(apart) std::atomic<std::uint32_t> sleepers{0};
    alignas(apart) Sleeper caller;
    struct Worker {
      const ThreadPool* pool;
      Team* team;
      int number;
      system::Thread thread{};
    };
    // Never reallocated: threads are given their addresses.
    alignas(apart) std::vector<Worker> workers;
  };

  // The number of fork() calls between the first use and this process. It is counted, because
  // asking the system for the process id takes as long as the rest of a fork-join.
  static std::uint32_t process();

  Turn& turn_here();

  void run_job(Team& team, const Job& job) const;

  // Called after shares were opened.
  static void wake_sleepers(Team& team, int members);

  // Runs the rest of the member's own share, then tasks of other shares. The caller looks at all
  // shares, because it waits for all; a worker looks at the shares 1, 2, 4, ... members away. If
  // each member looked at all, the traffic of cache lines would grow with the square of the width.
  void help(Team& team, int self) const;
  static void run_share(Team& team, int owner, int (TaskShare::*take)());

  bool inside_task() const;

  void work(Team& team, int self) const;

  // Makes the team while the lock is held. After a fork the parent's threads do not exist in the
  // child: the child abandons their team and does not destroy it, because joining threads of
  // another process is undefined.
  void start();
  static void* begin(void* argument);

  void stop();

  int width_;
  bool spin_ = true;
  std::atomic<Turn*> turn_;  // owned; a parent process's turn is left alone
  Team* team_ = nullptr;     // owned; another process's team is left alone
  std::atomic<const Team*> visible_team_{nullptr};
  std::atomic<std::uint32_t> process_{0};  // the process that owns team_
};

// A pool without a name, which a context owns. Errors as of ThreadPool's constructor.
OwnedExecutor make_thread_pool(int width);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/runtime/impl/thread_pool.ipp>
#endif
