#pragma once
// Parameters as a StateDict, and back.

#include <soma/autograd/parameter.hpp>
#include <soma/state/state_dict.hpp>

#include <string>
#include <vector>

namespace SOMA_NAMESPACE::nn {

// The parameters' tensors under their names; views, nothing is copied. Error state.duplicate_name.
StateDict state_dict(const Parameters& parameters);

// The parameters that are not frozen.
Parameters trained(const Parameters& parameters);

// Copies values into the parameters; the state must have every parameter. Returns the names in the
// state that no parameter has. Errors as of copy_into; nothing is written before all is checked.
std::vector<std::string> load(const Parameters& parameters, const StateDict& state,
                              const CopyIntoOptions& options = {});

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/state.ipp>
#endif
