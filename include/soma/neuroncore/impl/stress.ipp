#pragma once
// The functions of stress.hpp.

#include <soma/neuroncore/stress.hpp>

#include <soma/neuroncore/faults.hpp>
#include <soma/neuroncore/memory/hbm_rows.hpp>
#include <soma/numeric/codec.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE std::string StressResult::text() const {
  if (equal()) return "all runs give the same bits";
  return "seed " + std::to_string(seed) + ": element " + std::to_string(element) + " of tensor " +
         std::to_string(tensor) + " is " + given + ", " + wanted + " where transfers end at once";
}

}  // namespace SOMA_NAMESPACE::neuroncore

namespace SOMA_NAMESPACE::neuroncore::detail {

SOMA_INLINE std::string element_text(DType dtype, const std::byte* at) {
  std::array<unsigned char, 8> bytes{};
  std::memcpy(bytes.data(), at, size_of(dtype));
  std::string bits;
  for (std::size_t i = size_of(dtype); i-- > 0;)
    for (const unsigned digit : {bytes[i] / 16u, bytes[i] % 16u})
      bits.push_back("0123456789abcdef"[digit]);
  std::string value;
  if (is_floating(dtype)) {
    std::uint32_t code = 0;
    std::memcpy(&code, at, size_of(dtype));
    const FloatFormat& format = format_of(dtype);
    value = text_of(decode(format, code >> format.storage_shift()));
  } else {
    value = std::to_string(integer_at(dtype, at));
  }
  return value + " (0x" + bits + ")";
}

SOMA_INLINE bool first_difference(const Tensor& a, const Tensor& b, StressResult& result) {
  const std::size_t width = size_of(a.dtype()), columns = a.shape().columns();
  const std::size_t last = a.rank() == 0 ? 0 : a.rank() - 1;
  std::size_t element = 0;
  bool found = false;
  soma::detail::for_each_row(
      a.shape(), a.strides(), b.strides(), [&](std::size_t row_a, std::size_t row_b) {
        for (std::size_t i = 0; i < columns && !found; ++i, ++element) {
          const std::byte* x = a.raw() + (row_a + i * a.strides()[last]) * width;
          const std::byte* y = b.raw() + (row_b + i * b.strides()[last]) * width;
          if (std::memcmp(x, y, width) == 0) continue;
          found = true;
          result.element = element;
          result.given = element_text(a.dtype(), x);
          result.wanted = element_text(b.dtype(), y);
          break;
        }
      });
  return found;
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail
