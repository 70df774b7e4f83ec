#pragma once
// The functions of freeze.hpp.

#include <soma/nn/freeze.hpp>

#include <soma/autograd/parameter.hpp>
#include <soma/base/name_pattern.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::nn::detail {

SOMA_INLINE std::size_t set_frozen(std::string_view operation, const Parameters& parameters,
                                   std::string_view pattern, bool frozen) {
  std::size_t count = 0;
  for (const Parameter& parameter : parameters) {
    if (!name_matches(pattern, parameter.name)) continue;
    ++count;
    if (parameter.whole()) continue;
    for (const Parameter& other : parameters)
      if (other.var.is(parameter.var) && !name_matches(pattern, other.name))
        fail(error_id::operator_value, operation, "pattern", soma::quoted(pattern),
             "one that also names " + soma::quoted(other.name) + ", which is in the variable of " +
                 soma::quoted(parameter.name));
  }
  if (count == 0)
    fail(error_id::missing_name, operation, "pattern", soma::quoted(pattern),
         parameters.empty() ? std::string("the name of a parameter; there are none")
                            : "the name of a parameter, such as " +
                                  soma::quoted(parameters.front().name) + ", or a pattern with *");
  for (const Parameter& parameter : parameters)
    if (name_matches(pattern, parameter.name)) parameter.var.set_frozen(frozen);
  return count;
}

}  // namespace SOMA_NAMESPACE::nn::detail

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE std::size_t freeze(const Parameters& parameters, std::string_view pattern) {
  return detail::set_frozen("freeze", parameters, pattern, true);
}

SOMA_INLINE std::size_t unfreeze(const Parameters& parameters, std::string_view pattern) {
  return detail::set_frozen("unfreeze", parameters, pattern, false);
}

}  // namespace SOMA_NAMESPACE::nn
