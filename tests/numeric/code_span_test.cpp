// CodeSpan: bytes with their format.
#include "catch.hpp"

#include <soma/numeric/code_span.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

namespace formats = soma::formats;

static_assert(std::is_convertible_v<soma::CodeSpan, soma::ConstCodeSpan>);
static_assert(!std::is_convertible_v<soma::ConstCodeSpan, soma::CodeSpan>);

TEST_CASE("code_span is one row that fills the bytes", "[unit]") {
  std::array<std::byte, 24> bytes{};
  for (const auto& [name, format] : soma::named_formats) {
    const soma::CodeSpan codes = soma::code_span(format, std::span<std::byte>(bytes));
    INFO(name);
    CHECK(codes.format == format);
    CHECK(codes.data == bytes.data());
    CHECK(codes.rows == 1);
    CHECK(codes.size() * static_cast<std::size_t>(format.bytes()) == bytes.size());
    CHECK(codes.row_bytes() == bytes.size());
    CHECK(codes.contiguous());

    const soma::ConstCodeSpan seen = codes;
    CHECK(seen.format == format);
    CHECK(seen.data == bytes.data());
    CHECK(seen.columns == codes.columns);
    CHECK(seen.rows == codes.rows);
    CHECK(seen.row_stride == codes.row_stride);
  }
}

TEST_CASE("no bytes are no codes", "[unit]") {
  const soma::ConstCodeSpan codes = soma::code_span(formats::bf16, std::span<const std::byte>{});
  CHECK(codes.size() == 0);
  CHECK(codes.contiguous());
}

TEST_CASE("rows lie a stride apart", "[unit]") {
  std::array<std::byte, 64> bytes{};
  const soma::CodeSpan padded{formats::fp16, bytes.data(), 3, 5, 16};
  CHECK(padded.size() == 15);
  CHECK(padded.row_bytes() == 10);
  CHECK_FALSE(padded.contiguous());
  CHECK(padded.row(0) == bytes.data());
  CHECK(padded.row(2) == bytes.data() + 32);

  CHECK(soma::CodeSpan{formats::fp16, bytes.data(), 3, 5, 10}.contiguous());
  CHECK(soma::CodeSpan{formats::fp16, bytes.data(), 1, 5, 0}
            .contiguous());  // one row: its stride does not matter
}

#if SOMA_HAS_EXCEPTIONS

TEST_CASE("code_span refuses broken codes and impossible formats", "[unit]") {
  std::array<std::byte, 7> bytes{};
  try {
    soma::code_span(formats::bf16, std::span<std::byte>(bytes));
    FAIL("accepted 7 bytes of bf16");
  } catch (const soma::Error& error) {
    CHECK(error.id() == soma::error_id::bad_layout);
    CHECK(std::string(error.what()) ==
          "code_span: bytes is 7 bytes, wanted a multiple of 2 (bf16) [convert.layout]");
  }
  try {
    soma::code_span(soma::FloatFormat{.exponent_bits = 12}, std::span<const std::byte>(bytes));
    FAIL("accepted 12 exponent bits");
  } catch (const soma::Error& error) {
    CHECK(error.id() == soma::error_id::impossible_format);
    CHECK(error.operation() == "code_span");
  }
}

#endif
