#pragma once
// Functions of whole tensors, element by element. Each has a form that makes its result and a form
// that writes into a tensor of the right size. Nothing is broadcast.

#include <soma/compat/tensor.hpp>

#include <cstdint>

namespace soma_compat {
inline namespace v2 {

namespace detail {

template <class... Operands>
Tensor apply(std::int32_t function, soma_processor_tensor* result, const Operands&... operands) {
  const soma_processor_operand all[] = {operands.operand()...};
  return Tensor::adopt(services().apply(&processor(), function, result, all,
                                        static_cast<std::int32_t>(sizeof...(Operands))));
}
template <class... Operands>
Tensor& apply_out(std::int32_t function, Tensor& result, const Operands&... operands) {
  apply(function, &result.record(), operands...);
  return result;
}

}  // namespace detail

// Macros define the functions, because each has two forms for each combination of operands.
#define SOMA_COMPAT_UNARY(name, NAME)                              \
  inline Tensor name(const Tensor& self) {                         \
    return detail::apply(SOMA_PROCESSOR_##NAME, nullptr, self);    \
  }                                                                \
  inline Tensor& name##_out(Tensor& result, const Tensor& self) {  \
    return detail::apply_out(SOMA_PROCESSOR_##NAME, result, self); \
  }
SOMA_COMPAT_UNARY(abs, ABS)
SOMA_COMPAT_UNARY(ceil, CEIL)
SOMA_COMPAT_UNARY(floor, FLOOR)
SOMA_COMPAT_UNARY(sin, SIN)
SOMA_COMPAT_UNARY(cos, COS)
SOMA_COMPAT_UNARY(tan, TAN)
SOMA_COMPAT_UNARY(log, LOG)
SOMA_COMPAT_UNARY(log2, LOG2)
SOMA_COMPAT_UNARY(log10, LOG10)
SOMA_COMPAT_UNARY(exp, EXP)
SOMA_COMPAT_UNARY(bitwise_not, BITWISE_NOT)
#undef SOMA_COMPAT_UNARY
// The published declaration has this form, although its first operand is evidently a misprint.
inline Tensor bitwise_not(Tensor& result, const Tensor& self) {
  return bitwise_not_out(result, self);
}

#define SOMA_COMPAT_BINARY(name, NAME, A, B)                                 \
  inline Tensor name(const A& self, const B& other) {                        \
    return detail::apply(SOMA_PROCESSOR_##NAME, nullptr, self, other);       \
  }                                                                          \
  inline Tensor& name##_out(Tensor& result, const A& self, const B& other) { \
    return detail::apply_out(SOMA_PROCESSOR_##NAME, result, self, other);    \
  }
SOMA_COMPAT_BINARY(pow, POW, Tensor, Scalar)
SOMA_COMPAT_BINARY(pow, POW, Scalar, Tensor)
SOMA_COMPAT_BINARY(pow, POW, Tensor, Tensor)
SOMA_COMPAT_BINARY(mul, MUL, Tensor, Scalar)
SOMA_COMPAT_BINARY(mul, MUL, Tensor, Tensor)
SOMA_COMPAT_BINARY(div, DIV, Tensor, Scalar)
SOMA_COMPAT_BINARY(div, DIV, Tensor, Tensor)
SOMA_COMPAT_BINARY(bitwise_and, BITWISE_AND, Tensor, Tensor)
SOMA_COMPAT_BINARY(bitwise_and, BITWISE_AND, Tensor, Scalar)
SOMA_COMPAT_BINARY(bitwise_and, BITWISE_AND, Scalar, Tensor)
SOMA_COMPAT_BINARY(bitwise_or, BITWISE_OR, Tensor, Tensor)
SOMA_COMPAT_BINARY(bitwise_or, BITWISE_OR, Tensor, Scalar)
SOMA_COMPAT_BINARY(bitwise_or, BITWISE_OR, Scalar, Tensor)
#undef SOMA_COMPAT_BINARY

// self + alpha other, self - alpha other.
#define SOMA_COMPAT_SCALED(name, NAME, B)                                           \
  inline Tensor name(const Tensor& self, const B& other, const Scalar& alpha = 1) { \
    return detail::apply(SOMA_PROCESSOR_##NAME, nullptr, self, other, alpha);       \
  }                                                                                 \
  inline Tensor& name##_out(Tensor& result, const Tensor& self, const B& other,     \
                            const Scalar& alpha = 1) {                              \
    return detail::apply_out(SOMA_PROCESSOR_##NAME, result, self, other, alpha);    \
  }
SOMA_COMPAT_SCALED(add, ADD, Scalar)
SOMA_COMPAT_SCALED(add, ADD, Tensor)
SOMA_COMPAT_SCALED(sub, SUB, Scalar)
SOMA_COMPAT_SCALED(sub, SUB, Tensor)
#undef SOMA_COMPAT_SCALED

inline Tensor clamp(const Tensor& self, const Scalar& minval, const Scalar& maxval) {
  return detail::apply(SOMA_PROCESSOR_CLAMP, nullptr, self, minval, maxval);
}
inline Tensor& clamp_out(Tensor& result, const Tensor& self, const Scalar& minval,
                         const Scalar& maxval) {
  return detail::apply_out(SOMA_PROCESSOR_CLAMP, result, self, minval, maxval);
}

}  // namespace v2
}  // namespace soma_compat
