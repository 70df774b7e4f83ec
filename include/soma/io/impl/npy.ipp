#pragma once
// The functions of npy.hpp.

#include <soma/io/npy.hpp>

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

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE DType npy_dtype(std::string_view operation, std::string_view path,
                            std::string_view name) {
  std::string wanted = "one of";
  for (const NpyType& type : npy_types) {
    if (type.name == name) return type.dtype;
    wanted.append(" '").append(type.name).append("'");
  }
  std::string given = "'";
  given.append(name.substr(0, 40)).append("'");
  fail(error_id::npy_dtype, operation, "element type of " + soma::quoted(path), given, wanted);
}

SOMA_INLINE std::string npy_header(std::string_view type, const Shape& shape) {
  std::string text = "{'descr': '";
  text.append(type).append("', 'fortran_order': False, 'shape': (");
  for (const std::size_t size : shape) text.append(std::to_string(size)).append(", ");
  if (shape.rank() > 1) text.resize(text.size() - 2);
  if (shape.rank() == 1) text.pop_back();
  text.append("), }");
  // Data begins at a multiple of 64 bytes; the header ends with a line feed.
  constexpr std::size_t prefix = 10;
  text.append(63 - (prefix + text.size()) % 64, ' ').push_back('\n');
  std::string result("\x93NUMPY\x01\x00", 8);
  result.push_back(static_cast<char>(text.size() & 0xFF));
  result.push_back(static_cast<char>(text.size() >> 8));
  return result + text;
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE Tensor load_npy(Context& context, std::string_view path) {
  constexpr std::string_view operation = "load_npy";
  const auto file = MappedFile::open(operation, path);
  const std::span<const std::byte> bytes = file->bytes();
  const detail::NpyHeader header =
      detail::NpyHeaderReader(
          operation, path,
          std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()))
          .read();
  const DType dtype = detail::npy_dtype(operation, path, header.type);
  const std::span<const std::byte> data = bytes.subspan(header.data_offset);
  const std::optional<std::size_t> wanted = detail::payload_bytes(header.sizes, size_of(dtype));
  if (wanted != data.size())
    fail(error_id::npy_size, operation, "data of " + soma::quoted(path),
         std::to_string(data.size()) + " bytes",
         wanted ? std::to_string(*wanted) + ", as its shape says"
                : std::string("a shape of less than 2^64 bytes"));
  if (dtype == DType::boolean && !detail::are_booleans(data))
    fail(error_id::npy_value, operation, "data of " + soma::quoted(path), "a byte above 1",
         "bools, 0 or 1");

  std::vector<std::size_t> sizes = header.sizes;
  if (header.fortran_order) std::reverse(sizes.begin(), sizes.end());
  Tensor tensor = Tensor::empty(context, Shape(std::span<const std::size_t>(sizes)), dtype);
  if (!data.empty()) std::memcpy(tensor.mutable_raw(), data.data(), data.size());
  if (header.fortran_order)
    for (std::size_t i = 0; i < sizes.size() / 2; ++i)
      tensor = tensor.transpose(i, sizes.size() - 1 - i);
  return tensor;
}

SOMA_INLINE void save_npy(std::string_view path, const Tensor& tensor) {
  constexpr std::string_view operation = "save_npy";
  if (!tensor.defined())
    fail(error_id::tensor_undefined, operation, "tensor", "no tensor", "one with elements");
  detail::check_numbers(operation, tensor);
  std::string wanted = "one of";
  for (const detail::NpyType& type : detail::npy_types) {
    wanted.append(" ").append(to_string(type.dtype));
    if (type.dtype != tensor.dtype()) continue;
    AtomicFile file(operation, path);
    file.write(detail::npy_header(type.name, tensor.shape()));
    detail::write_elements(file, tensor);
    return file.commit();
  }
  fail(error_id::npy_dtype, operation, "tensor", tensor.describe(), wanted);
}

}  // namespace SOMA_NAMESPACE
