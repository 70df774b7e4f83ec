#pragma once
// The part of a checkpoint's identity that a run does not choose itself.

#include <soma/base/record.hpp>
#include <soma/base/version.hpp>
#include <soma/ops/device.hpp>
#include <soma/runtime/context.hpp>

#include <string>

namespace soma {

// Adds what decides the bits of a run besides its settings: the library's version, who computes,
// the mode of arithmetic, whether the target has fused multiply-add, and how bf16 products are
// formed on this CPU, which decides it for those of fp32. Two machines with the same five give the
// same bits, whatever else they are.
inline void add_arithmetic(Record& identity, const Context& context) {
  identity.set("soma.version", std::to_string(version.major) + "." + std::to_string(version.minor) +
                                   "." + std::to_string(version.patch));
  const Device* device = context.device();
  identity.set("soma.device", device == nullptr ? "host" : device->name());
  identity.set("soma.math", context.math() == Math::portable ? "portable" : "fast");
  identity.set("soma.fused_multiply_add", context.target().fused_multiply_add);
  identity.set("soma.bf16_products", to_string(context.bf16().products));
}

}  // namespace soma
