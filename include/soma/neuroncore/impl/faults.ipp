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

SOMA_INLINE std::string CallSite::text() const {
  std::string result(name);
  if (source.line != 0)
    result.append(" at ")
        .append(without_folders(source.file))
        .append(":")
        .append(std::to_string(source.line));
  return result;
}

SOMA_INLINE void rule_broken(const CallSite& call, std::string_view operand,
                             const std::string& value, std::string_view limit) {
  fail(error_id::neuroncore_rule_broken, call.text(), operand, value, limit);
}

SOMA_INLINE void undefined(const CallSite& call, std::string_view operand, const std::string& value,
                           std::string_view limit) {
  fail(error_id::neuroncore_undefined, call.text(), operand, value, limit);
}

SOMA_INLINE void undisclosed(const CallSite& call, std::string_view operand,
                             const std::string& value, std::string_view limit) {
  fail(error_id::neuroncore_undisclosed, call.text(), operand, value, limit);
}

SOMA_INLINE void not_implemented(const CallSite& call, std::string_view operand,
                                 const std::string& value, std::string_view limit) {
  fail(error_id::neuroncore_not_implemented, call.text(), operand, value, limit);
}

SOMA_INLINE void no_such_thing(const CallSite& call, std::string_view operand,
                               std::string_view thing, std::string_view machine,
                               std::size_t first_generation) {
  fail(error_id::neuroncore_generation, call.text(), operand,
       std::string(thing) + " on " + std::string(machine),
       "NeuronCore-v" + std::to_string(first_generation));
}

SOMA_INLINE void layout_broken(const CallSite& call, std::string_view operand,
                               const std::string& value, std::string_view limit) {
  fail(error_id::neuroncore_rule, call.text(), operand, value, limit);
}

SOMA_INLINE void at_most(const CallSite& call, std::string_view operand, std::size_t value,
                         std::size_t limit, std::string_view what) {
  if (value > limit)
    rule_broken(call, operand, std::to_string(value) + " " + std::string(what),
                "at most " + std::to_string(limit));
}

}  // namespace SOMA_NAMESPACE::neuroncore
