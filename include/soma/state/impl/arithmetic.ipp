#pragma once
// The functions of arithmetic.hpp.

#include <soma/state/arithmetic.hpp>

#include <soma/base/record.hpp>
#include <soma/base/version.hpp>
#include <soma/ops/device.hpp>
#include <soma/runtime/context.hpp>

#include <string>

namespace SOMA_NAMESPACE {

SOMA_INLINE void add_arithmetic(Record& identity, const Context& context) {
  identity.set("soma.version", std::to_string(version.major) + "." + std::to_string(version.minor) +
                                   "." + std::to_string(version.patch));
  const Device* device = context.device();
  identity.set("soma.device", device == nullptr ? "host" : device->name());
  identity.set("soma.math", context.math() == Math::portable ? "portable" : "fast");
  identity.set("soma.fused_multiply_add", context.target().fused_multiply_add);
  identity.set("soma.bf16_products", to_string(context.bf16().products));
}

}  // namespace SOMA_NAMESPACE
