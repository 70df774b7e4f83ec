#pragma once
// The functions of microscaled.hpp.

#include <soma/io/microscaled.hpp>

#include <soma/base/error.hpp>
#include <soma/kernels/table.hpp>
#include <soma/numeric/formats.hpp>
#include <soma/ops/product/coded.hpp>
#include <soma/ops/support.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::detail {

inline constexpr std::string_view blocks_suffix = "_blocks", scales_suffix = "_scales";
inline constexpr std::size_t microscaled_group = 32, microscaled_bytes = 16;

SOMA_INLINE std::string with_suffix(std::string_view name, std::string_view suffix) {
  std::string text(name);
  return text.append(suffix);
}

// Errors safetensors.dtype, safetensors.size.
SOMA_INLINE void check_microscaled(std::string_view name, const Tensor& blocks,
                                   const Tensor& scales) {
  constexpr std::string_view operation = "read_microscaled";
  if (blocks.dtype() != DType::uint8)
    fail(error_id::safetensors_dtype, operation, soma::quoted(with_suffix(name, blocks_suffix)),
         to_string(blocks.dtype()), "uint8");
  if (scales.dtype() != DType::uint8 && scales.dtype() != DType::e8m0)
    fail(error_id::safetensors_dtype, operation, soma::quoted(with_suffix(name, scales_suffix)),
         to_string(scales.dtype()), "uint8 or e8m0");
  const Shape& shape = blocks.shape();
  if (shape.rank() < 2 || shape[shape.rank() - 1] != microscaled_bytes)
    fail(error_id::safetensors_size, operation, soma::quoted(with_suffix(name, blocks_suffix)),
         blocks.describe(), "[..., groups, 16]");
  bool same = scales.rank() + 1 == shape.rank();
  for (std::size_t i = 0; same && i + 1 < shape.rank(); ++i) same = scales.size(i) == shape[i];
  if (!same)
    fail(error_id::safetensors_size, operation, soma::quoted(with_suffix(name, scales_suffix)),
         scales.describe(), "the dimensions before the last of " + blocks.describe());
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE std::vector<std::string> microscaled_names(const StateDict& tensors) {
  std::vector<std::string> names;
  for (const auto& [key, tensor] : tensors)
    if (std::string_view(key).ends_with(detail::blocks_suffix)) {
      const std::string name = key.substr(0, key.size() - detail::blocks_suffix.size());
      if (tensors.contains(detail::with_suffix(name, detail::scales_suffix))) names.push_back(name);
    }
  return names;
}

SOMA_INLINE Tensor read_microscaled(Context& context, const StateDict& tensors,
                                    std::string_view name, DType dtype) {
  const Tensor blocks =
      contiguous(context, tensors.at(detail::with_suffix(name, detail::blocks_suffix)));
  const Tensor scales =
      contiguous(context, tensors.at(detail::with_suffix(name, detail::scales_suffix)));
  detail::check_microscaled(name, blocks, scales);
  if (dtype != DType::fp32 && dtype != DType::bf16)
    fail(error_id::tensor_dtype, "read_microscaled", "dtype", to_string(dtype), "fp32 or bf16");
  const std::size_t last = blocks.rank() - 2, groups = scales.elements();
  if (blocks.size(last) > (std::numeric_limits<std::size_t>::max)() / detail::microscaled_group)
    fail(error_id::safetensors_size, "read_microscaled", soma::quoted(name), blocks.describe(),
         "fewer groups");
  const Shape shape = scales.shape().with(last, blocks.size(last) * detail::microscaled_group);
  const Tensor result = Tensor::empty(context, shape, dtype);
  const std::byte *codes = blocks.raw(), *exponents = scales.raw();
  std::byte* to = result.mutable_raw();
  // All groups are one row.
  detail::for_ranges(context, groups, detail::microscaled_group,
                     [&](std::size_t begin, std::size_t end) {
                       const std::size_t numbers = (end - begin) * detail::microscaled_group;
                       context.kernels().expand(
                           {.rows = 1,
                            .columns = numbers,
                            .codes = codes + begin * detail::microscaled_bytes,
                            .row_stride = (end - begin) * detail::microscaled_bytes,
                            .code_bits = 4,
                            .format = formats::fp4_e2m1,
                            .scales = exponents + begin,
                            .scale = StoredScale::exponent,
                            .group_rows = 1,
                            .group_columns = detail::microscaled_group,
                            .group_stride = end - begin,
                            .y = {.data = to + begin * detail::microscaled_group * size_of(dtype),
                                  .dtype = dtype,
                                  .row_stride = numbers}});
                     });
  return result;
}

SOMA_INLINE void set_microscaled(Context& context, StateDict& tensors, std::string_view name,
                                 const Tensor& tensor, ScaleRule rule) {
  constexpr std::string_view operation = "set_microscaled";
  detail::check_min_rank(operation, "tensor", tensor, 1);
  detail::check_floating(operation, "tensor", tensor);
  const std::size_t columns = tensor.shape().columns(), rows = tensor.shape().rows();
  const std::size_t last = tensor.rank() - 1, groups = columns / detail::microscaled_group;
  if (columns % detail::microscaled_group != 0)
    fail(error_id::safetensors_size, operation, soma::quoted(name), tensor.describe(),
         "a last dimension that is a multiple of 32");
  const detail::TensorRows x = detail::rows_of(context, tensor);
  const Shape grid = tensor.shape().with(last, groups);
  Tensor scales = Tensor::empty(context, grid, DType::uint8);
  Tensor codes = Tensor::empty(context, Shape{rows, columns / 2}, DType::uint8);
  const Tensor wide = Tensor::empty(context, Shape{rows, groups});
  auto* to = reinterpret_cast<std::byte*>(codes.mutable_data<std::uint8_t>());
  auto* bytes = reinterpret_cast<std::byte*>(scales.mutable_data<std::uint8_t>());
  float* found = wide.mutable_data<float>();
  detail::for_ranges(context, rows, columns, [&](std::size_t begin, std::size_t end) {
    context.kernels().quantize(
        {.rows = end - begin,
         .columns = columns,
         .x = detail::part(detail::operand(x), begin, 0),
         .y = {.data = to + begin * columns / 2, .dtype = DType::uint8, .row_stride = columns / 2},
         .format = formats::fp4_e2m1,
         .scaling = {.policy = ScalePolicy::current,
                     .granularity = Granularity::group_32,
                     .format = ScaleFormat::mx,
                     .rule = rule},
         .group_rows = 1,
         .group_columns = detail::microscaled_group,
         .codes = true,
         .code_bits = 4,
         .scales = found + begin * groups,
         .group_stride = groups});
    for (std::size_t g = begin * groups; g < end * groups; ++g)
      detail::store_scale(found[g], StoredScale::exponent, bytes + g);
  });
  std::vector<std::size_t> sizes(grid.begin(), grid.end());
  sizes.push_back(detail::microscaled_bytes);
  tensors.set(detail::with_suffix(name, detail::blocks_suffix),
              codes.reshape(Shape(std::span<const std::size_t>(sizes))));
  tensors.set(detail::with_suffix(name, detail::scales_suffix), scales);
}

}  // namespace SOMA_NAMESPACE
