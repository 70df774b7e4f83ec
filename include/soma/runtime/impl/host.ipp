#pragma once
// The functions of host.hpp.

#include <soma/runtime/host.hpp>

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

SOMA_INLINE double HostDescription::product_gflops_per_core(bool exact_in_bf16) const {
  if (bf16_gflops_per_core == 0) return gflops_per_core;
  if (exact_in_bf16) return bf16_gflops_per_core;
  return fp32_products == Fp32Products::multiply_add ? gflops_per_core
                                                     : bf16_gflops_per_core / split_products;
}

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE double measured_gflops(double (*rate)(std::uint64_t rounds) noexcept) {
  const FloatEnvironment environment;
  double operations = 0;
  const double seconds = best_seconds(5, [&] { operations = rate(400'000); });
  return seconds > 0 ? operations / seconds * 1e-9 : 0;
}

SOMA_INLINE double measured_copy_rate(Context& context) {
  constexpr std::size_t bytes = std::size_t{64} << 20;
  double seconds = 0;
  {
    HeapVector<std::byte> from(bytes, context.heap()), to(bytes, context.heap());
    seconds = best_seconds(5, [&] { std::memcpy(to.data(), from.data(), bytes); });
  }
  context.heap().trim();
  return seconds > 0 ? 2.0 * static_cast<double>(bytes) / seconds * 1e-9 : 0;
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE HostDescription describe_host(Context& context, Measure measure) {
  HostDescription host;
  host.cpu = cpu_identity();
  host.share = cpu_share();
  host.caches = cpu_caches();
  for (const Target& target : context.targets().targets) host.targets.emplace_back(target.name);
  host.target = context.target().name;
  host.fused_multiply_add = context.target().fused_multiply_add;
  host.dispatched = context.targets().dispatched;
  host.math = context.math();
  host.bf16 = context.bf16();
  host.fp32_products = context.fp32_products();
  host.threads = context.executor().width;
  if (measure != Measure::no) {
    host.gflops_per_core = detail::measured_gflops(context.target().multiply_add_rate);
    if (host.bf16.products != Bf16Products::widened)
      host.bf16_gflops_per_core = detail::measured_gflops(context.rate(host.bf16.products));
  }
  if (measure == Measure::yes) host.copy_gb_per_second = detail::measured_copy_rate(context);
  if (!host.dispatched && !host.fused_multiply_add) {
    host.remedies.emplace_back(
        "the kernels were compiled for " + host.target +
        ", without fused multiply-add: link soma::dispatch, or compile with -march=native");
  } else if (host.dispatched && !context.targets().targets.empty() &&
             context.targets().targets.front().name != context.target().name) {
    host.remedies.emplace_back("a better target is there: " + host.targets.front());
  }
  if (host.threads > host.share.usable())
    host.remedies.emplace_back(std::to_string(host.threads) + " threads share " +
                               std::to_string(host.share.usable()) + " usable cores: use fewer");
#if !defined(__OPTIMIZE__)
  host.remedies.emplace_back("this unit was compiled without optimisation: use -O2");
#endif
  return host;
}

SOMA_INLINE std::string to_string(const HostDescription& host) {
  std::string text;
  const auto line = [&text](std::string_view key, const std::string& value) {
    std::string padded(key);
    padded.resize((std::max)(padded.size() + 1, std::size_t{16}), ' ');
    text.append(padded).append(value).append("\n");
  };
  line("cpu", (host.cpu.name.empty() ? "unknown" : host.cpu.name) + " (" + host.cpu.vendor +
                  ", family " + std::to_string(host.cpu.family) + ", model " +
                  std::to_string(host.cpu.model) + ")");
  line("cores", std::to_string(host.share.cores) + " in the affinity mask, " +
                    (host.share.quota > 0 ? "quota " + soma::fixed(host.share.quota, 2)
                                          : std::string("no quota")) +
                    "; " + std::to_string(host.threads) + " threads in use");
  line("caches", "L1 " + std::to_string(host.caches.l1_data >> 10) + " KiB, L2 " +
                     std::to_string(host.caches.l2 >> 10) + " KiB, L3 " +
                     std::to_string(host.caches.l3 >> 10) + " KiB");
  std::string targets;
  for (const std::string& target : host.targets)
    targets.append(targets.empty() ? "" : " ")
        .append(target == host.target ? "[" + target + "]" : target);
  line("targets",
       targets + (host.fused_multiply_add ? ", with" : ", without") + " fused multiply-add");
  line("build", host.dispatched ? "dispatched: every target compiled, chosen by CPU"
                                : "include and go: the target that the compiler's flags allow");
  line("math", host.math == Math::fast ? "fast" : "portable");
  line("bf16 products",
       std::string(to_string(host.bf16.products)) + " (" + std::string(host.bf16.reason) + ")");
  line("fp32 products", std::string(to_string(host.fp32_products)));
  if (host.gflops_per_core > 0)
    line("measured",
         soma::fixed(host.gflops_per_core, 0) + " GFLOP/s fp32 multiply-add a core, " +
             (host.bf16_gflops_per_core > 0 ? soma::fixed(host.bf16_gflops_per_core, 0) + " bf16 " +
                                                  std::string(to_string(host.bf16.products)) + ", "
                                            : std::string()) +
             "copy " + soma::fixed(host.copy_gb_per_second, 1) +
             " GB/s read and written (for information)");
  for (const std::string& remedy : host.remedies) line("remedy", remedy);
  return text;
}

}  // namespace SOMA_NAMESPACE
