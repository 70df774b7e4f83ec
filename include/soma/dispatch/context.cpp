// soma::dispatch: the tables of all targets, and make_context(). Each target's own facts are
// collected here.

#include <soma/dispatch/context.hpp>
#include <soma/dispatch/family.hpp>
#include <soma/dispatch/targets.hpp>
#include <soma/runtime/bf16_products.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "soma/dispatch/context.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <soma/kernels/peak-inl.hpp>
#include <soma/simd/fused-inl.hpp>

#ifndef SOMA_DISPATCH_TARGET_FAMILY
#define SOMA_DISPATCH_TARGET_FAMILY
namespace SOMA_NAMESPACE::dispatch {
template <std::int64_t target>
struct TargetFamily;
}
#endif

namespace SOMA_NAMESPACE::dispatch {
template <>
struct TargetFamily<HWY_TARGET> {
  static void fill(Target& target) {
    target.name = hwy::TargetName(HWY_TARGET);
    target.fused_multiply_add = HWY_NAMESPACE::has_fused_multiply_add;
    target.multiply_add_rate = HWY_NAMESPACE::multiply_add_rate;
    target.bf16_dot_rate = HWY_NAMESPACE::bf16_dot_rate;
    target.bf16_tile_rate = HWY_NAMESPACE::bf16_tile_rate;
  }
};
}  // namespace SOMA_NAMESPACE::dispatch

#if HWY_ONCE

#include <soma/ops/all.hpp>
#include <soma/runtime/thread_pool.hpp>

#include <array>

namespace SOMA_NAMESPACE::dispatch {

// The tables of the targets that this CPU has, best first. Made at the first call and never
// changed.
struct Tables {
  std::array<Kernels, 64> kernels{};
  std::array<Target, 64> targets{};
  std::size_t count = 0;

  Tables() {
    const CpuIdentity cpu = cpu_identity();
    // A better target has a lower bit.
    for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
      const std::int64_t target = left & -left;
      Kernels& table = kernels[count];
      fill_convert(target, table);
      fill_random(target, table);
      fill_gemm(target, table);
      fill_attention(target, table);
      fill_element(target, table);
      fill_norm(target, table);
      fill_loss(target, table);
      fill_reduce(target, table);
      fill_embedding(target, table);
      fill_image(target, table);
      fill_optimizer(target, table);
      fill_quantize(target, table);
      fill_sequence(target, table);
      fill_for<HWY_TARGETS, TargetFamily>(target, targets[count]);
      targets[count].bf16 = bf16_choice(cpu, targets[count].bf16_dot_rate != nullptr);
      targets[count++].kernels = &table;
    }
  }
};

}  // namespace SOMA_NAMESPACE::dispatch

soma::Context soma::make_context(const ContextOptions& options) {
  static const dispatch::Tables tables;
  return Context(options, {.targets = {tables.targets.data(), tables.count},
                           .dispatched = true,
                           .operators = &built_in_operators,
                           .make_pool = make_thread_pool});
}

#endif
