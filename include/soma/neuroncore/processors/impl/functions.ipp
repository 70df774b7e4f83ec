#pragma once
// The functions of functions.hpp.

#include <soma/neuroncore/processors/functions.hpp>

#include <soma/neuroncore/faults.hpp>
#include <soma/neuroncore/processors/tensors.hpp>
#include <soma/numeric/codec.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE const ProcessorFunction* find_processor_function(std::int32_t function) {
  static constexpr ProcessorFunction all[] = {
      {"abs", 1, false, true, [](double a, double, double) { return std::fabs(a); }},
      {"ceil", 1, false, true, [](double a, double, double) { return std::ceil(a); }},
      {"floor", 1, false, true, [](double a, double, double) { return std::floor(a); }},
      {"sin", 1, false, false, [](double a, double, double) { return std::sin(a); }},
      {"cos", 1, false, false, [](double a, double, double) { return std::cos(a); }},
      {"tan", 1, false, false, [](double a, double, double) { return std::tan(a); }},
      {"log", 1, false, false, [](double a, double, double) { return std::log(a); }},
      {"log2", 1, false, false, [](double a, double, double) { return std::log2(a); }},
      {"log10", 1, false, false, [](double a, double, double) { return std::log10(a); }},
      {"exp", 1, false, false, [](double a, double, double) { return std::exp(a); }},
      {"bitwise_not", 1, true, true},
      {"pow", 2, false, false, [](double a, double b, double) { return std::pow(a, b); }},
      // A product of two fp32 numbers is exact in double, fused or not.
      {"add", 3, false, true, [](double a, double b, double c) { return a + c * b; }},
      {"sub", 3, false, true, [](double a, double b, double c) { return a - c * b; }},
      {"mul", 2, false, true, [](double a, double b, double) { return a * b; }},
      {"div", 2, false, false, [](double a, double b, double) { return a / b; }},
      {"bitwise_and", 2, true, true},
      {"bitwise_or", 2, true, true},
      {"clamp", 3, false, true,
       [](double a, double b, double c) { return a < b ? b : (a > c ? c : a); }},
  };
  static_assert(std::size(all) == SOMA_PROCESSOR_CLAMP + 1);
  return function < 0 || function >= static_cast<std::int32_t>(std::size(all)) ? nullptr
                                                                               : &all[function];
}

}  // namespace SOMA_NAMESPACE::neuroncore

