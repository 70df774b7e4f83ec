#pragma once
// The functions of faults.hpp.

#include <soma/neuroncore/faults.hpp>

#include <soma/base/error.hpp>

#include <charconv>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE void rule_broken(std::string_view instruction, std::string_view operand,
                             const std::string& value, std::string_view limit) {
  fail(error_id::neuroncore_rule_broken, instruction, operand, value, limit);
}

SOMA_INLINE void undefined(std::string_view instruction, std::string_view operand,
                           const std::string& value, std::string_view limit) {
  fail(error_id::neuroncore_undefined, instruction, operand, value, limit);
}

SOMA_INLINE void undisclosed(std::string_view instruction, std::string_view operand,
                             const std::string& value, std::string_view limit) {
  fail(error_id::neuroncore_undisclosed, instruction, operand, value, limit);
}

SOMA_INLINE void not_implemented(std::string_view instruction, std::string_view operand,
                                 const std::string& value, std::string_view limit) {
  fail(error_id::neuroncore_not_implemented, instruction, operand, value, limit);
}

SOMA_INLINE void at_most(std::string_view instruction, std::string_view operand, std::size_t value,
                         std::size_t limit, std::string_view what) {
  if (value > limit)
    rule_broken(instruction, operand, std::to_string(value) + " " + std::string(what),
                "at most " + std::to_string(limit));
}

}  // namespace SOMA_NAMESPACE::neuroncore
