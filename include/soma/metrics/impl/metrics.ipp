#pragma once
// The functions of metrics.hpp.

#include <soma/metrics/metrics.hpp>

#include <soma/tensor/tensor.hpp>

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

}  // namespace SOMA_NAMESPACE::metrics
