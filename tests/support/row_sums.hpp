// The order of sums over a row (kernels/rows/row_sums-inl.hpp), stated plainly, and its error.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace soma_test {

// 16 lanes over each run of 1024; lanes meet pairwise; then runs do: neighbours 0 + 1, 2 + 3, ...,
// and so on, where an odd one waits. term(i, sum) adds element i.
template <class Term>
float row_sum(std::size_t count, const Term& term) {
  std::vector<float> runs;
  for (std::size_t begin = 0; begin < count; begin += 1024) {
    float lanes[16] = {};
    for (std::size_t i = begin; i < (std::min)(count, begin + 1024); ++i)
      lanes[i % 16] = term(i, lanes[i % 16]);
    for (const std::size_t half : {8, 4, 2, 1})
      for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    runs.push_back(lanes[0]);
  }
  while (runs.size() > 1) {
    std::vector<float> pairs;
    for (std::size_t i = 0; i < runs.size(); i += 2)
      pairs.push_back(i + 1 < runs.size() ? runs[i] + runs[i + 1] : runs[i]);
    runs = pairs;
  }
  return runs.empty() ? 0 : runs[0];
}

// The additions that an element goes through: at most 64 in a lane, 4 levels over lanes, and the
// levels over runs.
inline double row_sum_steps(std::size_t count) {
  double levels = 0;
  for (std::size_t runs = (count + 1023) / 1024; runs > 1; runs = (runs + 1) / 2) ++levels;
  return static_cast<double>((std::min)((count + 15) / 16, std::size_t{64})) + 4 + levels;
}

}  // namespace soma_test
