// Steps of every optimizer to run on the host and on a core: what they start from, their settings,
// and weight and states after them.
#pragma once

#include <soma/ops/all.hpp>
#include <soma/soma.hpp>
#include <soma/testing.hpp>

#include "catch.hpp"
#include "support/on_device.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace soma_test {

enum class Kind { sgd, adam, lamb };
inline constexpr Kind kinds[] = {Kind::sgd, Kind::adam, Kind::lamb};
inline const char* name_of(Kind kind) {
  return kind == Kind::sgd ? "sgd" : kind == Kind::adam ? "adam" : "lamb";
}

// The kind of numbers from which a step starts.
enum class Numbers {
  ordinary,
  exact,    // nothing is rounded before it is stored: the root of v is a power of two
  moments,  // the same of m and v only, with any v
};

struct StepCase {
  Kind kind = Kind::adam;
  soma::Shape shape{5};
  soma::DType weight = soma::DType::fp32, state = soma::DType::fp32, gradient = soma::DType::fp32;
  soma::Rounding weight_rounding{}, state_rounding{};
  bool sparse = false;
  Numbers numbers = Numbers::ordinary;
};

inline std::string describe(const StepCase& c) {
  return std::string(name_of(c.kind)) + " " + to_string(c.shape) + " weight " +
         std::string(to_string(c.weight)) + " " + std::string(to_string(c.weight_rounding.mode)) +
         ", states " + std::string(to_string(c.state)) + " " +
         std::string(to_string(c.state_rounding.mode)) + ", gradient " +
         std::string(to_string(c.gradient)) + (c.sparse ? " sparse" : "");
}

// -1 to 1, the same for the same element.
inline double number(std::size_t array, std::size_t i) {
  const soma::PhiloxCounter words = soma::philox4x32_10(
      {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(array), 0, 0}, {});
  return static_cast<double>(words[0]) * 0x1p-31 - 1;
}
inline double sign(double value) { return value < 0 ? -1 : 1; }

// Elements of weight (0), gradient (1), m or momentum (2), v (3).
inline double element(const StepCase& c, std::size_t array, std::size_t i) {
  const double x = number(array, i);
  const double gradient = sign(number(1, i)) * (i % 3 == 0 ? 2 : 1);
  if (c.numbers == Numbers::ordinary) return array == 3 ? x * x * 0.01 : array == 1 ? x * 0.1 : x;
  switch (array) {
    case 1:
      return gradient;
    case 3:
      return c.numbers == Numbers::exact ? gradient * gradient
                                         : std::round(std::fabs(x) * 2047) / 1024;
    case 0:
      if (c.kind == Kind::lamb) return 0;  // the trust ratio is then 1
      [[fallthrough]];
    default:
      return std::round(x * 2047) / 1024;
  }
}

inline soma::Tensor tensor(soma::Context& context, const soma::Shape& shape, soma::DType dtype,
                           const std::vector<double>& values) {
  const soma::Tensor result = soma::Tensor::empty(context, shape, dtype);
  for (std::size_t i = 0; i < values.size(); ++i)
    soma::testing::detail::store(result.mutable_raw() + i * soma::size_of(dtype), dtype, values[i]);
  return result;
}

// Rows 1, 4, 5, 9 ... of a table.
inline bool touched(std::size_t row) { return row % 5 == 4 || row % 7 == 1; }

struct Problem {
  std::vector<soma::Tensor> inputs;
  std::vector<double> dense_gradient;
};
inline Problem make_problem(soma::Context& context, const StepCase& c, bool sparse) {
  const std::size_t elements = c.shape.elements(), rows = c.shape[0];
  const std::size_t columns = rows == 0 ? 0 : elements / rows;
  const auto values = [&](std::size_t array) {
    std::vector<double> result(elements);
    for (std::size_t i = 0; i < elements; ++i) result[i] = element(c, array, i);
    return result;
  };
  Problem problem;
  problem.dense_gradient = values(1);
  std::vector<double> kept;
  std::vector<std::int64_t> numbers;
  for (std::size_t row = 0; c.sparse && row < rows; ++row) {
    const auto begin = problem.dense_gradient.begin() + static_cast<std::ptrdiff_t>(row * columns);
    const auto end = begin + static_cast<std::ptrdiff_t>(columns);
    if (touched(row)) {
      numbers.push_back(static_cast<std::int64_t>(row));
      kept.insert(kept.end(), begin, end);
    } else {
      std::fill(begin, end, 0.0);
    }
  }
  soma::Tensor gradient, which;
  if (sparse) {
    gradient = tensor(context, c.shape.with(0, numbers.size()), c.gradient, kept);
    which = soma::Tensor::from(context, std::span<const std::int64_t>(numbers),
                               soma::Shape{numbers.size()});
  } else {
    gradient = tensor(context, c.shape, c.gradient, problem.dense_gradient);
  }
  for (double& value : problem.dense_gradient)
    value = soma::testing::detail::stored(c.gradient, value);
  problem.inputs = {tensor(context, c.shape, c.weight, values(0)), gradient, which,
                    tensor(context, c.shape, c.state, values(2))};
  if (c.kind != Kind::sgd) problem.inputs.push_back(tensor(context, c.shape, c.state, values(3)));
  return problem;
}

