#pragma once
// The functions of idx.hpp.

#include <soma/data/idx.hpp>

#include <soma/base/file_error.hpp>
#include <soma/base/sizes.hpp>
#include <soma/system/files.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::data::detail {

SOMA_INLINE std::uint32_t big_endian(std::span<const unsigned char> bytes) {
  std::uint32_t value = 0;
  for (const unsigned char byte : bytes.first(4)) value = value << 8 | byte;
  return value;
}

SOMA_INLINE OpenFile::OpenFile(const std::string& path) : file_(system::open_to_read(path)) {}

SOMA_INLINE OpenFile::~OpenFile() {
  if (is_open()) system::close_file(file_);
}

SOMA_INLINE std::uint64_t OpenFile::length() const { return system::info_of(file_).bytes; }

SOMA_INLINE bool OpenFile::read(void* to, std::size_t count) {
  for (auto* at = static_cast<unsigned char*>(to); count != 0;) {
    const std::ptrdiff_t found = system::read_some(file_, at, count);
    if (found <= 0) return false;
    at += found;
    count -= static_cast<std::size_t>(found);
  }
  return true;
}

}  // namespace SOMA_NAMESPACE::data::detail

namespace SOMA_NAMESPACE::data {

SOMA_INLINE Tensor load_idx(Context& context, std::string_view path) {
  const std::string name(path);
  const auto failed = [&](std::string_view problem, int number = 0) {
    soma::detail::file_failed(error_id::file_read, "load_idx", name, problem, number,
                              "an IDX file of unsigned bytes, of the length that it says");
  };
  detail::OpenFile file(name);
  if (!file.is_open()) failed("cannot be opened", errno);
  // The length is compared before memory is allocated for the sizes in the file.
  const auto length = static_cast<std::size_t>(file.length());
  std::array<unsigned char, 4 + 4 * max_rank> head{};
  const auto read = [&](void* to, std::size_t count) {
    if (!file.read(to, count)) failed("ends early, or cannot be read");
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
