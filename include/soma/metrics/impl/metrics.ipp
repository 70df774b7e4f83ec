#pragma once
// The functions of metrics.hpp.

#include <soma/metrics/metrics.hpp>

#include <soma/base/fixed.hpp>
#include <soma/tensor/tensor.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::metrics {

SOMA_INLINE const Value* find(const Values& values, std::string_view name) {
  for (const Value& value : values)
    if (value.name == name) return &value;
  return nullptr;
}

SOMA_INLINE std::string shown(double value) {
  return std::isnan(value) ? "-" : soma::fixed(value, 4);
}

}  // namespace SOMA_NAMESPACE::metrics
