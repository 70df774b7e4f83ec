#pragma once
// Matrix product with a fused epilogue: c = epilogue(a b), on one thread.
//
// Sums are fp32. For each element of c and each segment of k, products are added along k in
// ascending order, one fused multiply-add at a time, from zero; then the segments are added in the
// fixed tree. So bits depend on the segments only: not on blocking, tile, target (with fused
// multiply-add) or how a caller cuts rows and columns into calls. Error bound of an element: k
// 2^-24 sum |a| |b|. With the CPU's bf16 instructions (GemmArgs::bf16_products, fp32_products) bits
// depend on the segments and the CPU, and numbers below 2^-126 count as zero. With another
// accumulator than fp32 (GemmArgs::accumulation, defined in numeric/quantizer.hpp) bits depend on
// the accumulator and the segments only.

#include <soma/kernels/operand.hpp>
#include <soma/numeric/quantizer.hpp>
#include <soma/runtime/math.hpp>

#include <atomic>
#include <cstddef>

namespace SOMA_NAMESPACE {

// The steps from a finished sum to an element of c, in this order: (1) + the old value of c if
// `accumulate`; (2) + bias[column]; (3) stored in pre_activation; (4) activation; (5) dropout; (6)
// + residual; (7) |value| joins amax; (8) one rounding to c's type. Each step rounds to fp32.
struct Epilogue {
  bool accumulate = false;        // c is fp32 then
  const float* bias = nullptr;    // n
  MatrixTarget pre_activation{};  // m x n; data nullptr: not wanted
  Activation activation = Activation::none;
  DropoutArgs dropout{};
  MatrixOperand residual{};  // m x n, c itself or apart from it; data nullptr: none
  float* amax = nullptr;     // max(itself, largest finite |value|)
};

// Columns of b that are packed once for several calls (GemmKernels::pack_b), at least one per call.
// A product whose whole b is packed needs b itself only where reads_packed() prefers it.
struct PackedB {
  float* data = nullptr;               // aligned to 64 bytes; nullptr: each call packs its own
  std::size_t first = 0, columns = 0;  // the call's first packed column; all columns
  // true: panels of a b that is bf16 without a scale, and that products widen, hold its codes, half
  // the bytes. This pays for panels that come from memory, or serve few rows. All calls that share
  // panels give the same value, and those that ask for their size, too.
  bool narrow = false;
};

// The calls of a product take their columns from this queue.
struct ColumnQueue {
  std::atomic<std::size_t> next{0};  // the first that no call has taken
  std::size_t workers = 1;           // calls
};

struct GemmArgs {
  std::size_t m = 0, n = 0, k = 0;
  MatrixOperand a{};    // m x k
  MatrixOperand b{};    // k x n
  MatrixTarget c{};     // m x n; overlaps neither a nor b
  Segments segments{};  // segments of k
  Epilogue epilogue{};
  // The addition within each segment; sums of segments are added in fp32. An accumulation that is
  // not plain() uses widened products. The caller checks it.
  Accumulation accumulation{};
  // dot_instruction, tiles: for operands whose stored numbers are both exact in bf16 (bf16,
  // 8-bit formats, int8 and uint8 with a zero point of at most 128). 2 or 32 products at
  // a time are added to the sum as the instruction defines, from the first of each segment on;
  // scales are multiplied at the end. Only for a target and a CPU that has the instruction.
  Bf16Products bf16_products = Bf16Products::widened;
  // For all other products. split_tiles: packing splits each number into three parts
  // (gemm/pack/fp32_split-inl.hpp). From the first step of each segment on, the products of 32
  // consecutive steps are added to the sum at a time, each as six products of parts. Error bound of
  // an element: (k / 5 + 27) 2^-24 sum |a| |b|; numbers, parts and sums below 2^-126 count as zero,
  // and an infinity may become NaN. Only on CPUs with tiles.
  Fp32Products fp32_products = Fp32Products::multiply_add;
  // If factor is not nullptr, multiply() stores the scales there (1: none) instead of multiplying
  // by them, and c is the sum without scales. For sums that are added to other sums afterwards.
  float* factor = nullptr;
  // true: c is written past the caches. For large results that are not read soon.
  bool stream_c = false;
  PackedB packed_b{};
  ColumnQueue* column_queue = nullptr;  // where there is one: the call makes what it takes of it
  std::byte* workspace = nullptr;       // GemmKernels::workspace_bytes(), aligned to 64 bytes

  // True if the operands may use tiles.
  bool in_tiles() const {
    return bf16_products == Bf16Products::tiles || fp32_products == Fp32Products::split_tiles;
  }
};

// How to cut a product whose b is packed once for all calls.
struct SharedPacking {
  std::size_t columns = 0;     // that are packed together; 0: this product is not cut so
  std::size_t bytes = 0;       // bytes of the packed columns
  std::size_t rows = 0;        // most rows of a call
  std::size_t least_rows = 0;  // and least rows, while enough are left
  std::size_t tile_rows = 0;   // cut at multiples of these: whole tiles are fastest
  std::size_t workspace = 0;   // bytes for a call with that many rows, or one that packs
};

struct GemmKernels {
  void (*multiply)(const GemmArgs&) noexcept;
  // For calls that share a packed b: pack_b() packs the n columns of its args to packed_b, and
  // multiply() with packed_b reads it. Both need the workspace that shared_packing() of the whole
  // product returns, and cuts of columns at multiples of tile_columns.
  SharedPacking (*shared_packing)(const GemmArgs&) noexcept;
  void (*pack_b)(const GemmArgs&) noexcept;
  // The bytes of b with all its columns packed, for products of any number of rows; 0: products of
  // this kind read no packed b.
  std::size_t (*packed_bytes)(const GemmArgs&) noexcept;
  // True if a product that has its whole b packed is faster with it than with b in place.
  bool (*reads_packed)(const GemmArgs&) noexcept;
  // For calls that share a column_queue: the bytes of workspace for each call; 0 if this product
  // does not hand out columns.
  std::size_t (*queue_workspace)(const GemmArgs&) noexcept;
  // The bytes of workspace for any operands with these m, n, k and segments.count, in the ways that
  // the args name, with packed_b or without. The result never decreases if one of the four grows.
  std::size_t (*workspace_bytes)(const GemmArgs&) noexcept;
  // Callers cut c at multiples of this: whole tiles are fastest.
  std::size_t (*tile_rows)(const GemmArgs&) noexcept;
  std::size_t tile_columns;
};

}  // namespace SOMA_NAMESPACE