inline constexpr std::uint64_t seed = 0x123456789ABCDEFu;

inline soma::SgdSetting sgd_setting(const StepCase& c) {
  soma::SgdSetting setting{.rate = 0.1f,
                           .momentum = 0.9f,
                           .dampening = 0.1f,
                           .weight_decay = 0.01f,
                           .gradient_factor = 0.7f,
                           .nesterov = true};
  if (c.numbers != Numbers::ordinary)
    setting = {.rate = 0.125f, .momentum = 0.5f, .weight_decay = 0.5f};
  setting.weight = c.weight_rounding;
  setting.state = c.state_rounding;
  setting.seed = seed;
  setting.stream = 40;
  setting.step = 3;
  return setting;
}
inline soma::AdamSetting adam_setting(const StepCase& c) {
  soma::AdamSetting setting{.decay_factor = 0.999f,
                            .step_size = 0.02f,
                            .inverse_root_correction2 = 20,
                            .gradient_factor = 0.7f};
  if (c.numbers != Numbers::ordinary)
    setting = {.beta1 = 0.5f,
               .beta2 = 0.5f,
               .epsilon = 0x1p-149f,
               .one_minus_beta1 = 0.5f,
               .one_minus_beta2 = 0.5f,
               .decay_factor = 0.5f,
               .step_size = 0.125f};
  setting.weight = c.weight_rounding;
  setting.state = c.state_rounding;
  setting.seed = seed;
  setting.stream = 40;
  setting.step = 3;
  return setting;
}
inline soma::LambSetting lamb_setting(const StepCase& c) {
  soma::LambSetting setting{.rate = 0.05f,
                            .weight_decay = 0.1f,
                            .inverse_correction1 = 3,
                            .inverse_root_correction2 = 20,
                            .gradient_factor = 0.7f};
  if (c.numbers != Numbers::ordinary)
    setting = {.rate = 0.125f,
               .beta1 = 0.5f,
               .beta2 = 0.5f,
               .epsilon = 0x1p-149f,
               .weight_decay = 0.5f,
               .one_minus_beta1 = 0.5f,
               .one_minus_beta2 = 0.5f};
  setting.weight = c.weight_rounding;
  setting.state = c.state_rounding;
  setting.seed = seed;
  setting.stream = 40;
  setting.step = 3;
  return setting;
}

inline void run_step(soma::Context& context, const StepCase& c, const Problem& problem) {
  switch (c.kind) {
    case Kind::sgd:
      soma::run(context, soma::ops::sgd_step, sgd_setting(c), problem.inputs);
      break;
    case Kind::adam:
      soma::run(context, soma::ops::adam_step, adam_setting(c), problem.inputs);
      break;
    case Kind::lamb:
      soma::run(context, soma::ops::lamb_step, lamb_setting(c), problem.inputs);
      break;
  }
}

// Weight and states after a step.
using State = std::vector<std::vector<double>>;
inline State state_of(const Problem& problem) {
  State state;
  for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
    if (i == 1 || i == 2) continue;
    std::vector<double> values;
    for (std::size_t e = 0; e < problem.inputs[i].elements(); ++e)
      values.push_back(soma::testing::detail::element_of(problem.inputs[i], e));
    state.push_back(values);
  }
  return state;
}

struct How {
  int threads = 1;
  std::uint64_t stress = 0;
  bool sparse_as_dense = false;
};
inline State on_device(const StepCase& c, const How& how = {}) {
  auto context = soma::make_context({.threads = how.threads});
  const Problem problem = make_problem(context, c, c.sparse && !how.sparse_as_dense);
  const OnDevice on(context, stressed(how.stress));
  run_step(context, c, problem);
  CHECK(on.device().counts().size() == 1);
  CHECK(on.device().counts()[0].programs == 1);
  return state_of(problem);
}

}  // namespace soma_test
