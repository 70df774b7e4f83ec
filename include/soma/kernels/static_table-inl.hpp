// Include and go: the kernel table of the one target that this unit's flags allow.
//
// All of it has internal linkage and stands in a namespace named after the target. So of units with
// different flags each that makes a context compiles, and gets, kernels of its own; what is above
// kernels, the linker keeps once (docs/design.md).

#pragma once

#include <soma/base/config.hpp>
#include <soma/kernels/attention/attention-inl.hpp>
#include <soma/kernels/convert/convert-inl.hpp>
#include <soma/kernels/element/element-inl.hpp>
#include <soma/kernels/embedding/embedding-inl.hpp>
#include <soma/kernels/gemm/gemm-inl.hpp>
#include <soma/kernels/image/image-inl.hpp>
#include <soma/kernels/loss/loss-inl.hpp>
#include <soma/kernels/norm/norm-inl.hpp>
#include <soma/kernels/optimizer/optimizer-inl.hpp>
#include <soma/kernels/peak-inl.hpp>
#include <soma/kernels/quantize/expand-inl.hpp>
#include <soma/kernels/quantize/quantize-inl.hpp>
#include <soma/kernels/quantize/rotate-inl.hpp>
#include <soma/kernels/random/random-inl.hpp>
#include <soma/kernels/reduce/reduce-inl.hpp>
#include <soma/kernels/sequence/sequence-inl.hpp>
#include <soma/kernels/table.hpp>
#include <soma/runtime/bf16_products.hpp>
#include <soma/runtime/context.hpp>
#include <soma/simd/fused-inl.hpp>

#include <hwy/highway.h>

#if HWY_MAJOR < 1 || (HWY_MAJOR == 1 && HWY_MINOR == 0 && HWY_PATCH < 3)
#error "soma needs Highway 1.0.3 or newer (Debian: libhwy-dev)."
#endif

// A note, not a warning; -DSOMA_QUIET silences it. Macros only here: the target's own constant is
// no use to the preprocessor.
#if !defined(SOMA_QUIET) && defined(__x86_64__) && !defined(__FMA__)
// clang-format off
#pragma message("soma: this unit's kernels are compiled without fused multiply-add and are slow: " \
                "link soma::dispatch, or compile with -march=native")
// clang-format on
#endif

namespace SOMA_NAMESPACE {
inline namespace HWY_CONCAT(static_, HWY_NAMESPACE) {

  [[maybe_unused]] static inline TargetList static_targets() {
#if defined(__wasm_relaxed_simd__)
    if (!HWY_NAMESPACE::target_fuses())
      fail(error_id::math_needs_fma, "make_context", "target", "relaxed SIMD that rounds twice",
           "an engine on a machine that fuses multiply-adds, or a module without -mrelaxed-simd");
#endif
#if SOMA_WHOLE_TABLE
    static constexpr Kernels kernels{
        .convert = HWY_NAMESPACE::convert_kernel,
        .random = HWY_NAMESPACE::random_kernel,
        .gemm = HWY_NAMESPACE::gemm_kernels,
        .attention = HWY_NAMESPACE::attention_kernels,
        .element = HWY_NAMESPACE::element_kernels,
        .norm = HWY_NAMESPACE::norm_kernels,
        .loss = HWY_NAMESPACE::loss_kernels,
        .reduce = HWY_NAMESPACE::reduce_kernels,
        .embedding = HWY_NAMESPACE::embedding_kernels,
        .image = HWY_NAMESPACE::image_kernels,
        .optimizer = HWY_NAMESPACE::optimizer_kernels,
        .quantize = HWY_NAMESPACE::quantize_kernel,
        .expand = HWY_NAMESPACE::expand_kernel,
        .rotate = HWY_NAMESPACE::rotate_kernel,
        .sequence = HWY_NAMESPACE::sequence_kernels,
    };
#else
    static constexpr Kernels kernels{};
#endif
    static const Target target{hwy::TargetName(HWY_TARGET),
                               &kernels,
                               HWY_NAMESPACE::has_fused_multiply_add,
                               HWY_NAMESPACE::multiply_add_rate,
                               HWY_NAMESPACE::bf16_dot_rate,
                               HWY_NAMESPACE::bf16_tile_rate,
                               bf16_choice(cpu_identity(), HWY_NAMESPACE::has_bf16_dot)};
    return {{&target, 1}, false, nullptr};
  }

}  // namespace )
}  // namespace SOMA_NAMESPACE
