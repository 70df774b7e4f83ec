#pragma once
// The functions of progress.hpp.

#include <soma/train/progress.hpp>

#include <soma/base/record.hpp>
#include <soma/data/batch.hpp>
#include <soma/optim/loss_scaler.hpp>
#include <soma/optim/schedule.hpp>

#include <cstdint>
#include <string_view>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE void Progress::forget_best() {
  has_best = false;
  best = 0;
  stale = 0;
}

SOMA_INLINE void Progress::write(Record& record) {
  visit([&](std::string_view name, const auto& number) { record.set(name, number); });
}

SOMA_INLINE Progress Progress::read(const Record& record) {
  struct Read {
    void operator()(std::string_view name, std::uint64_t& number) const {
      number = record.count(name);
    }
    void operator()(std::string_view name, bool& number) const { number = record.boolean(name); }
    void operator()(std::string_view name, double& number) const { number = record.number(name); }
    void operator()(std::string_view name, float& number) const {
      number = static_cast<float>(record.number(name));
    }
    const Record& record;
  };
  Progress progress;
  progress.visit(Read{record});
  return progress;
}

}  // namespace SOMA_NAMESPACE::train
