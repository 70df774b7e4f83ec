#pragma once
// Logical indices: the keys of random draws. An index names a number of the model or of the global
// batch, never the thread, rank, tile or padded position that happens to compute it, so the fields
// below have fixed widths. A value that does not fit its field is Error random.index_range.

#include <soma/base/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

namespace detail {

std::uint64_t index_field(std::uint64_t value, int bits, std::string_view operation,
                          std::string_view field);

}  // namespace detail

// An element of an activation: sequence of the global batch (24 bits), position in it (20), channel
// (20).
std::uint64_t token_index(std::uint64_t ordinal, std::uint64_t position, std::uint64_t channel);

// An attention probability: sequence of the global batch (24 bits), head (8), query (16), key (16).
std::uint64_t attention_index(std::uint64_t ordinal, std::uint64_t head, std::uint64_t query,
                              std::uint64_t key);

// An element of a parameter seen as a matrix: row (32 bits), column (32).
std::uint64_t parameter_index(std::uint64_t row, std::uint64_t column);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/numeric/impl/logical_index.ipp>
#endif
