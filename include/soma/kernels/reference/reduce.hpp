#pragma once
// Reductions, plainly. For tests.

#include <soma/kernels/reduce/args.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

namespace SOMA_NAMESPACE::reference {

// One row, from left to right; NaN wins in maximum and minimum.
template <class T>
T reduce(Reduction reduction, std::span<const T> x) {
  const T infinity = std::numeric_limits<T>::infinity();
  T result = reduction == Reduction::sum       ? 0
             : reduction == Reduction::maximum ? -infinity
                                               : infinity;
  for (const T value : x) {
    if (std::isnan(result)) break;
    if (reduction == Reduction::sum) result += value;
    if (reduction == Reduction::maximum && !(value <= result)) result = value;
    if (reduction == Reduction::minimum && !(value >= result)) result = value;
  }
  return result;
}

// out[c] = the sum of column c of a row-major matrix, from the first row to the last.
template <class T>
void column_sums(std::size_t rows, std::size_t columns, const T* x, T* out) {
  for (std::size_t c = 0; c < columns; ++c) {
    out[c] = 0;
    for (std::size_t r = 0; r < rows; ++r) out[c] += x[r * columns + c];
  }
}

template <class T>
T sum_squares(std::span<const T> x) {
  T sum = 0;
  for (const T value : x) sum += value * value;
  return sum;
}

template <class T>
bool all_finite(std::span<const T> x) {
  for (const T value : x)
    if (!std::isfinite(value)) return false;
  return true;
}

}  // namespace SOMA_NAMESPACE::reference
