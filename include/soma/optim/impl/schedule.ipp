#pragma once
// The functions of schedule.hpp.

#include <soma/optim/schedule.hpp>

#include <soma/base/error.hpp>
#include <soma/numeric/fused.hpp>
#include <soma/numeric/portable_math.hpp>
#include <soma/ops/fields.hpp>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::optim {

SOMA_INLINE void fields(FieldVisitor& visitor, Schedule& schedule) {
  visitor.option("rate", schedule.rate, NumberRange::at_least(0));
  visitor.option("warmup", schedule.warmup);
  visitor.option("steps", schedule.steps);
  visitor.option("final_ratio", schedule.final_ratio, NumberRange::within(0, 1));
  visitor.option("every", schedule.every, NumberRange::at_least(1));
  visitor.option("factor", schedule.factor, {.least = 0, .most = 1, .open_least = true});
  visitor.option("patience", schedule.patience, NumberRange::at_least(1));
  visitor.option("threshold", schedule.threshold, NumberRange::from_to_below(0, 1));
}

SOMA_INLINE void Schedule::check() const {
  if (depends_on_steps() && steps <= warmup)
    fail(error_id::operator_value, "Schedule", "steps", std::to_string(steps),
         "more than the warm-up, " + std::to_string(warmup));
  check_settings();
}

SOMA_INLINE void Schedule::check_settings() const {
  if (!rate) fail(error_id::operator_value, "Schedule", "rate", "none", "the learning rate");
  check_ranges("Schedule", *this);
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
  return rounded(*rate * fused_multiply_add(1 - final_ratio, share, final_ratio));
}

SOMA_INLINE void Plateau::add(double value, std::uint64_t patience, double threshold) {
  const double margin = std::isfinite(best) ? threshold * std::fabs(best) : 0;
  if (known ? value > best + margin : !std::isnan(value)) {
    best = value;
    known = true;
    worse = 0;
  } else if (++worse >= patience) {
    worse = 0;
    ++reductions;
  }
}

}  // namespace SOMA_NAMESPACE::optim
