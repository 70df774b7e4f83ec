#pragma once
// The functions of early_steps.hpp.

#include <soma/train/early_steps.hpp>

#include <soma/base/error.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/optim/gradients.hpp>
#include <soma/runtime/float_environment.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE void EarlySteps::begin(optim::Optimizer& optimizer, double rate) {
  optimizer_ = &optimizer;
  step_ = {.rate = rate, .may_be_empty = true};
  sums_.clear();
  squares_.assign(parameters_.size(), 0);
  stepped_ = false;
  finite_ = true;
}

// A parameter gets its gradient when it is complete: the optimizer steps all that have one.
SOMA_INLINE void EarlySteps::receive(const Var& parameter, Gradient addend) {
  if (addend.factor != 1 || addend.rounded)
    fail(error_id::parallel_gradient, "EarlySteps", "gradient of a parameter",
         addend.values.describe() + ", of a part of a batch", "that of a whole batch");
  const auto known = std::find_if(sums_.begin(), sums_.end(),
                                  [&](const auto& sum) { return sum.first.is(parameter); });
  if (known == sums_.end())
    sums_.emplace_back(parameter, std::move(addend));
  else
    context_.built_in().accumulate(context_, known->second, std::move(addend));
}

SOMA_INLINE void EarlySteps::complete(const Var& parameter, DType type) {
  const auto known = std::find_if(sums_.begin(), sums_.end(),
                                  [&](const auto& sum) { return sum.first.is(parameter); });
  if (known == sums_.end()) return;
  parameter.set_gradient(std::exchange(known->second, {}));
  sums_.erase(known);
  round_gradient(context_, parameter, type);
  Parameters own;
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].var.is(parameter)) {
      own.push_back(parameters_[i]);
      indices.push_back(i);
    }
  optim::gradient_norm(context_, own, [&](std::span<double> sums) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      squares_[indices[i]] = sums[i];
      finite_ = finite_ && std::isfinite(sums[i]);
    }
  });
  if (finite_) optimizer_->step(step_);
  stepped_ = true;
  parameter.clear_gradient();
}

SOMA_INLINE void EarlySteps::finish() {
  if (!stepped_) optimizer_->step({.rate = step_.rate});  // refuses
}

SOMA_INLINE double EarlySteps::norm() const {
  const FloatEnvironment environment;
  double total = 0;
  for (const double square : squares_) total += square;
  return std::sqrt(total);
}

}  // namespace SOMA_NAMESPACE::train
