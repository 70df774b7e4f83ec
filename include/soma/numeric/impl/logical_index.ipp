#pragma once
// The functions of logical_index.hpp.

#include <soma/numeric/logical_index.hpp>

#include <soma/base/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE std::uint64_t index_field(std::uint64_t value, int bits, std::string_view operation,
                                      std::string_view field) {
  if (value >> bits != 0)
    fail(error_id::index_range, operation, field, std::to_string(value),
         "below 2^" + std::to_string(bits));
  return value;
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE std::uint64_t token_index(std::uint64_t ordinal, std::uint64_t position,
                                      std::uint64_t channel) {
  return detail::index_field(ordinal, 24, "token_index", "ordinal") << 40 |
         detail::index_field(position, 20, "token_index", "position") << 20 |
         detail::index_field(channel, 20, "token_index", "channel");
}

SOMA_INLINE std::uint64_t attention_index(std::uint64_t ordinal, std::uint64_t head,
                                          std::uint64_t query, std::uint64_t key) {
  return detail::index_field(ordinal, 24, "attention_index", "ordinal") << 40 |
         detail::index_field(head, 8, "attention_index", "head") << 32 |
         detail::index_field(query, 16, "attention_index", "query") << 16 |
         detail::index_field(key, 16, "attention_index", "key");
}

SOMA_INLINE std::uint64_t parameter_index(std::uint64_t row, std::uint64_t column) {
  return detail::index_field(row, 32, "parameter_index", "row") << 32 |
         detail::index_field(column, 32, "parameter_index", "column");
}

}  // namespace SOMA_NAMESPACE
