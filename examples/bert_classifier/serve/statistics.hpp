// The distribution of the times of requests, in a fixed amount of memory.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <mutex>

class Statistics {
 public:
  void add(double seconds, bool failed) {
    const double place = std::log((std::max)(seconds, shortest) / shortest) / std::log(step);
    const std::lock_guard lock(mutex_);
    ++counts_[(std::min)(static_cast<std::size_t>(place), counts_.size() - 1)];
    ++requests_;
    if (failed) ++failures_;
  }
  // A quantile of the seconds per request, within 2 %; 0 without requests.
  double percentile(double share) const {
    const std::lock_guard lock(mutex_);
    std::uint64_t left =
        static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(requests_)));
    for (std::size_t i = 0; i < counts_.size() && left > 0; ++i) {
      if (counts_[i] >= left) return shortest * std::pow(step, static_cast<double>(i + 1));
      left -= counts_[i];
    }
    return 0;
  }
  std::uint64_t requests() const { return locked(requests_); }
  std::uint64_t failures() const { return locked(failures_); }

 private:
  static constexpr double shortest = 1e-6, step = 1.02;  // up to 1000 seconds

  std::uint64_t locked(const std::uint64_t& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }

  mutable std::mutex mutex_;
  std::array<std::uint64_t, 1050> counts_{};
  std::uint64_t requests_ = 0, failures_ = 0;
};
