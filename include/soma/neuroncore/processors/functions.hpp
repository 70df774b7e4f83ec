#pragma once
// Functions of whole tensors, element by element, which kernels call instead of loops.
//
// Floating types: computed in double and rounded to fp32, then to the type of the tensors. Integer
// types: exact, with wrap-around. The type of a quotient, a power or a transcendental function of
// integers is not published: neuroncore.undisclosed.

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

struct ProcessorFunction {
  std::string_view name;
  int operands;  // the third of add and sub is alpha
  bool bitwise = false, on_integers = false;
  double (*of)(double a, double b, double c) = nullptr;
};

// The function for an enum soma_processor_function; nullptr if there is none.
const ProcessorFunction* find_processor_function(std::int32_t function);

namespace detail {

double processor_float(const ProcessorTensor& tensor, std::uint64_t i);
void put_processor_float(const ProcessorTensor& tensor, std::uint64_t i, double value);

// Calls function(zero of the type) for one of the integer types of processors.
template <class Function>
void with_processor_integer(DType dtype, const Function& function) {
  if (dtype == DType::int32) return function(std::int32_t{});
  if (dtype == DType::int16) return function(std::int16_t{});
  if (dtype == DType::int8) return function(std::int8_t{});
  function(std::uint8_t{});
}
std::int64_t processor_integer(const ProcessorTensor& tensor, std::uint64_t i);
void put_processor_integer(const ProcessorTensor& tensor, std::uint64_t i, std::int64_t value);
// A number as a tensor's integer; 0 for a number without an integer value.
std::int64_t as_integer(const soma_processor_operand& operand);
double as_number(const soma_processor_operand& operand);
ProcessorTensor& tensor_of(const soma_processor_tensor& tensor);

std::int64_t integer_function(std::int32_t function, std::int64_t a, std::int64_t b,
                              std::int64_t c);

}  // namespace detail

// Returns the tensor that gives the result its sizes and type: the first operand that is a tensor.
// Errors neuroncore.rule_broken (sizes or types differ: there is no broadcasting and no promotion;
// bit operators on floating numbers), neuroncore.undisclosed.
const ProcessorTensor& check_processor_function(std::string_view operation,
                                                const std::string& where,
                                                const ProcessorFunction& function,
                                                std::span<const soma_processor_operand> operands,
                                                const ProcessorTensor* result);

// result = function(operands); the operands have been checked. The result may be one of them.
void run_processor_function(std::int32_t number, const ProcessorFunction& function,
                            std::span<const soma_processor_operand> operands,
                            const ProcessorTensor& result);

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/processors/impl/functions.ipp>
#endif
