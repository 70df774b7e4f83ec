#pragma once
// The part of a checkpoint's identity that does not come from a run's options.

#include <soma/base/record.hpp>
#include <soma/base/version.hpp>
#include <soma/ops/device.hpp>
#include <soma/runtime/context.hpp>

#include <string>

namespace SOMA_NAMESPACE {

// Adds the facts that decide the bits of a run beside its settings: the library's version, the
// device, the mode of arithmetic, fused multiply-add on the target, and the way of bf16 products on
// this CPU, which also decides fp32 products. Two machines with the same five facts give the same
// bits.
void add_arithmetic(Record& identity, const Context& context);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/state/impl/arithmetic.ipp>
#endif
