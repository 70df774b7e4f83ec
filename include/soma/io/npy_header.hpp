#pragma once
// The header of a .npy file: a Python dictionary of three entries, read strictly.
// Source: numpy.lib.format's description of the format, versions 1.0, 2.0 and 3.0.

#include <soma/base/error.hpp>
#include <soma/tensor/shape.hpp>

#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::detail {

struct NpyHeader {
  std::string_view type;  // "<f4"
  bool fortran_order = false;
  std::vector<std::size_t> sizes;
  std::size_t data_offset = 0;  // in the file
};

class NpyHeaderReader {
 public:
  NpyHeaderReader(std::string_view operation, std::string_view path, std::string_view file)
      : operation_(operation), path_(path), file_(file) {}

  NpyHeader read();

 private:
  unsigned byte(std::size_t at) const;

  NpyHeader dictionary();

  void skip_spaces();
  bool accept(char wanted);
  void expect(char wanted);
  bool accept(std::string_view word);
  // A string without escapes, in either quotation mark.
  std::string_view text();
  std::string_view type();
  bool boolean();
  // (), (3,), (3, 4), (3, 4,)
  std::vector<std::size_t> sizes();

  [[noreturn]] void unsupported(std::string_view type) const;
  [[noreturn]] void failed(std::string_view problem) const;

  std::string_view operation_, path_, file_, rest_;
};

}  // namespace SOMA_NAMESPACE::detail

#ifndef SOMA_DISPATCH
#include <soma/io/impl/npy_header.ipp>
#endif
