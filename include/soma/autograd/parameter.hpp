#pragma once
// Parameter: a trained tensor under a name. Several may share one variable, each some of its rows:
// a model may keep the projections of attention in one matrix and still call them by the names that
// checkpoints know.

#include <soma/autograd/var.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace soma {

struct Parameter {
  std::string name;
  Var var;
  std::size_t first_row = 0, last_row = to_end;  // of the variable

  bool whole() const { return first_row == 0 && last_row == to_end; }
  // Views: what is written to them is written to the variable.
  Tensor value() const { return whole() ? var.value() : var.value().slice(0, first_row, last_row); }
  // Not defined() where no gradient came. Sparse only where the parameter is the whole variable.
  Gradient gradient() const {
    const Gradient& all = var.gradient();
    if (whole() || !all.defined()) return all;
    if (all.sparse())
      fail(error_id::operator_value, "Parameter::gradient", name, "some rows of a sparse gradient",
           "a variable with a dense one");
    return {all.values.slice(0, first_row, last_row), {}};
  }
};

using Parameters = std::vector<Parameter>;

inline void clear_gradients(const Parameters& parameters) {
  for (const Parameter& parameter : parameters) parameter.var.clear_gradient();
}

}  // namespace soma
