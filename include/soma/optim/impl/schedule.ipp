#pragma once
// The functions of schedule.hpp.

#include <soma/optim/schedule.hpp>

#include <soma/base/error.hpp>
#include <soma/numeric/fused.hpp>
#include <soma/numeric/portable_math.hpp>
#include <soma/ops/fields.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

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
  visitor.option("start_ratio", schedule.start_ratio, NumberRange::within(0, 1));
  visitor.option("growth", schedule.growth, NumberRange::at_least(1));
}

}  // namespace SOMA_NAMESPACE::optim

namespace SOMA_NAMESPACE::optim::detail {

// From 1 down to 0 along half a cosine.
SOMA_INLINE double cosine_share(double progress) {
  return (1 + portable_cosine(progress * 3.14159265358979323846)) / 2;
}

}  // namespace SOMA_NAMESPACE::optim::detail

namespace SOMA_NAMESPACE::optim {

SOMA_INLINE RateFunction::RateFunction(const RateFunction& other)
    : kept_(other.kept_ == nullptr ? nullptr : other.kept_->copy()) {}

SOMA_INLINE RateFunction::RateFunction(RateFunction&& other) noexcept
    : kept_(std::exchange(other.kept_, nullptr)) {}

SOMA_INLINE RateFunction& RateFunction::operator=(RateFunction other) noexcept {
  std::swap(kept_, other.kept_);
  return *this;
}

SOMA_INLINE RateFunction::~RateFunction() { delete kept_; }

SOMA_INLINE double RateFunction::operator()(std::uint64_t step) const { return kept_->call(step); }

SOMA_INLINE void Schedule::check() const {
  if (depends_on_steps() && steps <= warmup)
    fail(error_id::operator_value, "Schedule", "steps", std::to_string(steps),
         "more than the warm-up, " + std::to_string(warmup));
  check_settings();
}

SOMA_INLINE void Schedule::check_settings() const {
  if (!rate) fail(error_id::operator_value, "Schedule", "rate", "none", "the learning rate");
  check_ranges("Schedule", *this);
  for (std::size_t i = 1; i < milestones.size(); ++i)
    if (milestones[i] <= milestones[i - 1])
      fail(error_id::operator_value, "Schedule", "milestones",
           std::to_string(milestones[i]) + " behind " + std::to_string(milestones[i - 1]),
           "ascending steps");
  if (decay == Decay::own && (!function || name.empty()))
    fail(error_id::operator_value, "Schedule", "function",
         function ? "a function without a name" : "none", "one with a name (Schedule::of)");
}

SOMA_INLINE Schedule Schedule::of(RateFunction own, std::string called) {
  Schedule result{.decay = Decay::own, .function = std::move(own), .name = std::move(called)};
  if (!result.function || result.name.empty())
    fail(error_id::operator_value, "Schedule::of", "name",
         result.function ? "an empty one" : "of no function",
         "a function, and a name for a run's identity");
  return result;
}

SOMA_INLINE double Schedule::operator()(std::uint64_t step, std::uint64_t reductions) const {
  check();
  if (decay == Decay::one_cycle) return one_cycle(step);
  if (step < warmup) return *rate * (static_cast<double>(step + 1) / static_cast<double>(warmup));
  const std::uint64_t since = step - warmup;
  if (decay == Decay::plateau) {
    const double share = portable_power(factor, reductions);
    return rounded(*rate * (share > final_ratio ? share : final_ratio));
  }
  if (!depends_on_steps()) return fallen(since);
  const std::uint64_t at = step < steps ? step : steps;
  const double progress = static_cast<double>(at - warmup) / static_cast<double>(steps - warmup);
  const double share = decay == Decay::linear ? 1 - progress : detail::cosine_share(progress);
  return rounded(*rate * fused_multiply_add(1 - final_ratio, share, final_ratio));
}

// The decays that depend on the number of steps since the warm-up alone.
SOMA_INLINE double Schedule::fallen(std::uint64_t since) const {
  switch (decay) {
    case Decay::step:
      return rounded(*rate * portable_power(factor, since / every));
    case Decay::exponential:
      // Whole periods use multiplication, so that the rate at the end of a period is exact.
      return rounded(*rate * rounded(portable_power(factor, since / every) *
                                     portable_pow(factor, static_cast<double>(since % every) /
                                                              static_cast<double>(every))));
    case Decay::milestones: {
      std::uint64_t reached = 0;
      while (reached < milestones.size() && milestones[reached] <= since) ++reached;
      return rounded(*rate * portable_power(factor, reached));
    }
    case Decay::warm_restarts: {
      std::uint64_t period = every;
      while (since >= period) {
        since -= period;
        // A period that is longer than any training need not grow.
        if (period <= (std::numeric_limits<std::uint64_t>::max)() / growth) period *= growth;
        if (growth == 1) since %= period;
      }
      const double share =
          detail::cosine_share(static_cast<double>(since) / static_cast<double>(period));
      return rounded(*rate * fused_multiply_add(1 - final_ratio, share, final_ratio));
    }
    case Decay::own: {
      const double share = function(since);
      if (!(share >= 0) || std::isinf(share))
        fail(error_id::operator_value, "Schedule", soma::quoted(name),
             to_text(share) + " at step " + std::to_string(since), "a finite number, at least 0");
      return rounded(*rate * share);
    }
    default:
      return *rate;
  }
}

SOMA_INLINE double Schedule::one_cycle(std::uint64_t step) const {
  // Step warmup - 1 has the rate, and the last step the end.
  if (step + 1 < warmup) {
    const double share =
        detail::cosine_share(static_cast<double>(step) / static_cast<double>(warmup - 1));
    return rounded(*rate * fused_multiply_add(start_ratio - 1, share, 1.0));
  }
  const std::uint64_t at = step < steps ? step : steps - 1;
  const double share = detail::cosine_share(static_cast<double>(at + 1 - warmup) /
                                            static_cast<double>(steps - warmup));
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
