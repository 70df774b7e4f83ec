#pragma once
// load_idx(): arrays in IDX files, the format of published handwritten digits: two zero bytes, a
// type, the number of dimensions, their sizes as big-endian integers of 32 bits, the elements.
// (Format: yann.lecun.com/exdb/mnist.) Unpack .gz files first.

#include <soma/base/file_error.hpp>
#include <soma/base/sizes.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::data {

namespace detail {

std::uint32_t big_endian(std::span<const unsigned char> bytes);

// An open file, read from its beginning on, and closed at the end of its life.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  // False: there is none, with errno.
  bool is_open() const { return file_ >= 0; }
  std::uint64_t length() const;
  // False if there are not so many bytes.
  bool read(void* to, std::size_t count);

 private:
  int file_;
};

}  // namespace detail

// Unsigned bytes in the file's shape, as uint8. Error file.read: the file cannot be read, has
// another format or element type, or its length does not match its sizes.
Tensor load_idx(Context& context, std::string_view path);

}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/idx.ipp>
#endif
