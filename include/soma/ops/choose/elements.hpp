#pragma once
// Tools of operators that choose elements without computing: elements as bytes of one width, and a
// dimension with the sizes before and after it.

#include <soma/ops/support.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::detail {

// A row-major tensor seen along one dimension: element (o, i, n) lies at
// (o * size + i) * inner + n.
struct Along {
  std::size_t outer = 1, size = 1, inner = 1;

  Along(const Shape& shape, std::size_t dimension) : size(shape[dimension]) {
    for (std::size_t i = 0; i < dimension; ++i) outer *= shape[i];
    for (std::size_t i = dimension + 1; i < shape.rank(); ++i) inner *= shape[i];
  }
};

// Error tensor.index.
inline void check_dimension(std::string_view operation, const Tensor& x, std::size_t dimension) {
  if (dimension >= x.rank())
    fail(error_id::tensor_index, operation, "dimension", std::to_string(dimension),
         "below the rank of " + x.describe());
}

// Calls function(T()) with a number type of the same width as the elements.
template <class Function>
void with_element_width(DType dtype, const Function& function) {
  switch (size_of(dtype)) {
    case 1:
      return function(std::uint8_t());
    case 2:
      return function(std::uint16_t());
    case 4:
      return function(std::uint32_t());
    default:
      return function(std::uint64_t());
  }
}
template <class T>
const T* codes(const Tensor& tensor) {
  return reinterpret_cast<const T*>(tensor.raw());
}
template <class T>
T* mutable_codes(const Tensor& tensor) {
  return reinterpret_cast<T*>(tensor.mutable_raw());
}

}  // namespace SOMA_NAMESPACE::detail
