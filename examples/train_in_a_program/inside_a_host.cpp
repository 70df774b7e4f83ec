// The same inside a host that already has threads, memory and a log: soma starts no thread, takes
// its memory from the host's resource and prints nothing.
//   inside_a_host reviews.tsv model_folder "some text"
#include <soma/models.hpp>
#include <soma/soma.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory_resource>
#include <mutex>
#include <new>
#include <string_view>
#include <thread>
#include <vector>

namespace {

// The host's thread pool, which knows nothing of soma.
class WorkerPool {
 public:
  explicit WorkerPool(int workers) {
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
  }
  ~WorkerPool() {
    {
      const std::scoped_lock lock(mutex_);
      leave_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  int size() const { return static_cast<int>(threads_.size()); }
  std::uint64_t jobs() const { return jobs_; }

  // Calls job(0) ... job(count - 1) on the workers and returns when all have returned.
  void run(int count, const std::function<void(int)>& job) {
    if (working) {  // a nested job runs here: waiting for busy workers could deadlock
      for (int i = 0; i < count; ++i) job(i);
      return;
    }
    std::unique_lock lock(mutex_);
    while (job_ != nullptr) changed_.wait(lock);  // another job is running
    job_ = &job;
    next_ = 0;
    count_ = left_ = count;
    jobs_ += static_cast<std::uint64_t>(count);
    changed_.notify_all();
    while (left_ > 0) changed_.wait(lock);
    job_ = nullptr;
    changed_.notify_all();
  }

 private:
  void work() {
    working = true;
    std::unique_lock lock(mutex_);
    while (!leave_) {
      if (job_ == nullptr || next_ == count_) {
        changed_.wait(lock);
        continue;
      }
      const int index = next_++;
      const auto& job = *job_;
      lock.unlock();
      job(index);
      lock.lock();
      if (--left_ == 0) changed_.notify_all();
    }
  }

  static inline thread_local bool working = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread> threads_;
  const std::function<void(int)>* job_ = nullptr;
  int next_ = 0, count_ = 0, left_ = 0;
  std::uint64_t jobs_ = 0;
  bool leave_ = false;
};

// The host's memory resource, with a limit that the host sets.
class Budget final : public std::pmr::memory_resource {
 public:
  explicit Budget(std::size_t most) : most_(most) {}
  std::size_t in_use() const { return in_use_; }
  std::size_t peak() const { return peak_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (bytes > most_ - in_use_) throw std::bad_alloc();
    void* block = std::pmr::new_delete_resource()->allocate(bytes, alignment);
    in_use_ += bytes;
    peak_ = (std::max)(peak_, in_use_);
    return block;
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(block, bytes, alignment);
    in_use_ -= bytes;
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::size_t most_, in_use_ = 0, peak_ = 0;
};

// The host's log; soma logs little, and the trainer's events arrive as calls.
struct Journal final : soma::train::Callback {
  void on_evaluation(const soma::train::EvaluationInfo& evaluation) override {
    std::cout << "journal: evaluated after step " << evaluation.step << '\n';
  }
  static void write(void*, soma::LogLevel level, std::string_view message) {
    std::cout << "journal: " << (level == soma::LogLevel::warning ? "warning: " : "") << message
              << '\n';
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: inside_a_host DATA MODEL TEXT\n";
    return 2;
  }
  WorkerPool pool(3);
  Budget budget(std::size_t{2} << 30);
  try {
    auto context = soma::make_context(
        {.executor = {.self = &pool,
                      .width = pool.size(),
                      .run =
                          [](void* self, int tasks, void (*task)(void*, int), void* arg) {
                            static_cast<WorkerPool*>(self)->run(
                                tasks, [&](int index) { task(arg, index); });
                          }},
         .memory = &budget,
         .log = {.self = nullptr, .write = Journal::write}});
    const auto text = soma::text::read_labelled(argv[1]);
    auto model =
        soma::models::TextClassifier::from_pretrained(context, argv[2], {.labels = text.labels()});
    soma::train::Trainer trainer(context, model, {.batch_size = 32, .learning_rate = 1e-4f});
    Journal journal;
    trainer.add(journal);
    const auto report = trainer.fit(text.train(), text.validation());
    std::cout << "accuracy " << report.metrics.accuracy() << '\n' << model.predict(argv[3]) << '\n';
    std::cout << "the host's threads did all: " << (pool.jobs() > 0 ? "yes" : "no")
              << ", its memory was used: " << (budget.peak() > 0 ? "yes" : "no") << '\n';
  } catch (const soma::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  std::cout << "bytes left behind " << budget.in_use() << '\n';
}
