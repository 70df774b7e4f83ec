#pragma once
// The functions of parameter.hpp.

#include <soma/autograd/parameter.hpp>

#include <soma/autograd/var.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE bool Parameter::decays() const {
  return role == ParameterRole::weight || role == ParameterRole::adapter ||
         (role == ParameterRole::unknown && var.value().rank() >= 2);
}

SOMA_INLINE Tensor Parameter::value() const {
  return whole() ? var.value() : var.value().slice(0, first_row, last_row);
}

SOMA_INLINE Gradient Parameter::gradient() const {
  const Gradient& all = var.gradient();
  if (whole() || !all.defined()) return all;
  if (all.sparse())
    fail(error_id::operator_value, "Parameter::gradient", name, "some rows of a sparse gradient",
         "a variable with a dense one");
  const std::size_t last = all.first_row + all.values.size(0);
  const std::size_t begin = (std::clamp)(first_row, all.first_row, last);
  const std::size_t end = (std::clamp)(last_row, begin, last);
  Gradient own{all.values.slice(0, begin - all.first_row, end - all.first_row), {}};
  own.first_row = begin > first_row ? begin - first_row : 0;
  return own;
}

SOMA_INLINE void clear_gradients(const Parameters& parameters) {
  for (const Parameter& parameter : parameters) parameter.var.clear_gradient();
}

}  // namespace SOMA_NAMESPACE
