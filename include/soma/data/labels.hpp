#pragma once
// Labels of a batch, as whoever counts them wants them.

#include <soma/tensor/tensor.hpp>

#include <cstdint>
#include <vector>

namespace soma::data {

// Class labels, int32 or int64.
inline std::vector<std::int64_t> class_labels(const Tensor& labels) {
  const auto copy = [](const auto values) {
    return std::vector<std::int64_t>(values.begin(), values.end());
  };
  return labels.dtype() == DType::int32 ? copy(labels.span<std::int32_t>())
                                        : copy(labels.span<std::int64_t>());
}

}  // namespace soma::data