namespace SOMA_NAMESPACE::neuroncore::detail {

SOMA_INLINE double processor_float(const ProcessorTensor& tensor, std::uint64_t i) {
  const FloatFormat& format = format_of(tensor.type());
  std::uint32_t code = 0;
  std::memcpy(&code, tensor.bytes() + i * tensor.width(), tensor.width());
  return static_cast<double>(decode(format, code >> format.storage_shift()));
}

SOMA_INLINE void put_processor_float(const ProcessorTensor& tensor, std::uint64_t i, double value) {
  const FloatFormat& format = format_of(tensor.type());
  const std::uint32_t code = encode(format, static_cast<float>(value)) << format.storage_shift();
  std::memcpy(tensor.bytes() + i * tensor.width(), &code, tensor.width());
}

SOMA_INLINE std::int64_t processor_integer(const ProcessorTensor& tensor, std::uint64_t i) {
  std::int64_t result = 0;
  with_processor_integer(tensor.type(), [&]<class Integer>(Integer value) {
    std::memcpy(&value, tensor.bytes() + i * sizeof value, sizeof value);
    result = value;
  });
  return result;
}

SOMA_INLINE void put_processor_integer(const ProcessorTensor& tensor, std::uint64_t i,
                                       std::int64_t value) {
  with_processor_integer(tensor.type(), [&]<class Integer>(Integer) {
    const auto narrow = static_cast<Integer>(value);  // modulo 2^n, as C++20 defines it
    std::memcpy(tensor.bytes() + i * sizeof narrow, &narrow, sizeof narrow);
  });
}

SOMA_INLINE std::int64_t as_integer(const soma_processor_operand& operand) {
  if (operand.is_integer != 0) return operand.integer;
  return std::fabs(operand.number) < 0x1p63 ? static_cast<std::int64_t>(operand.number) : 0;
}

SOMA_INLINE double as_number(const soma_processor_operand& operand) {
  return operand.is_integer != 0 ? static_cast<double>(operand.integer) : operand.number;
}

SOMA_INLINE ProcessorTensor& tensor_of(const soma_processor_tensor& tensor) {
  return *static_cast<ProcessorTensor*>(tensor.host);
}

SOMA_INLINE std::int64_t integer_function(std::int32_t function, std::int64_t a, std::int64_t b,
                                          std::int64_t c) {
  const auto of = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  switch (function) {
    case SOMA_PROCESSOR_ABS:
      return a < 0 ? -a : a;
    case SOMA_PROCESSOR_BITWISE_NOT:
      return ~a;
    case SOMA_PROCESSOR_ADD:
      return static_cast<std::int64_t>(of(a) + of(c) * of(b));
    case SOMA_PROCESSOR_SUB:
      return static_cast<std::int64_t>(of(a) - of(c) * of(b));
    case SOMA_PROCESSOR_MUL:
      return static_cast<std::int64_t>(of(a) * of(b));
    case SOMA_PROCESSOR_BITWISE_AND:
      return a & b;
    case SOMA_PROCESSOR_BITWISE_OR:
      return a | b;
    case SOMA_PROCESSOR_CLAMP:
      return a < b ? b : (a > c ? c : a);
    default:  // ceil, floor
      return a;
  }
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE const ProcessorTensor& check_processor_function(
    std::string_view operation, const std::string& where, const ProcessorFunction& function,
    std::span<const soma_processor_operand> operands, const ProcessorTensor* result) {
  const std::string argument = where + ", " + std::string(function.name);
  const ProcessorTensor* first = nullptr;
  for (const soma_processor_operand& operand : operands) {
    if (operand.tensor == nullptr) continue;
    const ProcessorTensor& tensor = detail::tensor_of(*operand.tensor);
    if (first == nullptr) {
      first = &tensor;
    } else if (!first->same_sizes(tensor)) {
      rule_broken(operation, argument, tensor.describe() + " beside " + first->describe(),
                  "tensors of equal sizes: the function does not broadcast");
    } else if (first->dtype != tensor.dtype) {
      rule_broken(operation, argument, tensor.describe() + " beside " + first->describe(),
                  "tensors of equal types: the function does not promote types");
    }
  }
  if (first == nullptr) rule_broken(operation, argument, "of numbers only", "a tensor");
  if (result != nullptr && (!first->same_sizes(*result) || first->dtype != result->dtype))
    rule_broken(operation, argument, "into " + result->describe(),
                first->describe() + ", as the operands are");
  const bool floating = is_floating(first->type());
  if (floating && function.bitwise)
    rule_broken(operation, argument, "of " + first->describe(), "an integer type");
  if (!floating && !function.on_integers)
    undisclosed(operation, argument, "of " + first->describe(),
                "a floating type: results for integers are not published");
  return *first;
}

SOMA_INLINE void run_processor_function(std::int32_t number, const ProcessorFunction& function,
                                        std::span<const soma_processor_operand> operands,
                                        const ProcessorTensor& result) {
  const auto operand = [&](std::size_t i) -> const soma_processor_operand* {
    return i < operands.size() ? &operands[i] : nullptr;
  };
  const soma_processor_operand *a = operand(0), *b = operand(1), *c = operand(2);
  const auto each = [&](const auto& element, const auto& constant, const auto& put) {
    const auto at = [&](const soma_processor_operand* of, std::uint64_t i) {
      if (of == nullptr) return decltype(constant(*a))(0);
      return of->tensor == nullptr ? constant(*of) : element(detail::tensor_of(*of->tensor), i);
    };
    for (std::uint64_t i = 0; i < result.count(); ++i) put(i, at(a, i), at(b, i), at(c, i));
  };
  if (is_floating(result.type()))
    each(&detail::processor_float, &detail::as_number,
         [&](std::uint64_t i, double x, double y, double z) {
           detail::put_processor_float(result, i, function.of(x, y, z));
         });
  else
    each(&detail::processor_integer, &detail::as_integer,
         [&](std::uint64_t i, std::int64_t x, std::int64_t y, std::int64_t z) {
           detail::put_processor_integer(result, i, detail::integer_function(number, x, y, z));
         });
}

}  // namespace SOMA_NAMESPACE::neuroncore
