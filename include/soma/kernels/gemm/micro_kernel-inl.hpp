// The innermost loop of every matrix product: a block of the result stays in registers while the
// loop runs along k. Operands are packed (gemm/pack/fp32-inl.hpp), so that the loop reads both from
// front to back.
//
// micro_rows and vectors are chosen so that accumulators, one row of b and one element of a fill
// the registers: enough independent chains to hide the latency of a multiply-add (4 cycles, two a
// cycle: 8 chains), and few loads for each multiply-add. g++ 12 and clang 14 keep all accumulators
// in registers at these sizes.

#if defined(SOMA_KERNELS_GEMM_MICRO_KERNEL_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_MICRO_KERNEL_INL_HPP
#undef SOMA_KERNELS_GEMM_MICRO_KERNEL_INL_HPP
#else
#define SOMA_KERNELS_GEMM_MICRO_KERNEL_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/rows/vector_loops-inl.hpp>
#include <soma/simd/bf16_dot-inl.hpp>
#include <soma/simd/element_operand-inl.hpp>
#include <soma/simd/fused-inl.hpp>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <bit>
#include <cstddef>
#include <type_traits>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The register block: micro_rows x micro_columns sums stay in registers while the loop runs along
// k. They take 28 of 32 registers with AVX-512, 12 of 16 with 8 or 4 lanes on x86, 16 of 32 on
// AArch64.
inline constexpr std::size_t micro_rows = float_lanes == 16  ? 14
                                          : HWY_ARCH_ARM     ? 8
                                          : float_lanes == 1 ? 4
                                                             : 6;
inline constexpr std::size_t micro_vectors = float_lanes == 1 ? 4 : 2;
inline constexpr std::size_t micro_columns = micro_vectors * float_lanes;
// A step of k takes whole vectors of rows of a, which are easier to pack.
inline constexpr std::size_t micro_row_width =
    (micro_rows + float_lanes - 1) / float_lanes * float_lanes;
inline constexpr std::size_t line_floats = 16;  // a cache line

// The rows of the lower blocks that compute the last rows of a product, ascending: 34 rows with
// AVX-512 are 14 + 14 + 7 instead of three times 14. A block needs 8 chains, so blocks of less than
// 4 rows would take as long. Not measured on AArch64, which has none.
inline constexpr std::size_t low_blocks[] = {4, float_lanes == 16 ? 7 : 5, 10};
inline constexpr std::size_t low_block_count = HWY_ARCH_ARM || float_lanes == 1 ? 0
                                               : float_lanes == 16              ? 3
                                                                                : 2;
// True if the last rows, where they fill more than one block and less than two, are shared evenly
// by two blocks: 8 rows are 4 + 4 instead of 6 + 4.
inline constexpr bool even_blocks = low_block_count != 0 && micro_rows == 6;

// The operation of one step. A step of a packed operand takes one float: an fp32 number, or two
// bf16 numbers that are adjacent along k. a is in a register, or in memory if the instruction
// accepts a memory operand.
struct FusedMultiplyAdd {
  static constexpr std::size_t products = 1;
  static constexpr bool splits = false;
  static HWY_INLINE FloatVector add(FloatVector a, FloatVector b, FloatVector sum) {
#if HWY_TARGET == HWY_AVX2
    // Writes to the sum's own register. If all 16 registers are in use, g++ 12 otherwise takes
    // another register for the result, and then reads operands from memory again: a block of 4 rows
    // and 3 vectors took 1.2 times as long.
    asm("vfmadd231ps %2, %1, %0" : "+x"(sum.raw) : "x"(a.raw), "x"(b.raw));
    return sum;
#else
    return multiply_add(a, b, sum);
#endif
  }
#if SOMA_HAS_ELEMENT_OPERANDS
  static HWY_INLINE FloatVector add(ElementPlace* a, FloatVector b, FloatVector sum) {
    return multiply_add_element(a, b, sum);
  }
#endif
};
#if SOMA_HAS_BF16_DOT
struct Bf16Dot {
  static constexpr std::size_t products = 2;
  static constexpr bool splits = false;
  static HWY_INLINE FloatVector add(FloatVector a, FloatVector b, FloatVector sum) {
    return dot_pairs(a, b, sum);
  }
  static HWY_INLINE FloatVector add(ElementPlace* a, FloatVector b, FloatVector sum) {
    return dot_element_pairs(a, b, sum);
  }
};
#endif

