#pragma once
// The functions of state.hpp.

#include <soma/nn/state.hpp>

#include <soma/autograd/parameter.hpp>
#include <soma/state/state_dict.hpp>

#include <string>
#include <vector>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE StateDict state_dict(const Parameters& parameters) {
  StateDict state;
  for (const Parameter& parameter : parameters) state.set(parameter.name, parameter.value());
  return state;
}

SOMA_INLINE Parameters trained(const Parameters& parameters) {
  Parameters result;
  for (const Parameter& parameter : parameters)
    if (!parameter.var.frozen()) result.push_back(parameter);
  return result;
}

SOMA_INLINE std::vector<std::string> load(const Parameters& parameters, const StateDict& state,
                                          const CopyIntoOptions& options) {
  return copy_into(state, state_dict(parameters), options);
}

}  // namespace SOMA_NAMESPACE::nn
