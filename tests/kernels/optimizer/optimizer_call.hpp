// Runs of a parameter with its states, arguments to step them with, and the defined order of
// rounding of each step: what tests of the optimizer kernels share.
#pragma once

#include <soma/kernels/table.hpp>
#include <soma/soma.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace soma_test {

using Floats = std::vector<float>;

// Draws of a normal distribution, times `size`.
inline Floats normal(std::size_t count, std::uint64_t seed, float size = 1) {
  auto context = soma::make_context({.threads = 1});
  Floats values(count);
  soma::fill_normal(context, values, {.seed = seed});
  for (float& value : values) value *= size;
  return values;
}

inline Floats magnitudes(Floats values) {
  for (float& value : values) value = std::fabs(value);
  return values;
}

// Parameter, gradient and states of a run, in fp32.
struct Run {
  Floats w, g, m, v;
};

inline Run some_run(std::size_t count) {
  return {normal(count, 1), normal(count, 2, 0.1f), normal(count, 3, 0.05f),
          magnitudes(normal(count, 4, 0.01f))};
}

// ---- the defined order of rounding, one element at a time

inline float zero_below(float smallest, float x) { return std::fabs(x) < smallest ? 0.0f : x; }

inline void sgd_in_order(const soma::SgdArgs& a, float& w, float& b, float g) {
  g = std::fma(a.weight_decay, w, g * a.gradient.factor);
  float step = g;
  if (a.momentum_state.data != nullptr) {
    const float share = (1.0f - a.dampening) * g;
    b = a.first_step ? g : std::fma(a.momentum, b, share);
    b = zero_below(soma::smallest_first_moment, b);
    step = a.nesterov ? std::fma(a.momentum, b, g) : b;
  }
  w = std::fma(-a.rate, step, w);
}

template <class Args>
void moments_in_order(const Args& a, float& m, float& v, float g) {
  g *= a.gradient.factor;
  const float share1 = a.one_minus_beta1 * g, share2 = a.one_minus_beta2 * g;
  m = zero_below(soma::smallest_first_moment, std::fma(a.beta1, m, share1));
  v = std::fma(a.beta2, v, share2 * g);
  if (m == 0) v = zero_below(soma::smallest_second_moment, v);
}

inline void adam_in_order(const soma::AdamArgs& a, float& w, float& m, float& v, float g) {
  moments_in_order(a, m, v, g);
  const float divisor = std::fma(std::sqrt(v), a.inverse_root_correction2, a.epsilon);
  w = std::fma(a.decay_factor, w, -(a.step_size * m / divisor));
}

inline float lamb_in_order(const soma::LambArgs& a, float w, float& m, float& v, float g) {
  moments_in_order(a, m, v, g);
  const float divisor = std::fma(std::sqrt(v), a.inverse_root_correction2, a.epsilon);
  return std::fma(a.weight_decay, w, m * a.inverse_correction1 / divisor);
}

// ---- arguments for step `t`

inline soma::SgdArgs sgd_args(Run& run) {
  return {.rows = {1, run.w.size()},
          .weight = {.data = run.w.data()},
          .momentum_state = {.data = run.m.data()},
          .gradient = {.data = run.g.data(), .factor = 0.7f},
          .rate = 0.05f,
          .momentum = 0.9f,
          .dampening = 0.1f,
          .weight_decay = 0.01f};
}

inline constexpr double rate = 0.01, beta1 = 0.9, beta2 = 0.999, decay = 0.1;

template <class Args>
Args moment_args(Run& run) {
  Args args{};
  if constexpr (requires { args.rows; })
    args.rows.columns = run.w.size();
  else
    args.count = run.w.size();
  args.weight.data = run.w.data();
  args.m.data = run.m.data();
  args.v.data = run.v.data();
  args.gradient = {.data = run.g.data(), .factor = 0.7f};
  args.beta1 = static_cast<float>(beta1);
  args.beta2 = static_cast<float>(beta2);
  args.one_minus_beta1 = static_cast<float>(1 - beta1);
  args.one_minus_beta2 = static_cast<float>(1 - beta2);
  return args;
}

inline soma::AdamArgs adam_args(Run& run, int t) {
  auto args = moment_args<soma::AdamArgs>(run);
  args.decay_factor = static_cast<float>(1 - rate * decay);
  args.step_size = static_cast<float>(rate / (1 - std::pow(beta1, t)));
  args.inverse_root_correction2 = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, t)));
  return args;
}

inline soma::LambArgs lamb_args(Run& run, int t, Floats& update) {
  auto args = moment_args<soma::LambArgs>(run);
  args.weight_decay = static_cast<float>(decay);
  args.inverse_correction1 = static_cast<float>(1 / (1 - std::pow(beta1, t)));
  args.inverse_root_correction2 = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, t)));
  args.update = update.data();
  return args;
}

}  // namespace soma_test