namespace {  // internal linkage: units with other flags have their own

// Steps of k that are packed together: a power of two of neighbouring segments, or a part of one
// segment.
struct PackedSteps {
  static constexpr std::size_t most_segments = 16;
  const std::size_t* bounds;  // segments + 1
  std::size_t segments;

  // The number of steps of the innermost loop, each for `depth` of k. Each segment begins with a
  // new step.
  std::size_t count(std::size_t segment, std::size_t depth) const {
    return (bounds[segment + 1] - bounds[segment] + depth - 1) / depth;
  }
  std::size_t count(std::size_t depth) const {
    std::size_t all = 0;
    for (std::size_t i = 0; i < segments; ++i) all += count(i, depth);
    return all;
  }
};

// The memory of sums: rows are `stride` floats apart, and sums start from the values there, or from
// zero if `fresh`. After the last step, `addends` tiles are added one after another: the first one
// is `addend_distance` floats before `sums`, the next one the same distance before that. The result
// is stored in the last of these tiles, end().
struct SumPath {
  float* sums;
  std::size_t stride;
  bool fresh = true;
  std::size_t addends = 0, addend_distance = 0;

  float* end() const { return sums - addends * addend_distance; }
  // The path of the block of sums that is `floats` floats further.
  SumPath behind(std::size_t floats) const {
    return {sums + floats, stride, fresh, addends, addend_distance};
  }
};

// The path of sums that begin at zero and are written from registers by an Exit (Bf16Exit), to
// `rows` rows of a block from a row and a column on.
template <class Exit>
struct ExitPath {
  const Exit* exit;
  std::size_t row, rows, column;
};

// The columns of a step of packed b: as floats, or as codes of bf16. A vector of words holds the
// codes of two vectors of columns, the first in the low halves, so that widening is one instruction
// a vector.
struct FloatColumns {
  static constexpr std::size_t floats(std::size_t columns) { return columns; }
  template <std::size_t... j>
  static HWY_INLINE void load(std::index_sequence<j...>, FloatVector* row, const float* b) {
    ((row[j] = hn::LoadU(Floats(), b + j * float_lanes)), ...);
  }
};
struct CodeColumns {
  static constexpr std::size_t floats(std::size_t columns) { return columns / 2; }
  template <std::size_t... j>
  static HWY_INLINE void load(std::index_sequence<j...>, FloatVector* row, const float* b) {
    static_assert(sizeof...(j) % 2 == 0);
    ((row[j] = widened<j % 2 != 0>(b + j / 2 * float_lanes)), ...);
  }

 private:
  using Words = hn::RebindToUnsigned<Floats>;
  static HWY_INLINE hn::Vec<Words> words(const float* from) {
    return hn::BitCast(Words(), hn::LoadU(Floats(), from));
  }
  template <bool kHigh>
  static HWY_INLINE FloatVector widened(const float* from) {
    if constexpr (kHigh)
      return hn::BitCast(Floats(), hn::And(words(from), hn::Set(Words(), 0xffff0000u)));
    else
      return hn::BitCast(Floats(), hn::ShiftLeft<16>(words(from)));
  }
};

// Prefetches the block of sums that is `block` floats from their start.
template <std::size_t kRows>
HWY_INLINE void fetch_sums(const SumPath& path, std::size_t block) {
  const float* sums = path.sums - (path.addends != 0 ? path.addend_distance : 0) + block;
  for (std::size_t i = 0; i < kRows; ++i)
    for (std::size_t j = 0; j < micro_columns; j += line_floats)
      hwy::Prefetch(sums + i * path.stride + j);
}

// Rows of a, step by step: [steps][micro_row_width] in a packed panel. The loop prefetches the same
// number of floats at `ahead`.
struct PackedRows {
  const float *at, *ahead;

