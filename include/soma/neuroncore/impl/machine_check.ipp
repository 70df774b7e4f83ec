#pragma once
// The functions of machine_check.hpp.

#include <soma/neuroncore/machine_check.hpp>

#include <soma/neuroncore/faults.hpp>
#include <soma/neuroncore/machine.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE const Machine& checked(const Machine& machine) {
  const auto refuse = [](std::string_view field, const std::string& value, std::string_view range) {
    fail(error_id::neuroncore_machine, "machine", field, value, range);
  };
  for (const detail::MachineCount& count : detail::machine_counts) {
    const std::size_t value = machine.*count.field;
    if ((value == 0 && !count.may_be_zero) || value > count.most)
      refuse(count.name, std::to_string(value),
             (count.may_be_zero ? "0 to " : "1 to ") + std::to_string(count.most));
  }
  constexpr double most = 1e9;
  for (const detail::MachineNumber& number : detail::machine_numbers) {
    const double value = machine.*number.field;
    const bool in_range = (number.may_be_zero ? value >= 0 : value > 0) && value <= most;
    if (!in_range)  // NaN is in no range
      refuse(number.name, text_of(value),
             number.may_be_zero ? "0 to 1e+09" : "above 0, up to 1e+09");
  }
  const MachineRules& rules = machine.rules;
  for (const double rate : {rules.vector_fast.contiguous, rules.vector_fast.other,
                            rules.scalar_fast.contiguous, rules.scalar_fast.other})
    if (!(rate > 0 && rate <= most))
      refuse("rules", text_of(rate) + " elements a cycle", "above 0, up to 1e+09");
  if (machine.dtypes == 0) refuse("dtypes", "0", "at least one type");
  return machine;
}

}  // namespace SOMA_NAMESPACE::neuroncore
