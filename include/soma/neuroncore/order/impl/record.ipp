#pragma once
// The functions of record.hpp.

#include <soma/neuroncore/order/record.hpp>

#include <soma/neuroncore/order/instruction.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <cstdint>
#include <string>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE std::string RecordNames::path(std::uint32_t region) const {
  if (region == 0) return {};
  const RegionName& at = regions[region - 1];
  return at.parent == 0 ? at.name : path(at.parent).append("/").append(at.name);
}

}  // namespace SOMA_NAMESPACE::neuroncore