  HWY_INLINE ElementPlace* place(std::size_t row) const { return at + row; }
  HWY_INLINE void next() { at += micro_row_width, ahead += micro_row_width; }
  HWY_INLINE void fetch(std::size_t) const { hwy::Prefetch(ahead); }
};

// Rows of a matrix in place, one float for each step. An x86 address can add up to eight times a
// register to another register, so one address and three distances in bytes reach seven rows, and
// registers stay free.
template <std::size_t kRows = micro_rows>
class MatrixRows {
 public:
  MatrixRows(const float* first, std::size_t stride)
      : stride_(stride * sizeof(float)), triple_(3 * stride_), quintuple_(5 * stride_) {
    for (std::size_t i = 0; i < bases; ++i)
      at_[i] = reinterpret_cast<const char*>(first + i * rows_each * stride);
  }

  HWY_INLINE ElementPlace* place(std::size_t row) const {
    const std::size_t distances[] = {0,           stride_,    2 * stride_, triple_,
                                     4 * stride_, quintuple_, 2 * triple_};
    return reinterpret_cast<ElementPlace*>(at_[row / rows_each] + distances[row % rows_each]);
  }
  HWY_INLINE void next() {
    for (std::size_t i = 0; i < bases; ++i) {
      at_[i] += sizeof(float);
      // Without this line the compiler keeps the sums of distances and steps in registers, of which
      // there are not enough.
      asm("" : "+r"(at_[i]));
    }
  }

 private:
  static constexpr std::size_t rows_each = 7;
  static constexpr std::size_t bases = (kRows + rows_each - 1) / rows_each;
  const char* at_[bases];
  std::size_t stride_, triple_, quintuple_;
};

// The same rows before a packed panel, which is prefetched as in PackedRows.
struct RowsBeforePanel : MatrixRows<> {
  RowsBeforePanel(const float* first, std::size_t stride, const float* panel)
      : MatrixRows<>(first, stride), ahead(panel) {}
  HWY_INLINE void next() { MatrixRows<>::next(), ahead += micro_row_width; }
  HWY_INLINE void fetch(std::size_t) const { hwy::Prefetch(ahead); }

  const float* ahead;
};

// Calls each(std::integral_constant<std::size_t, n>()) for the lowest block of at least so many
// rows.
template <std::size_t kIndex = 0, class Each>
HWY_INLINE void with_block(std::size_t rows, const Each& each) {
  if constexpr (kIndex == low_block_count)
    each(std::integral_constant<std::size_t, micro_rows>());
  else if (rows <= low_blocks[kIndex])
    each(std::integral_constant<std::size_t, low_blocks[kIndex]>());
  else
    with_block<kIndex + 1>(rows, each);
}

// kRows rows of a with kVectors vectors of b, whose steps have kWidth Columns. Arrays of vectors
// below never exist in memory: every index is a constant.
template <class Products, class RowsOfA = PackedRows, std::size_t kRows = micro_rows,
          std::size_t kVectors = micro_vectors, std::size_t kWidth = micro_columns,
          class Columns = FloatColumns>
class MicroKernel {
  using RowIndices = std::make_index_sequence<kRows>;
  using Vectors = std::make_index_sequence<kVectors>;
  using All = std::make_index_sequence<kRows * kVectors>;

 public:
  // Computes a block of c: sums along k in ascending order, one step at a time, stored by their
  // path. b is [steps][kWidth], aligned to a vector of columns.
  template <class Path = SumPath>
  HWY_NOINLINE HWY_MAYBE_UNUSED static void run(std::size_t steps, RowsOfA a,
                                                const float* HWY_RESTRICT b, const Path& path) {
    FloatVector sums[kRows * kVectors];
    begin(sums, path);
    add_steps(sums, steps, a, b);
    leave(sums, path, false);
  }

  // The same for several segments of k. Their sums are added in a tree: as in a binary counter,
  // each sum waits until its neighbour is complete.
  template <class Path>
  HWY_NOINLINE HWY_MAYBE_UNUSED static void run(const PackedSteps& steps, RowsOfA a,
                                                const float* HWY_RESTRICT b, const Path& path) {
    constexpr std::size_t block = kRows * micro_columns;
    alignas(64) float waiting[std::bit_width(PackedSteps::most_segments) * block];
    float* to = waiting;
    FloatVector sums[kRows * kVectors];
    begin(sums, path);
    for (std::size_t i = 0;; to += block) {
      add_steps(sums, steps.count(i, Products::products), a, b);
      for (std::size_t bits = i; bits % 2 != 0; bits /= 2)
        add(All(), sums, to -= block, micro_columns);
      if (++i == steps.segments) break;
      store(All(), sums, to, micro_columns);
      clear(All(), sums);
    }
    leave(sums, path, steps.segments != 1);
  }

