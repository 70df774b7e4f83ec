#pragma once
// The functions of npy_header.hpp.

#include <soma/io/npy_header.hpp>

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

SOMA_INLINE NpyHeader NpyHeaderReader::read() {
  constexpr std::string_view magic = "\x93NUMPY";
  if (!file_.starts_with(magic)) failed("does not begin with the mark of .npy files");
  if (file_.size() < 10) failed("ends inside its header");
  const unsigned major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0)
    failed("has version " + std::to_string(major) + "." + std::to_string(minor) +
           ", not 1.0, 2.0 or 3.0");
  const std::size_t begin = major == 1 ? 10 : 12;
  if (file_.size() < begin) failed("ends inside its header");
  std::size_t length = byte(8) | std::size_t{byte(9)} << 8;
  if (major != 1) length |= std::size_t{byte(10)} << 16 | std::size_t{byte(11)} << 24;
  if (length > file_.size() - begin)
    failed("has a header of " + std::to_string(length) + " bytes, more than follow");
  rest_ = file_.substr(begin, length);
  NpyHeader header = dictionary();
  header.data_offset = begin + length;
  return header;
}

SOMA_INLINE unsigned NpyHeaderReader::byte(std::size_t at) const {
  return static_cast<unsigned char>(file_[at]);
}

SOMA_INLINE NpyHeader NpyHeaderReader::dictionary() {
  NpyHeader header;
  bool has_type = false, has_order = false, has_shape = false;
  expect('{');
  while (!accept('}')) {
    const std::string_view key = text();
    expect(':');
    if (key == "descr" && !std::exchange(has_type, true))
      header.type = type();
    else if (key == "fortran_order" && !std::exchange(has_order, true))
      header.fortran_order = boolean();
    else if (key == "shape" && !std::exchange(has_shape, true))
      header.sizes = sizes();
    else
      failed("has an entry " + soma::quoted(key.substr(0, 40)) + " in its header, or has it twice");
    if (!accept(',')) {
      expect('}');
      break;
    }
  }
  skip_spaces();
  if (!rest_.empty()) failed("has something behind the dictionary of its header");
  if (!has_type || !has_order || !has_shape)
    failed("has a header without descr, fortran_order or shape");
  return header;
}

SOMA_INLINE void NpyHeaderReader::skip_spaces() {
  while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
}

SOMA_INLINE bool NpyHeaderReader::accept(char wanted) {
  skip_spaces();
  if (rest_.empty() || rest_[0] != wanted) return false;
  rest_.remove_prefix(1);
  return true;
}

SOMA_INLINE void NpyHeaderReader::expect(char wanted) {
  if (!accept(wanted))
    failed(std::string("has a header that is no dictionary: no '") + wanted +
           "' where there should be one");
}

SOMA_INLINE bool NpyHeaderReader::accept(std::string_view word) {
  skip_spaces();
  if (!rest_.starts_with(word)) return false;
  rest_.remove_prefix(word.size());
  return true;
}

SOMA_INLINE std::string_view NpyHeaderReader::text() {
  const char mark = accept('\'') ? '\'' : '"';
  if (mark == '"') expect('"');
  const std::size_t end = rest_.find(mark);
  if (end == std::string_view::npos || rest_.substr(0, end).find('\\') != std::string_view::npos)
    failed("has a header with a string that does not end, or with an escape");
  const std::string_view result = rest_.substr(0, end);
  rest_.remove_prefix(end + 1);
  return result;
}

// A record of several types is a list, which is refused.
SOMA_INLINE std::string_view NpyHeaderReader::type() {
  if (accept('[')) unsupported("a record");
  return text();
}

SOMA_INLINE bool NpyHeaderReader::boolean() {
  const bool result = accept("True");
  if (!result && !accept("False")) failed("has a fortran_order that is not True or False");
  return result;
}

SOMA_INLINE std::vector<std::size_t> NpyHeaderReader::sizes() {
  std::vector<std::size_t> result;
  expect('(');
  while (!accept(')')) {
    skip_spaces();
    std::size_t size = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
    if (error != std::errc() || result.size() == max_rank)
      failed("has a shape that is not up to 8 sizes below 2^64");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    result.push_back(size);
    const bool more = accept(',');
    if (!more && result.size() == 1) failed("has a shape that is not a tuple");
    if (!more) {
      expect(')');
      break;
    }
  }
  return result;
}

SOMA_INLINE void NpyHeaderReader::unsupported(std::string_view type) const {
  fail(error_id::npy_dtype, operation_, "element type of " + soma::quoted(path_), type,
       "one of '<f4' '<f2' '|i1' '|u1' '<i2' '<i4' '<i8' '|b1'");
}

SOMA_INLINE void NpyHeaderReader::failed(std::string_view problem) const {
  std::string given = soma::quoted(path_);
  given.append(", which ").append(problem);
  fail(error_id::npy_header, operation_, "file", given, "a .npy file");
}

}  // namespace SOMA_NAMESPACE::detail
