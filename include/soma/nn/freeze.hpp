#pragma once
// freeze(): parameters that a training leaves as they are.
//
//   soma::nn::freeze(model, "bert.encoder.layer.*");  // before the trainer is made
//   soma::nn::unfreeze(model, "bert.encoder.layer.11.*");
//
// A frozen parameter is a constant on tapes: backward ends above the lowest layer that is trained.
// It has no gradient and no moments, stays in files and checkpoints, and is part of a run's
// identity: a checkpoint is resumed with the same frozen parameters.

#include <soma/autograd/parameter.hpp>
#include <soma/nn/scope.hpp>

#include <cstddef>
#include <string_view>

namespace SOMA_NAMESPACE::nn {

// Freezes the parameters whose names match a pattern, in which `*` stands for any characters, and
// returns how many. Errors state.missing_name: none matches; operator.value: the pattern names one
// part of a variable but not another (queries and keys of attention, for example, share one).
std::size_t freeze(const Parameters& parameters, std::string_view pattern = "*");
std::size_t unfreeze(const Parameters& parameters, std::string_view pattern = "*");

template <class Model>
requires requires(const Model& model, Collector& collector) { model.collect(collector); }
std::size_t freeze(const Model& model, std::string_view pattern = "*") {
  return freeze(parameters(model), pattern);
}
template <class Model>
requires requires(const Model& model, Collector& collector) { model.collect(collector); }
std::size_t unfreeze(const Model& model, std::string_view pattern = "*") {
  return unfreeze(parameters(model), pattern);
}

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/freeze.ipp>
#endif
