#pragma once
// The ways in which a matrix product multiplies bf16 numbers, and the list of CPUs that use each
// way.

#include <soma/runtime/cpu.hpp>
#include <soma/runtime/math.hpp>

#include <string_view>

namespace SOMA_NAMESPACE {

// The choice depends on the CPU's model, never on a timing. AMX tiles are used wherever they exist:
// by construction they multiply bf16 numbers sixteen times as fast as fp32 multiply-adds run. The
// dot instruction alone is no reason to use it: the list names CPUs on which both rates were
// measured, and CPUs with the same core. `has_loop`: true if the target in use was compiled with
// these instructions.
Bf16Choice bf16_choice(const CpuIdentity& cpu, bool has_loop);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/runtime/impl/bf16_products.ipp>
#endif