 private:
  template <std::size_t... i>
  HWY_INLINE static void clear(std::index_sequence<i...>, FloatVector* sums) {
    ((sums[i] = hn::Zero(Floats())), ...);
  }
  template <std::size_t... i>
  HWY_INLINE static void load(std::index_sequence<i...>, FloatVector* sums, const float* c,
                              std::size_t stride) {
    ((sums[i] = hn::LoadU(Floats(), c + i / kVectors * stride + i % kVectors * float_lanes)), ...);
  }
  template <std::size_t... i>
  HWY_INLINE static void add(std::index_sequence<i...>, FloatVector* sums, const float* c,
                             std::size_t stride) {
    ((sums[i] = hn::Add(hn::LoadU(Floats(), c + i / kVectors * stride + i % kVectors * float_lanes),
                        sums[i])),
     ...);
  }
  template <std::size_t... i>
  HWY_INLINE static void store(std::index_sequence<i...>, const FloatVector* sums, float* c,
                               std::size_t stride) {
    (hn::StoreU(sums[i], Floats(), c + i / kVectors * stride + i % kVectors * float_lanes), ...);
  }
  HWY_INLINE static void begin(FloatVector* sums, const SumPath& path) {
    if (path.fresh)
      clear(All(), sums);
    else
      load(All(), sums, path.sums, path.stride);
  }
  HWY_INLINE static void leave(FloatVector* sums, const SumPath& path, bool) {
    float* to = path.sums;
    const std::size_t stride = path.stride;
    for (std::size_t i = 0; i < path.addends; ++i)
      add(All(), sums, to -= path.addend_distance, stride);
    store(All(), sums, to, stride);
  }
  template <class Exit>
  HWY_INLINE static void begin(FloatVector* sums, const ExitPath<Exit>&) {
    clear(All(), sums);
  }
  // `added`: true if the sums are sums of several segments' sums.
  template <class Exit>
  HWY_INLINE static void leave(FloatVector* sums, const ExitPath<Exit>& path, bool added) {
    path.exit->write(RowIndices(), sums, added, path.row, path.rows, path.column);
  }
  HWY_INLINE static void add_steps(FloatVector* sums, std::size_t steps, RowsOfA& a,
                                   const float* HWY_RESTRICT& b) {
    // Handles two steps a round: the instructions that count rounds use the same units as
    // multiply-adds.
    std::size_t number = steps % 2;
    if (number != 0) step(RowIndices(), sums, a, b, 0);
    const float* const end = b + (steps - number) * Columns::floats(kWidth);
    if (b == end) return;
    do {
      step(RowIndices(), sums, a, b, number);
      step(RowIndices(), sums, a, b, number + 1);
      number += 2;
    } while (b != end);
  }
  template <std::size_t... i>
  HWY_INLINE static void step(std::index_sequence<i...>, FloatVector* sums, RowsOfA& a,
                              const float* HWY_RESTRICT& b, std::size_t number) {
    a.fetch(number);
    FloatVector row[kVectors];
    Columns::load(Vectors(), row, b);
    (multiply_add<i>(sums + i * kVectors, a.place(i), row), ...);
    a.next();
    b += Columns::floats(kWidth);
  }
  // The elements of every other row stay in memory. With all elements in registers, the loop has 44
  // instructions for 28 multiply-adds, and waits for instruction issue if two threads share a core
  // (1.08 to 1.12 times the time on an Intel CPU). With no element in registers, it waits for 30
  // loads.
  template <std::size_t i>
  HWY_INLINE static void multiply_add(FloatVector* sums, ElementPlace* a, const FloatVector* row) {
    if constexpr (has_element_operands && i % 2 == 0)
      multiply_add(Vectors(), sums, a, row);
    else
      multiply_add(Vectors(), sums, hn::Set(Floats(), *a), row);
  }
  template <class A, std::size_t... j>
  HWY_INLINE static void multiply_add(std::index_sequence<j...>, FloatVector* sums, A a,
                                      const FloatVector* row) {
    ((sums[j] = Products::add(a, row[j], sums[j])), ...);
  }
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
