#pragma once
// The functions of idx.hpp.

#include <soma/data/idx.hpp>

#include <soma/base/file_error.hpp>
#include <soma/base/sizes.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::data::detail {

SOMA_INLINE std::uint32_t big_endian(std::span<const unsigned char> bytes) {
  std::uint32_t value = 0;
  for (const unsigned char byte : bytes.first(4)) value = value << 8 | byte;
  return value;
}

SOMA_INLINE OpenFile::~OpenFile() {
  if (file_ != nullptr) std::fclose(file_);
}

}  // namespace SOMA_NAMESPACE::data::detail

namespace SOMA_NAMESPACE::data {

SOMA_INLINE Tensor load_idx(Context& context, std::string_view path) {
  const std::string name(path);
  const auto failed = [&](std::string_view problem, int number = 0) {
    soma::detail::file_failed(error_id::file_read, "load_idx", name, problem, number,
                              "an IDX file of unsigned bytes, of the length that it says");
  };
  const detail::OpenFile file(name);
  if (file.get() == nullptr) failed("cannot be opened", errno);
  // The length is compared before memory is allocated for the sizes in the file.
  if (std::fseek(file.get(), 0, SEEK_END) != 0) failed("cannot be measured", errno);
  const long end = std::ftell(file.get());
  if (end < 0 || std::fseek(file.get(), 0, SEEK_SET) != 0) failed("cannot be measured", errno);
  const auto length = static_cast<std::size_t>(end);
  std::array<unsigned char, 4 + 4 * max_rank> head{};
  const auto read = [&](void* to, std::size_t count) {
    if (std::fread(to, 1, count, file.get()) != count) failed("ends early, or cannot be read");
  };
  if (length < 4) failed("is shorter than four bytes");
  read(head.data(), 4);
  if (head[0] == 0x1f && head[1] == 0x8b) failed("is packed by gzip");
  if (head[0] != 0 || head[1] != 0) failed("does not begin with two zero bytes");
  if (head[2] != 0x08) failed("has elements of type " + std::to_string(head[2]) + ", not bytes");
  const std::size_t rank = head[3];
  if (rank == 0 || rank > max_rank) failed("has " + std::to_string(rank) + " dimensions");
  if (length < 4 + 4 * rank) failed("ends among its sizes");
  read(head.data() + 4, 4 * rank);
  std::array<std::size_t, max_rank> sizes{};
  std::size_t elements = 1;
  const std::size_t rest = length - 4 - 4 * rank;
  for (std::size_t i = 0; i < rank; ++i) {
    sizes[i] = detail::big_endian(std::span(head).subspan(4 + 4 * i));
    // No size is 0 in a file with elements, and no product exceeds the number of bytes.
    if (elements != 0 && sizes[i] > rest / elements)
      failed("says more elements than the " + std::to_string(rest) + " bytes that it has");
    elements *= sizes[i];
  }
  if (elements != rest)
    failed("has " + std::to_string(rest) + " bytes for " + std::to_string(elements) + " elements");
  const Tensor tensor =
      Tensor::empty(context, Shape(std::span<const std::size_t>(sizes.data(), rank)), DType::uint8);
  if (elements != 0) read(tensor.mutable_raw(), elements);
  return tensor;
}

}  // namespace SOMA_NAMESPACE::data
