#pragma once
// WeightAverage: an exponential moving average of a run's weights (TrainerOptions::average), in
// fp32. Weights of single steps scatter around a better point, which the average is closer to
// ("Acceleration of Stochastic Approximation by Averaging", Polyak and Juditsky 1992).

#include <soma/autograd/parameter.hpp>
#include <soma/state/state_dict.hpp>
#include <soma/train/options.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace SOMA_NAMESPACE::train {

class WeightAverage {
 public:
  // Not set: there is no average, and all members do nothing.
  explicit WeightAverage(Context& context, const std::optional<AverageOptions>& options);
  WeightAverage(const WeightAverage&) = delete;
  WeightAverage& operator=(const WeightAverage&) = delete;

  // True if update() changes the average after this step.
  bool is_due(std::uint64_t step) const;
  // The weights of step AverageOptions::from become the average; those of later steps join it: one
  // pass over both, on all threads.
  void update(const Parameters& parameters);
  // Forgets the average, at the beginning of a run.
  void clear();
  bool defined() const;

  // Writes the average into the parameters, rounded to nearest where they are narrower.
  void give(const Parameters& parameters) const;

  // For checkpoints, beside the states of the optimizer: "<parameter>.average". The tensors are
  // those of the average, or, in the part of a rank that writes no rows, none of their rows.
  void add_to(StateDict& optimizer, bool rows) const;
  // Removes them, and continues from them. Errors state.shape, state.dtype.
  void take_from(StateDict& optimizer, const Parameters& parameters);

 private:
  static constexpr std::string_view ending = ".average";

  Context& context_;
  std::optional<AverageOptions> options_;
  StateDict average_{};  // by the names of parameters, fp32
};

// While it lives, parameters have their averages, where there are some.
class AveragedWeights {
 public:
  AveragedWeights(Context& context, const WeightAverage& average, const Parameters& parameters);
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;
  ~AveragedWeights();

 private:
  const Parameters& parameters_;
  StateDict kept_{};
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/weight_average.ipp>
#endif
