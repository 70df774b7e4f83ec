#pragma once
// What optimizers share: groups of parameters, states stored in a type of their own, and the draws
// of stochastic rounding.

#include <soma/autograd/parameter.hpp>
#include <soma/numeric/portable_math.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/optim/gradients.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace soma::optim {

// Parameters that are stepped alike.
struct Group {
  Parameters parameters;
  float weight_decay = 0;
  float rate_factor = 1;  // of the optimizer's rate
};

// The usual two groups: biases and norms without weight decay (names that end in ".bias", or
// contain "norm"), everything else with it.
inline std::vector<Group> decay_groups(const Parameters& parameters, float weight_decay) {
  const auto exempt = [](std::string_view name) {
    std::string lower(name);
    for (char& letter : lower)
      if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    return lower.ends_with("bias") || lower.find("norm") != std::string::npos;
  };
  std::vector<Group> groups(2);
  groups[0].weight_decay = weight_decay;
  for (const Parameter& parameter : parameters)
    groups[exempt(parameter.name) ? 1 : 0].parameters.push_back(parameter);
  return groups;
}

// How states are stored, and how stored numbers are rounded when a step writes them. Stochastic
// draws are keyed by seed, the parameter's name, the number of the step, and row and column.
struct StepStorage {
  DType state = DType::fp32;
  Rounding state_rounding{};
  Rounding weight_rounding{};  // of parameters that are not fp32
  std::uint64_t seed = 0;
};

// What one call of step() is given.
struct Step {
  double rate = 0;
  // Gradients are multiplied by this as they are read: clipping, 1 / loss scale, 1 / parts.
  float gradient_factor = 1;
};

namespace detail {

// A parameter with its states; only those that have had a gradient have states.
struct Slot {
  Parameter parameter;
  float weight_decay, rate_factor;
  std::uint32_t stream;
  std::uint64_t steps = 0;
  Tensor first{}, second{};
};

inline std::vector<Slot> make_slots(const std::vector<Group>& groups) {
  std::vector<Slot> slots;
  for (const Group& group : groups)
    for (const Parameter& parameter : group.parameters)
      slots.push_back({parameter, group.weight_decay, group.rate_factor,
                       stream_id(parameter.name, "optimizer")});
  return slots;
}

inline void ensure_state(Context& context, Tensor& state, const Slot& slot, DType dtype) {
  if (!state.defined()) state = Tensor::zeros(context, slot.parameter.value().shape(), dtype);
}

}  // namespace detail
}  // namespace soma::optim
