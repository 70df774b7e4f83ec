#pragma once
// Schedules: the learning rate of each step, as a value. It is computed in double with portable
// functions, so it is the same on every machine.

#include <soma/base/error.hpp>
#include <soma/numeric/portable_math.hpp>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

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
  milestones,   // rate * factor^k, where k counts the milestones that t has reached
  // One cycle (arXiv 1708.07120): the warm-up rises along half a cosine, from rate * start_ratio to
  // rate; then the rate falls along half a cosine to rate * final_ratio in the last step.
  one_cycle,
  // Cosines that start anew (arXiv 1608.03983): the first takes `every` steps, each later one
  // `growth` times the steps of the one before; from rate down to rate * final_ratio.
  warm_restarts,
  own,  // rate * function(t): Schedule::of()
};
inline constexpr std::string_view decay_names[] = {
    "constant", "linear",     "cosine",    "step",          "exponential",
    "plateau",  "milestones", "one_cycle", "warm_restarts", "own"};

// A factor of the learning rate for each step: any function object that can be copied and gives the
// same number for the same step. Empty by default.
class RateFunction {
 public:
  RateFunction() = default;
  template <class Function>
  requires(!std::same_as<Function, RateFunction> &&
           std::is_invocable_r_v<double, const Function&, std::uint64_t>)
      RateFunction(Function function)
      : kept_(new Holder<Function>(std::move(function))) {}
  RateFunction(const RateFunction& other);
  RateFunction(RateFunction&& other) noexcept;
  RateFunction& operator=(RateFunction other) noexcept;
  ~RateFunction();

  explicit operator bool() const { return kept_ != nullptr; }
  double operator()(std::uint64_t step) const;

 private:
  struct Kept {
    virtual ~Kept() = default;
    virtual Kept* copy() const = 0;
    virtual double call(std::uint64_t step) const = 0;
  };
  template <class Function>
  struct Holder final : Kept {
    explicit Holder(Function f) : function(std::move(f)) {}
    Kept* copy() const override { return new Holder(function); }
    double call(std::uint64_t step) const override { return function(step); }
    Function function;
  };
  Kept* kept_ = nullptr;
};

// The learning rate rises linearly over the warm-up (step 0 has rate / warmup, step warmup - 1 has
// rate; one_cycle rises otherwise), then follows `decay`. linear and cosine would reach their end
// in step number `steps`, which is the step after the last, so that every step has an effect.
struct Schedule {
  std::optional<double> rate{};  // not set: the trainer takes the task's
  Decay decay = Decay::constant;
  std::uint64_t warmup = 0;    // steps; 0: none
  std::uint64_t steps = 0;     // in the whole training, for a decay that depends on them
  double final_ratio = 0;      // 0 to 1: linear, cosine, one_cycle, warm_restarts; the least with
                               // plateau
  std::uint64_t every = 1;     // steps, at least 1: step, exponential, warm_restarts
  double factor = 0.1;         // above 0, at most 1: step, exponential, plateau, milestones
  std::uint64_t patience = 2;  // plateau: evaluations without improvement before a reduction
  // plateau: an evaluation improves on the best if it is better by more than this share of the
  // best's size; 0: if it is better at all.
  double threshold = 1e-4;
  std::vector<std::uint64_t> milestones{};  // ascending, in steps since the warm-up
  double start_ratio = 0.04;                // 0 to 1: one_cycle
  std::uint64_t growth = 1;                 // at least 1: warm_restarts
  RateFunction function{};                  // own
  std::string name{};                       // the function's

  // rate * function(t) with a function of the host's own, which is called again for any step and
  // must give the same. Its name is part of a run's identity, because a function cannot be
  // compared: give another function another name. Error operator.value: no name.
  static Schedule of(RateFunction function, std::string name);

  // True if a run of another length has other learning rates from its first step on.
  bool depends_on_steps() const {
    return decay == Decay::linear || decay == Decay::cosine || decay == Decay::one_cycle;
  }

  // Error operator.value: no steps for a decay that depends on them, a number out of its range,
  // milestones that do not ascend, no function.
  void check() const;
  // The same checks except `steps`, for a schedule that gets its length later.
  void check_settings() const;

  // The learning rate of step 0, 1 ...; `reductions`: those of Plateau so far. Errors of check().
  // operator.value: a function's factor that is below 0 or not finite.
  double operator()(std::uint64_t step, std::uint64_t reductions = 0) const;

 private:
  double fallen(std::uint64_t since) const;
  double one_cycle(std::uint64_t step) const;
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
