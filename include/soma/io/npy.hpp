#pragma once
// NumPy's .npy files: one tensor in a file. fp32, fp16, int8, int16, int32, int64, uint8, uint16,
// uint32 and bool.

#include <soma/io/atomic_file.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/io/npy_header.hpp>
#include <soma/io/payload.hpp>
#include <soma/tensor/tensor.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

struct NpyType {
  std::string_view name;
  DType dtype;
};

inline constexpr std::array<NpyType, 10> npy_types{{
    {"<f4", DType::fp32},
    {"<f2", DType::fp16},
    {"|i1", DType::int8},
    {"|u1", DType::uint8},
    {"<i2", DType::int16},
    {"<u2", DType::uint16},
    {"<i4", DType::int32},
    {"<u4", DType::uint32},
    {"<i8", DType::int64},
    {"|b1", DType::boolean},
}};

DType npy_dtype(std::string_view operation, std::string_view path, std::string_view name);

std::string npy_header(std::string_view type, const Shape& shape);

}  // namespace detail

// The tensor of a file, in memory of its own. Elements in Fortran's order become a tensor with
// ascending strides (soma::contiguous makes a row-major one). Errors file.read, npy.header,
// npy.dtype, npy.size (the number of bytes does not match the shape), npy.value (a bool other than
// 0 and 1), memory.exhausted.
Tensor load_npy(Context& context, std::string_view path);

// Writes a tensor of any strides as a row-major file of version 1.0; the file is complete or
// absent. Errors npy.dtype, file.write, tensor.undefined, neuroncore.dry_run.
void save_npy(std::string_view path, const Tensor& tensor);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/io/impl/npy.ipp>
#endif
