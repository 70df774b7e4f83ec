#pragma once
// Embedding, plainly. For tests.

#include <soma/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace SOMA_NAMESPACE::reference {

// Row i of y is row ids[i] of the table; both row-major with `columns` columns.
template <class T>
void gather(std::span<const std::int64_t> ids, std::size_t columns, const T* table, T* y) {
  for (std::size_t i = 0; i < ids.size(); ++i)
    for (std::size_t c = 0; c < columns; ++c)
      y[i * columns + c] = table[static_cast<std::size_t>(ids[i]) * columns + c];
}

// out = the sum of the rows of x that the list names, from the first to the last.
template <class T>
void gather_sum(std::span<const std::uint32_t> list, std::size_t columns, const T* x, T* out) {
  for (std::size_t c = 0; c < columns; ++c) {
    out[c] = 0;
    for (const std::uint32_t row : list) out[c] += x[row * columns + c];
  }
}

}  // namespace SOMA_NAMESPACE::reference
