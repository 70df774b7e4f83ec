#pragma once
// The functions of schedule.hpp.

#include <soma/optim/schedule.hpp>

#include <soma/base/error.hpp>
#include <soma/numeric/portable_math.hpp>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::optim {

SOMA_INLINE void Schedule::check() const {
  if (depends_on_steps() && steps <= warmup)
    fail(error_id::operator_value, "Schedule", "steps", std::to_string(steps),
         "more than the warm-up, " + std::to_string(warmup));
  check_settings();
}

SOMA_INLINE void Schedule::check_settings() const {
  const auto demand = [](bool in_range, std::string_view name, double given,
                         std::string_view wanted) {
    if (!in_range) fail(error_id::operator_value, "Schedule", name, std::to_string(given), wanted);
  };
  if (!rate) fail(error_id::operator_value, "Schedule", "rate", "none", "the learning rate");
  demand(*rate >= 0 && std::isfinite(*rate), "rate", *rate, "a finite number from 0");
  demand(final_ratio >= 0 && final_ratio <= 1, "final_ratio", final_ratio, "0 to 1");
  demand(factor > 0 && factor <= 1, "factor", factor, "above 0, up to 1");
  demand(every != 0, "every", 0, "at least 1");
  demand(patience != 0, "patience", 0, "at least 1");
}

SOMA_INLINE double Schedule::operator()(std::uint64_t step, std::uint64_t reductions) const {
  check();
  if (step < warmup) return *rate * (static_cast<double>(step + 1) / static_cast<double>(warmup));
  const std::uint64_t since = step - warmup;
  switch (decay) {
    case Decay::constant:
      return *rate;
    case Decay::linear:
    case Decay::cosine:
      break;
    case Decay::step:
      return rounded(*rate * portable_power(factor, since / every));
    case Decay::exponential:
      // Whole periods use multiplication, so that the rate at the end of a period is exact.
      return rounded(*rate * rounded(portable_power(factor, since / every) *
                                     portable_pow(factor, static_cast<double>(since % every) /
                                                              static_cast<double>(every))));
    case Decay::plateau: {
      const double share = portable_power(factor, reductions);
      return rounded(*rate * (share > final_ratio ? share : final_ratio));
    }
  }
  const std::uint64_t at = step < steps ? step : steps;
  const double progress = static_cast<double>(at - warmup) / static_cast<double>(steps - warmup);
  const double share = decay == Decay::linear
                           ? 1 - progress
                           : (1 + portable_cosine(progress * 3.14159265358979323846)) / 2;
  return rounded(*rate * std::fma(1 - final_ratio, share, final_ratio));
}

SOMA_INLINE void Plateau::add(double value, std::uint64_t patience) {
  if (known ? value > best : !std::isnan(value)) {
    best = value;
    known = true;
    worse = 0;
  } else if (!known || value != best) {
    if (++worse < patience) return;
    worse = 0;
    ++reductions;
  }
}

}  // namespace SOMA_NAMESPACE::optim
