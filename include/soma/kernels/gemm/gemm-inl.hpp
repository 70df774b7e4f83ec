// The gemm family of the kernel table: the entries, and the choice of the kind of product
// (gemm/product-inl.hpp) by a call's operands. gemm/README.md has the choice as a table.

#if defined(SOMA_KERNELS_GEMM_GEMM_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_GEMM_INL_HPP
#undef SOMA_KERNELS_GEMM_GEMM_INL_HPP
#else
#define SOMA_KERNELS_GEMM_GEMM_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/args.hpp>
#include <soma/kernels/gemm/few_rows/operands-inl.hpp>
#include <soma/kernels/gemm/product-inl.hpp>
#include <soma/kernels/gemm/rounded_sums-inl.hpp>
#include <soma/kernels/gemm/tiles/tiles-inl.hpp>
#include <soma/kernels/gemm/vector_kernel-inl.hpp>
#include <soma/kernels/gemm/workspace-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
// Calls each(std::type_identity<Gemm<...>>) with the kind of product for these operands.
template <class Each>
static auto with_gemm([[maybe_unused]] const GemmArgs& args, const Each& each) {
#if SOMA_HAS_BF16_DOT
  if (args.bf16_products != Bf16Products::widened && PairSource::takes(args.a) &&
      PairSource::takes(args.b))
    return args.bf16_products == Bf16Products::tiles
               ? each(std::type_identity<Gemm<PackedPanels<TileKernel<1>>>>())
               : each(std::type_identity<Gemm<PackedPanels<VectorKernel<Bf16Dot>>>>());
#endif
#if SOMA_HAS_BF16_TILES
  if (args.fp32_products == Fp32Products::split_tiles)
    return each(std::type_identity<Gemm<PackedPanels<TileKernel<split_parts>>>>());
#endif
  if (args.packed_b.narrow && CodeSource::takes(args.b))
    return each(
        std::type_identity<Gemm<PackedPanels<VectorKernel<FusedMultiplyAdd, CodeColumns>>>>());
  return each(std::type_identity<Gemm<PackedPanels<VectorKernel<FusedMultiplyAdd>>>>());
}

static inline void gemm_kernel(const GemmArgs& args) noexcept {
  if (args.m == 0 || args.n == 0) return;
  if (!args.accumulation.plain()) return RoundedSumsProduct(args).run();
  with_gemm(args,
            [&]<class Product>(std::type_identity<Product>) HWY_ATTR { Product(args).run(); });
}

static inline SharedPacking gemm_shared_packing(const GemmArgs& args) noexcept {
  if (!args.accumulation.plain()) return {};
  return with_gemm(args, [&]<class Product>(std::type_identity<Product>)
                             HWY_ATTR { return Product::shared_packing(args); });
}

static inline void gemm_pack_b(const GemmArgs& args) noexcept {
  with_gemm(args,
            [&]<class Product>(std::type_identity<Product>) HWY_ATTR { Product(args).pack_b(); });
}

static inline std::size_t gemm_packed_bytes(const GemmArgs& args) noexcept {
  if (!args.accumulation.plain()) return 0;
  return with_gemm(args, [&]<class Product>(std::type_identity<Product>)
                             HWY_ATTR { return Product::packed_bytes(args); });
}

static inline bool gemm_reads_packed(const GemmArgs& args) noexcept {
  return with_gemm(args, [&]<class Product>(std::type_identity<Product>)
                             HWY_ATTR { return Product::reads_packed(args); });
}

static inline std::size_t gemm_queue_workspace(const GemmArgs& args) noexcept {
  if (!args.accumulation.plain()) return 0;
  return with_gemm(args, [&]<class Product>(std::type_identity<Product>)
                             HWY_ATTR { return Product::queue_workspace(args); });
}

static inline std::size_t gemm_workspace_bytes(const GemmArgs& args) noexcept {
  return (std::max)(GemmWorkspace::Sizes(args, args.packed_b.data == nullptr).all(),
                    FewRowsWorkspace::bytes(args.k));
}

static inline std::size_t gemm_tile_rows([[maybe_unused]] const GemmArgs& args) noexcept {
#if SOMA_HAS_BF16_TILES
  if (args.in_tiles()) return TileKernel<1>::most_rows;
#endif
  return micro_rows;
}

static constexpr GemmKernels gemm_kernels{
    gemm_kernel,          gemm_shared_packing, gemm_pack_b,
    gemm_packed_bytes,    gemm_reads_packed,   gemm_queue_workspace,
    gemm_workspace_bytes, gemm_tile_rows,      micro_columns};
}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
