#pragma once
// Spares: scratch memory that tasks borrow and give back, so that there is one for each thread that
// works, and not one for each task.

#include <soma/system/threads.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

template <class Scratch>
class Spares {
 public:
  // Gives the scratch back when it ends.
  class Borrowed {
   public:
    Borrowed(Spares& owner, std::unique_ptr<Scratch> scratch)
        : owner_(owner), scratch_(std::move(scratch)) {}
    ~Borrowed() { owner_.give_back(std::move(scratch_)); }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    Scratch& operator*() const { return *scratch_; }

   private:
    Spares& owner_;
    std::unique_ptr<Scratch> scratch_;
  };

  // The scratch that was given back last, or a new one. From any thread.
  Borrowed borrow() {
    std::unique_ptr<Scratch> scratch;
    {
      const Mutex::Lock lock(mutex_);
      if (!spare_.empty()) {
        scratch = std::move(spare_.back());
        spare_.pop_back();
      }
    }
    if (!scratch) scratch = std::make_unique<Scratch>();
    return Borrowed(*this, std::move(scratch));
  }

 private:
  void give_back(std::unique_ptr<Scratch> scratch) {
    const Mutex::Lock lock(mutex_);
    spare_.push_back(std::move(scratch));
  }

  Mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> spare_{};
};

}  // namespace SOMA_NAMESPACE
