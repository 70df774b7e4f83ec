#pragma once
// Parameter: a trained tensor under a name. Several parameters may share one variable, each with
// some of its rows: a model may keep the projections of attention in one matrix and still give them
// the names that checkpoints use.

#include <soma/autograd/var.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE {

// The role of a parameter in its module, which the module sets when it registers the parameter.
enum class ParameterRole : std::uint8_t {
  unknown,  // not set: a matrix counts as a weight, a vector or a number does not
  weight,
  bias,
  scale,    // the scale of a norm
  adapter,  // a matrix of an adapter (nn/lora.hpp): stays fp32 in every precision
};

struct Parameter {
  std::string name;
  Var var;
  std::size_t first_row = 0, last_row = to_end;  // rows of the variable
  ParameterRole role = ParameterRole::unknown;

  // True if weight decay is usual for the parameter: for weights, but not for biases and the scales
  // of norms.
  bool decays() const;

  bool whole() const { return first_row == 0 && last_row == to_end; }
  // A view: writing to it writes to the variable.
  Tensor value() const;
  // Not defined() if no gradient came. Sparse only if the parameter is the whole variable. The
  // variable may have a gradient for adjacent rows only: this returns the parameter's share of
  // these rows, which may be empty. Error operator.value: some rows of a variable whose gradient is
  // sparse.
  Gradient gradient() const;
};

using Parameters = std::vector<Parameter>;

void clear_gradients(const Parameters& parameters);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/autograd/impl/parameter.ipp>
#endif
