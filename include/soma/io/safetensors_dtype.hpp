#pragma once
// Element types and their names in safetensors files.

#include <soma/base/error.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::detail {

struct SafetensorsType {
  std::string_view name;
  std::size_t bits;
  bool known;  // to soma, as:
  DType dtype;
  // Older readers stop at the names of the fnuz formats, so these names are never written.
  bool written = known;
};

// All names of the reference implementation (safetensors 0.8), in its order, which is also the
// order of tensors in a file, from the last name to the first.
inline constexpr std::array<SafetensorsType, 22> safetensors_types{{
    {"BOOL", 8, true, DType::boolean},
    {"F4", 4, false, {}},
    {"F6_E2M3", 6, false, {}},
    {"F6_E3M2", 6, false, {}},
    {"U8", 8, true, DType::uint8},
    {"I8", 8, true, DType::int8},
    {"F8_E5M2", 8, true, DType::fp8_e5m2},
    {"F8_E4M3", 8, true, DType::fp8_e4m3fn},
    {"F8_E8M0", 8, true, DType::e8m0},
    {"F8_E4M3FNUZ", 8, true, DType::fp8_e4m3fnuz, false},
    {"F8_E5M2FNUZ", 8, true, DType::fp8_e5m2fnuz, false},
    {"I16", 16, true, DType::int16},
    {"U16", 16, true, DType::uint16},
    {"F16", 16, true, DType::fp16},
    {"BF16", 16, true, DType::bf16},
    {"I32", 32, true, DType::int32},
    {"U32", 32, true, DType::uint32},
    {"F32", 32, true, DType::fp32},
    {"C64", 64, false, {}},
    {"F64", 64, false, {}},
    {"I64", 64, true, DType::int64},
    {"U64", 64, false, {}},
}};

// nullptr if the reference implementation has no such name.
const SafetensorsType* find_safetensors_type(std::string_view name);

// The type under which a tensor is written. Error safetensors.dtype: a format without a name there.
const SafetensorsType& safetensors_type(std::string_view operation, std::string_view name,
                                        const Tensor& tensor);

}  // namespace SOMA_NAMESPACE::detail

#ifndef SOMA_DISPATCH
#include <soma/io/impl/safetensors_dtype.ipp>
#endif
