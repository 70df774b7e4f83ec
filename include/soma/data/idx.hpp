#pragma once
// load_idx(): arrays in IDX files, the format of published handwritten digits: two zero bytes, a
// type, the number of dimensions, their sizes as big-endian integers of 32 bits, the elements.
// (Format: yann.lecun.com/exdb/mnist.) Unpack .gz files first.

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

namespace SOMA_NAMESPACE::data {

namespace detail {

std::uint32_t big_endian(std::span<const unsigned char> bytes);

// Closes the file at its end of life.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : file_(std::fopen(path.c_str(), "rb")) {}
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  std::FILE* get() const { return file_; }

 private:
  std::FILE* file_;
};

}  // namespace detail

// Unsigned bytes in the file's shape, as uint8. Error file.read: the file cannot be read, has
// another format or element type, or its length does not match its sizes.
Tensor load_idx(Context& context, std::string_view path);

}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/idx.ipp>
#endif
