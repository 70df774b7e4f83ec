#pragma once
// The functions of safetensors_dtype.hpp.

#include <soma/io/safetensors_dtype.hpp>

#include <soma/base/error.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE const SafetensorsType* find_safetensors_type(std::string_view name) {
  for (const SafetensorsType& type : safetensors_types)
    if (type.name == name) return &type;
  return nullptr;
}

SOMA_INLINE const SafetensorsType& safetensors_type(std::string_view operation,
                                                    std::string_view name, const Tensor& tensor) {
  std::string wanted = "one of";
  for (const SafetensorsType& type : safetensors_types) {
    if (!type.written) continue;
    if (type.dtype == tensor.dtype()) return type;
    wanted.append(" ").append(to_string(type.dtype));
  }
  fail(error_id::safetensors_dtype, operation, soma::quoted(name), tensor.describe(), wanted);
}

}  // namespace SOMA_NAMESPACE::detail
