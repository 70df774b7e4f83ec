#pragma once
// Schedules: the learning rate of each step. Computed in double with portable functions:
// the same on every machine.

#include <soma/base/error.hpp>
#include <soma/numeric/portable_math.hpp>

#include <cmath>
#include <cstdint>
#include <string>

namespace soma::optim {

enum class Decay : std::uint8_t { constant, linear, cosine };

// The rate rises in a straight line over the warm-up steps (step 0 has rate / warmup, step warmup -
// 1 the rate), then stays, or falls from step warmup on: in a straight line, or along half a cosine
// (arXiv 1608.03983). It would arrive at rate * final_ratio in step number `steps`, the one after
// the last, so that no step is without effect.
struct Schedule {
  double rate = 1e-3;
  Decay decay = Decay::constant;
  std::uint64_t warmup = 0;
  std::uint64_t steps = 0;  // of the whole training; needed by linear and cosine
  double final_ratio = 0;

  // Of step 0, 1 ... Error operator.value where a falling schedule has no steps.
  double operator()(std::uint64_t step) const {
    if (decay != Decay::constant && steps <= warmup)
      fail(error_id::operator_value, "Schedule", "steps", std::to_string(steps),
           "more than the warm-up, " + std::to_string(warmup));
    if (step < warmup) return rate * (static_cast<double>(step + 1) / static_cast<double>(warmup));
    if (decay == Decay::constant) return rate;
    const std::uint64_t at = step < steps ? step : steps;
    const double progress = static_cast<double>(at - warmup) / static_cast<double>(steps - warmup);
    const double share = decay == Decay::linear
                             ? 1 - progress
                             : (1 + portable_cosine(progress * 3.14159265358979323846)) / 2;
    return rounded(rate * std::fma(1 - final_ratio, share, final_ratio));
  }
};

}  // namespace soma::optim
