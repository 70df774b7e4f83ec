#pragma once
// What an instruction that a core cannot run ends in. Every error names the instruction, the
// operand, the value and the limit, and its id is the class of the fault:
//
//   neuroncore.rule_broken      the hardware's documents forbid it
//   neuroncore.undefined        they allow it and say that the result is not defined
//   neuroncore.undisclosed      they do not say what happens, and no policy was chosen for it
//   neuroncore.not_implemented  the hardware does it; this model does not
//   neuroncore.race             two instructions touch the same bytes and nothing orders them

#include <soma/base/error.hpp>

#include <charconv>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

namespace soma::neuroncore {

[[noreturn]] inline void rule_broken(std::string_view instruction, std::string_view operand,
                                     const std::string& value, std::string_view limit) {
  fail(error_id::neuroncore_rule_broken, instruction, operand, value, limit);
}
[[noreturn]] inline void undefined(std::string_view instruction, std::string_view operand,
                                   const std::string& value, std::string_view limit) {
  fail(error_id::neuroncore_undefined, instruction, operand, value, limit);
}
[[noreturn]] inline void undisclosed(std::string_view instruction, std::string_view operand,
                                     const std::string& value, std::string_view limit) {
  fail(error_id::neuroncore_undisclosed, instruction, operand, value, limit);
}
[[noreturn]] inline void not_implemented(std::string_view instruction, std::string_view operand,
                                         const std::string& value, std::string_view limit) {
  fail(error_id::neuroncore_not_implemented, instruction, operand, value, limit);
}

// The shortest decimal text that reads back as the same number.
template <std::floating_point Number>
std::string text_of(Number value) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

// value <= limit, else a broken rule.
inline void at_most(std::string_view instruction, std::string_view operand, std::size_t value,
                    std::size_t limit, std::string_view what) {
  if (value > limit)
    rule_broken(instruction, operand, std::to_string(value) + " " + std::string(what),
                "at most " + std::to_string(limit));
}

}  // namespace soma::neuroncore
