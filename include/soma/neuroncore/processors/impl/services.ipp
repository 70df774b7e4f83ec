#pragma once
// The functions of services.hpp.

#include <soma/neuroncore/processors/services.hpp>

#include <soma/neuroncore/processors/processor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore::detail {

SOMA_INLINE Processor& processor_of(const soma_processor* processor) {
  return *static_cast<Processor*>(processor->host);
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail
