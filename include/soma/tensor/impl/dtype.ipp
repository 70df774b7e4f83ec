#pragma once
// The functions of dtype.hpp.

#include <soma/tensor/dtype.hpp>

#include <soma/base/error.hpp>
#include <soma/numeric/formats.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace SOMA_NAMESPACE {

SOMA_INLINE DType find_dtype(std::string_view name) {
  for (const DType dtype : dtypes)
    if (to_string(dtype) == name) return dtype;
  std::string wanted = "one of";
  for (const DType dtype : dtypes) wanted.append(" ").append(to_string(dtype));
  fail(error_id::unknown_dtype, "find_dtype", "name", quoted(name), wanted);
}

SOMA_INLINE DType find_dtype(const FloatFormat& format) {
  const int index = detail::dtype_index(format.with(Overflow::special));
  if (index >= 0) return static_cast<DType>(index);
  fail(error_id::unknown_dtype, "find_dtype", "format", to_string(format),
       "a format that tensors support");
}

}  // namespace SOMA_NAMESPACE
