#pragma once
// Schedules: the learning rate of each step, as a value. It is computed in double with portable
// functions, so it is the same on every machine.

#include <soma/base/error.hpp>
#include <soma/numeric/portable_math.hpp>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace soma::optim {

// How the learning rate falls after the warm-up. t is the number of steps since the warm-up, and n
// the number of steps from there to the end of the training:
enum class Decay : std::uint8_t {
  constant,     // rate
  linear,       // rate (1 - t / n), down to rate * final_ratio
  cosine,       // along half a cosine (arXiv 1608.03983), down to rate * final_ratio
  step,         // rate * factor^floor(t / every)
  exponential,  // rate * factor^(t / every)
  plateau,      // rate * factor^k, where k counts how often the chosen metric stopped improving
};
inline constexpr std::string_view decay_names[] = {"constant", "linear",      "cosine",
                                                   "step",     "exponential", "plateau"};

// The learning rate rises linearly over the warm-up (step 0 has rate / warmup, step warmup - 1 has
// rate), then follows `decay`. linear and cosine would reach their end in step number `steps`,
// which is the step after the last, so that every step has an effect.
struct Schedule {
  std::optional<double> rate{};  // not set: the trainer takes the task's
  Decay decay = Decay::constant;
  std::uint64_t warmup = 0;
  std::uint64_t steps = 0;     // steps of the whole training; linear and cosine need them
  double final_ratio = 0;      // linear, cosine; the least share of the rate with plateau
  std::uint64_t every = 1;     // linear, cosine; plateau: the smallest ratio
  double factor = 0.1;         // step, exponential, plateau
  std::uint64_t patience = 2;  // plateau: evaluations without improvement before a reduction

  // True if a run of another length has other learning rates from its first step on.
  bool depends_on_steps() const { return decay == Decay::linear || decay == Decay::cosine; }

  // Error operator.value: linear or cosine without steps, a number out of its range.
  void check() const {
    if (depends_on_steps() && steps <= warmup)
      fail(error_id::operator_value, "Schedule", "steps", std::to_string(steps),
           "more than the warm-up, " + std::to_string(warmup));
    check_settings();
  }
  // The same checks except `steps`, for a schedule that gets its length later.
  void check_settings() const {
    const auto demand = [](bool in_range, std::string_view name, double given,
                           std::string_view wanted) {
      if (!in_range)
        fail(error_id::operator_value, "Schedule", name, std::to_string(given), wanted);
    };
    if (!rate) fail(error_id::operator_value, "Schedule", "rate", "none", "the learning rate");
    demand(*rate >= 0 && std::isfinite(*rate), "rate", *rate, "a finite number from 0");
    demand(final_ratio >= 0 && final_ratio <= 1, "final_ratio", final_ratio, "0 to 1");
    demand(factor > 0 && factor <= 1, "factor", factor, "above 0, up to 1");
    demand(every != 0, "every", 0, "at least 1");
    demand(patience != 0, "patience", 0, "at least 1");
  }

  // The learning rate of step 0, 1 ...; `reductions`: those of Plateau so far. Errors of check().
  double operator()(std::uint64_t step, std::uint64_t reductions = 0) const {
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
};

// The memory of a plateau schedule over evaluations. A value that equals the best is neither an
// improvement nor a worsening.
struct Plateau {
  double best = 0;
  bool known = false;
  std::uint64_t worse = 0;       // evaluations since the best, or since the last reduction
  std::uint64_t reductions = 0;  // reductions of the learning rate so far

  // The value of an evaluation; higher is better. NaN is worse than anything.
  void add(double value, std::uint64_t patience) {
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
};

}  // namespace soma::optim
