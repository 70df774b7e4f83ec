#pragma once
// describe_host(): the CPU, caches and settings that this program runs with, and advice to make it
// faster. The description is for people and logs: no decision in soma depends on a measured rate.

#include <soma/base/fixed.hpp>
#include <soma/runtime/context.hpp>
#include <soma/runtime/cpu.hpp>
#include <soma/runtime/float_environment.hpp>
#include <soma/runtime/heap_vector.hpp>
#include <soma/system/clock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE {

struct HostDescription {
  CpuIdentity cpu;
  CpuShare share;
  CpuCaches caches;
  std::vector<std::string> targets;  // best first
  std::string target;                // the one in use
  bool fused_multiply_add = false;
  bool dispatched = false;  // soma::dispatch, or kernels of one unit
  Math math = Math::fast;
  Bf16Choice bf16{};
  Fp32Products fp32_products = Fp32Products::multiply_add;
  int threads = 1;
  double gflops_per_core = 0;       // fp32 multiply-adds in registers, one thread; 0: not measured
  double bf16_gflops_per_core = 0;  // bf16 instruction in registers; 0: not in use or not measured
  double copy_gb_per_second = 0;  // memory read and written by one copying thread; 0: not measured
  std::vector<std::string> remedies;  // advice that would make this program faster

  // The upper limit of a core in a matrix product, in GFLOP/s, for numbers that are exact in bf16
  // or for other numbers; 0: not measured.
  double product_gflops_per_core(bool exact_in_bf16) const;
};

enum class Measure : std::uint8_t {
  no,
  products,  // rates of products, which need no memory
  yes,
};

namespace detail {

// The best of a few short runs: neighbours on a shared machine only ever slow it down.
template <class Work>
double best_seconds(int runs, Work&& work) {
  double best = 0;
  for (int run = 0; run < runs; ++run) {
    const std::int64_t start = monotonic_nanoseconds();
    work();
    const double elapsed = static_cast<double>(monotonic_nanoseconds() - start) * 1e-9;
    if (run == 0 || elapsed < best) best = elapsed;
  }
  return best;
}

double measured_gflops(double (*rate)(std::uint64_t rounds) noexcept);

double measured_copy_rate(Context& context);

}  // namespace detail

// Measuring takes a tenth of a second; `yes` also 128 MiB of the context's memory, which it gives
// back. Error memory.exhausted.
HostDescription describe_host(Context& context, Measure measure = Measure::yes);

std::string to_string(const HostDescription& host);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/runtime/impl/host.ipp>
#endif
