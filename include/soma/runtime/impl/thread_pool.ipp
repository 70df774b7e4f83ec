#pragma once
// The functions of thread_pool.hpp.

#include <soma/runtime/thread_pool.hpp>

#include <soma/base/error.hpp>
#include <soma/runtime/cpu.hpp>
#include <soma/runtime/executor.hpp>
#include <soma/runtime/task_share.hpp>
#include <soma/runtime/waiting.hpp>
#include <soma/system/threads.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE ThreadPool::ThreadPool(int width) : width_(width), turn_(nullptr) {
  if (width < 0 || width > max_width)
    fail(error_id::executor_width, "ThreadPool", "width", std::to_string(width),
         "0 (automatic) to " + std::to_string(max_width));
  if (!system::has_threads && width > 1)
    fail(error_id::thread_start, "ThreadPool", "width", std::to_string(width),
         "1: this system has no threads");
  const int usable = cpu_share().usable();
  if (width_ == 0) width_ = usable;
  spin_ = width_ <= usable;
  turn_.store(new Turn(process()), std::memory_order_release);  // behind all errors: it is owned
}

SOMA_INLINE ThreadPool::~ThreadPool() {
  stop();
  delete turn_.load(std::memory_order_acquire);
}

SOMA_INLINE Executor ThreadPool::executor() noexcept {
  return {this, width_, [](void* self, int tasks, void (*task)(void*, int), void* arg) {
            static_cast<ThreadPool*>(self)->run(tasks, task, arg);
          }};
}

SOMA_INLINE void ThreadPool::run(int tasks, void (*task)(void*, int), void* arg) {
  if (tasks <= 1 || width_ == 1 || inside_task()) {
    for (int index = 0; index < tasks; ++index) task(arg, index);
    return;
  }
  Turn& turn = turn_here();
  const Mutex::Lock lock(turn.mutex);
  start();
  turn.caller.store(system::this_thread(), std::memory_order_relaxed);
  // One job, but for millions of tasks.
  const std::int64_t most = std::int64_t{TaskShare::most} * width_;
  for (std::int64_t first = 0; first < tasks; first += most) {
    const auto count = static_cast<int>((std::min)(most, tasks - first));
    run_job(*team_, {task, arg, static_cast<int>(first), count, (std::min)(width_, count)});
  }
  turn.caller.store(0, std::memory_order_relaxed);
}

SOMA_INLINE int ThreadPool::Job::border(int member) const {
  return static_cast<int>(static_cast<std::int64_t>(tasks) * member / sharers);
}

SOMA_INLINE ThreadPool::Team::Team(std::size_t width) : members(width) {
  workers.reserve(width - 1);
}

SOMA_INLINE std::uint32_t ThreadPool::process() {
  static std::atomic<std::uint32_t> forks{0};
  static const bool counted = [] {
    const int error = system::after_fork([] { ++forks; });
    if (error != 0)
      fail(error_id::thread_start, "ThreadPool", "handler of forks",
           std::string("refused by the system (") + std::strerror(error) + ")", "memory for one");
    return true;
  }();
  static_cast<void>(counted);
  return forks.load(std::memory_order_relaxed);
}

SOMA_INLINE auto ThreadPool::turn_here() -> Turn& {
  const std::uint32_t here = process();
  Turn* turn = turn_.load(std::memory_order_acquire);
  while (turn->process != here) {
    auto* own = new Turn(here);
    if (turn_.compare_exchange_strong(turn, own, std::memory_order_acq_rel)) return *own;
    delete own;  // another thread has made one first
  }
  return *turn;
}

SOMA_INLINE void ThreadPool::run_job(Team& team, const Job& job) const {
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
    while (member < job.sharers && team.members[static_cast<std::size_t>(member)].share.finished())
      ++member;
    return member == job.sharers;
  };
  while (!(spin_ ? team.patience.spin_until(finished) : finished()))
    team.caller.sleep_unless(
        [&] { return team.members[static_cast<std::size_t>(member)].share.finished_in_order(); });
}

SOMA_INLINE void ThreadPool::wake_sleepers(Team& team, int members) {
  if (team.sleepers.fetch_add(0, std::memory_order_acq_rel) == 0) return;
  for (int member = 1; member < members; ++member)
    team.members[static_cast<std::size_t>(member)].sleeper.wake();
}

SOMA_INLINE void ThreadPool::help(Team& team, int self) const {
  run_share(team, self, &TaskShare::take_first);
  for (int away = 1; away < width_; away += self == 0 ? 1 : away)
    run_share(team, (self + away) % width_, &TaskShare::take_last);
}

SOMA_INLINE void ThreadPool::run_share(Team& team, int owner, int (TaskShare::*take)()) {
  Member& member = team.members[static_cast<std::size_t>(owner)];
  for (int number = 0; (number = (member.share.*take)()) >= 0;) {
    const Job& job = member.job;
    job.task(job.arg, job.first + job.border(owner) + number);
    if (member.share.finish()) team.caller.wake();
  }
}

SOMA_INLINE bool ThreadPool::inside_task() const {
  const std::uintptr_t self = system::this_thread();
  const Turn& turn = *turn_.load(std::memory_order_acquire);
  if (turn.process != process()) return false;
  if (turn.caller.load(std::memory_order_relaxed) == self) return true;
  const Team* team = visible_team_.load(std::memory_order_acquire);
  if (team == nullptr || process_ != process()) return false;
  for (const Team::Worker& worker : team->workers)
    if (worker.thread.is_this()) return true;
  return false;
}

SOMA_INLINE void ThreadPool::work(Team& team, int self) const {
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

SOMA_INLINE void ThreadPool::start() {
  if (team_ != nullptr && process_ == process()) return;
  visible_team_.store(nullptr, std::memory_order_release);
  const std::uint32_t here = process();
  team_ = new Team(static_cast<std::size_t>(width_));
  process_ = here;
  for (int number = 1; number < width_; ++number) {
    team_->workers.push_back({this, team_, number, {}});
    Team::Worker& worker = team_->workers.back();
    const int error = worker.thread.start(&begin, &worker);
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

SOMA_INLINE void* ThreadPool::begin(void* argument) {
  const auto& worker = *static_cast<const Team::Worker*>(argument);
  worker.pool->work(*worker.team, worker.number);
  return nullptr;
}

SOMA_INLINE void ThreadPool::stop() {
  Team* team = std::exchange(team_, nullptr);
  if (team == nullptr || process_ != process()) return;
  for (Member& member : team->members) member.share.close();
  wake_sleepers(*team, width_);
  for (Team::Worker& worker : team->workers) worker.thread.join();
  visible_team_.store(nullptr, std::memory_order_release);
  delete team;
}

SOMA_INLINE OwnedExecutor make_thread_pool(int width) {
  auto* pool = new ThreadPool(width);
  return {pool->executor(), [](void* self) { delete static_cast<ThreadPool*>(self); }};
}

}  // namespace SOMA_NAMESPACE
