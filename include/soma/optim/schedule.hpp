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

namespace SOMA_NAMESPACE {
class FieldVisitor;  // ops/fields.hpp
}

namespace SOMA_NAMESPACE::optim {

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
  std::uint64_t every = 1;     // steps; step, exponential
  double factor = 0.1;         // step, exponential, plateau
  std::uint64_t patience = 2;  // plateau: evaluations without improvement before a reduction
  // plateau: an evaluation improves on the best if it is better by more than this share of the
  // best's size; 0: if it is better at all.
  double threshold = 1e-4;

  // True if a run of another length has other learning rates from its first step on.
  bool depends_on_steps() const { return decay == Decay::linear || decay == Decay::cosine; }

  // Error operator.value: linear or cosine without steps, a number out of its range.
  void check() const;
  // The same checks except `steps`, for a schedule that gets its length later.
  void check_settings() const;

  // The learning rate of step 0, 1 ...; `reductions`: those of Plateau so far. Errors of check().
  double operator()(std::uint64_t step, std::uint64_t reductions = 0) const;
};
void fields(FieldVisitor& visitor, Schedule& schedule);

// The memory of a plateau schedule over evaluations. Every evaluation that is no improvement counts
// against its patience, one that equals the best as well: a plateau may be flat.
struct Plateau {
  double best = 0;  // of the last improvement
  bool known = false;
  std::uint64_t worse = 0;       // evaluations since the last improvement or reduction
  std::uint64_t reductions = 0;  // reductions of the learning rate so far

  // The value of an evaluation; higher is better. It is an improvement if it exceeds the best by
  // more than `threshold` times the best's absolute value; the first value always is, NaN never.
  void add(double value, std::uint64_t patience, double threshold = Schedule{}.threshold);
};

}  // namespace SOMA_NAMESPACE::optim

#ifndef SOMA_DISPATCH
#include <soma/optim/impl/schedule.ipp>
#endif
