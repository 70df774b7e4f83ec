// Decodes rows of an 8-bit type to bf16 numbers by table look-up, for types whose numbers are all
// exact in bf16. That takes an eighth of the time of decoding to fp32.

#if defined(SOMA_KERNELS_GEMM_PACK_ROWS_8BIT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_PACK_ROWS_8BIT_INL_HPP
#undef SOMA_KERNELS_GEMM_PACK_ROWS_8BIT_INL_HPP
#else
#define SOMA_KERNELS_GEMM_PACK_ROWS_8BIT_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/pack/lookup_8bit-inl.hpp>
#include <soma/kernels/operand.hpp>
#include <soma/kernels/rows/matrix_io-inl.hpp>
#include <soma/simd/bf16_dot-inl.hpp>
#include <soma/tensor/dtype.hpp>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// `count` elements of each row, from `column` on.
struct RowsPart {
  std::size_t row, rows, column, count;
};

namespace {  // internal linkage: units with other flags have their own

class EightBitRows {
 public:
  // True if bf16 holds all numbers of this 8-bit type exactly, apart from the operand's scale.
  static bool are_exact(const MatrixOperand& operand) {
    if (size_of(operand.dtype) != 1) return false;
    return is_floating(operand.dtype) || (-128 <= operand.zero_point && operand.zero_point <= 128);
  }
  // True if the operand has rows of such a type, with adjacent bytes.
  static bool take(const MatrixOperand& operand) {
    return are_exact(operand) && operand.column_stride == 1;
  }
  // True if look-up is quicker than decoding to fp32. With byte shuffles alone, it is not for
  // integers.
  static constexpr bool quick(DType type) {
    return SOMA_HAS_BF16_DOT || (SOMA_HAS_BYTE_SHUFFLES && is_floating(type));
  }

  EightBitRows() = default;  // not present()
  // `rows`: the number of rows. `by_bytes`: use the instructions of bf16_dot-inl.hpp, which the CPU
  // must have. With byte shuffles alone, the result is not present() if the numbers do not fit
  // NumberHalves.
  EightBitRows(const MatrixOperand& operand, std::size_t rows, bool by_bytes)
      : present_(true),
        by_bytes_(by_bytes),
        first_(static_cast<const std::uint8_t*>(operand.data)),
        stride_(operand.row_stride),
        last_(rows - 1) {
    make_table(operand);
  }

  bool present() const { return present_; }

  // Writes bf16 numbers to rows that are `stride` numbers apart. Meanwhile it prefetches, line by
  // line, the same columns of the rows that are `ahead` rows further, for a read() soon. Prefetches
  // of all lines at once would delay the current reads (0.93 to 0.96 of the speed of a weight
  // gradient over 4,096 tokens, AMD Zen 5).
  void read(const RowsPart& part, std::size_t ahead, Bf16Code* numbers, std::size_t stride) const {
#if SOMA_HAS_BYTE_SHUFFLES
    look_up_rows<NumberSteps>(part, ahead, numbers, stride);
#else
#if SOMA_HAS_BF16_DOT
    if (by_bytes_)
      return has_sign_ ? look_up_rows<NumberTable<true>>(part, ahead, numbers, stride)
                       : look_up_rows<NumberTable<false>>(part, ahead, numbers, stride);
#endif
    has_sign_ ? look_up<true>(part, ahead, numbers, stride)
              : look_up<false>(part, ahead, numbers, stride);
#endif
  }

  // For callers that look up themselves (gemm/pack/panels_8bit-inl.hpp); only with by_bytes.
  const std::uint8_t* at(std::size_t row, std::size_t column) const {
    return first_ + row * stride_ + column;
  }
  void fetch(std::size_t row, std::size_t column) const {
    hwy::Prefetch(at((std::min)(row, last_), column));
  }
  const NumberHalves& halves() const { return halves_; }
  bool has_sign() const { return has_sign_; }

 private:
  void make_table(MatrixOperand operand) {
    std::byte all[byte_codes];
    for (std::size_t code = 0; code < byte_codes; ++code) all[code] = static_cast<std::byte>(code);
    operand.data = all;
    operand.scale = 1;
    alignas(64) float values[byte_codes];
    upper_halves(MatrixReader(operand).read(0, 0, byte_codes, values), byte_codes, table_);
#if SOMA_HAS_BYTE_SHUFFLES
    present_ = halves_.take(table_);
#else
    // Compares all numbers without an early end, so that the compiler can use vectors: each call of
    // a product makes this table.
    unsigned differences = 0;
    for (std::size_t code = 0; code < byte_codes / 2; ++code)
      differences |=
          static_cast<unsigned>(table_[byte_codes / 2 + code] ^ (table_[code] | bf16_sign));
    has_sign_ = differences == 0;
    if (!by_bytes_) return;
    for (std::size_t code = 0; code < byte_codes; ++code) {
      halves_.lower[code] = static_cast<std::uint8_t>(table_[code]);
      halves_.upper[code] = static_cast<std::uint8_t>(table_[code] >> 8);
    }
#endif
  }

#if SOMA_HAS_BF16_DOT || SOMA_HAS_BYTE_SHUFFLES
  template <class Table>
  HWY_NOINLINE void look_up_rows(const RowsPart& part, std::size_t ahead, Bf16Code* numbers,
                                 std::size_t stride) const {
    const hn::ScalableTag<std::uint8_t> d;
    const hn::Repartition<std::uint16_t, decltype(d)> d16;
    const hn::Repartition<std::uint64_t, decltype(d)> d64;
    using Bytes = hn::Vec<decltype(d)>;
    constexpr std::size_t lanes = Table::lanes;
    const Table table(halves_);
    // The order of groups of eight bytes that makes their numbers adjacent in the result.
    alignas(64) std::uint64_t sides[lanes / 8];
    for (std::size_t i = 0; i < lanes / 8; ++i) sides[i] = i / 2 + i % 2 * lanes / 16;
    const auto order = hn::SetTableIndices(d64, sides);
    const auto look_up = [&](const std::uint8_t* from, Bf16Code* to) HWY_ATTR {
      Bytes first, second;
      const auto sorted = hn::TableLookupLanes(hn::BitCast(d64, hn::LoadU(d, from)), order);
      table.look_up(hn::BitCast(d, sorted), first, second);
      hn::StoreU(hn::BitCast(d16, first), d16, to);
      hn::StoreU(hn::BitCast(d16, second), d16, to + lanes / 2);
    };
    const std::size_t whole = part.count / lanes * lanes, rest = part.count - whole;
    for (std::size_t row = 0; row < part.rows; ++row, numbers += stride) {
      const std::uint8_t* const from = at(part.row + row, part.column);
      const std::uint8_t* const fetched =
          at((std::min)(part.row + row + ahead, last_), part.column);
      hwy::Prefetch(fetched + part.count - 1);
      for (std::size_t i = 0; i < whole; i += lanes) {
        hwy::Prefetch(fetched + i);
        look_up(from + i, numbers + i);
      }
      if (rest == 0) continue;
      if (whole != 0) {  // some once more, which is quicker than less than a vector
        look_up(from + part.count - lanes, numbers + part.count - lanes);
        continue;
      }
      alignas(64) std::uint8_t codes[lanes] = {};
      alignas(64) Bf16Code all[lanes];
      std::memcpy(codes, from, rest);
      look_up(codes, all);
      std::memcpy(numbers, all, rest * sizeof *numbers);
    }
  }
#endif

  // `kSign`: the upper half of the table is the lower half with a sign. Then two of the four
  // look-ups are enough: 58 codes a nanosecond instead of 35 (AMD Zen 5).
  template <bool kSign>
  HWY_NOINLINE void look_up(const RowsPart& part, std::size_t ahead, Bf16Code* numbers,
                            std::size_t stride) const {
#if SOMA_HAS_BF16_DOT
    constexpr std::size_t lanes = 32;  // Highway 1.0.3 has no look-up of 16-bit lanes
    __m512i table[byte_codes / lanes];
    for (std::size_t i = 0; i < byte_codes / lanes; ++i)
      table[i] = _mm512_load_si512(table_ + i * lanes);
    // The lowest six bits of an index choose from two vectors.
    const auto half = [](const __m512i* parts, __m512i index) HWY_ATTR {
      const __mmask32 upper = _mm512_test_epi16_mask(index, _mm512_set1_epi16(64));
      return _mm512_mask_blend_epi16(upper, _mm512_permutex2var_epi16(parts[0], index, parts[1]),
                                     _mm512_permutex2var_epi16(parts[2], index, parts[3]));
    };
    const auto numbers_of = [&](__m256i bytes) HWY_ATTR {
      const __m512i index = _mm512_cvtepu8_epi16(bytes);
      const __m512i low = half(table, index);
      if constexpr (kSign) {
        const __m512i mask = _mm512_set1_epi16(static_cast<std::int16_t>(bf16_sign));
        return _mm512_or_si512(low, _mm512_and_si512(_mm512_slli_epi16(index, 8), mask));
      } else {
        const __mmask32 upper = _mm512_test_epi16_mask(index, _mm512_set1_epi16(128));
        return _mm512_mask_blend_epi16(upper, low, half(table + 4, index));
      }
    };
    const std::size_t whole = part.count / lanes * lanes;
    const auto rest = static_cast<__mmask32>((std::uint64_t{1} << (part.count - whole)) - 1);
    for (std::size_t row = 0; row < part.rows; ++row, numbers += stride) {
      const std::uint8_t* const from = at(part.row + row, part.column);
      const std::uint8_t* const fetched =
          at((std::min)(part.row + row + ahead, last_), part.column);
      hwy::Prefetch(fetched + part.count - 1);
      for (std::size_t i = 0; i < whole; i += lanes) {
        hwy::Prefetch(fetched + i);
        const auto* const bytes = reinterpret_cast<const __m256i*>(from + i);
        _mm512_storeu_si512(numbers + i, numbers_of(_mm256_loadu_si256(bytes)));
      }
      if (rest != 0)
        _mm512_mask_storeu_epi16(numbers + whole, rest,
                                 numbers_of(_mm256_maskz_loadu_epi8(rest, from + whole)));
    }
#else
    for (std::size_t row = 0; row < part.rows; ++row, numbers += stride) {
      const std::uint8_t* const from = at(part.row + row, part.column);
      fetch(part.row + row + ahead, part.column);
      for (std::size_t i = 0; i < part.count; ++i) numbers[i] = table_[from[i]];
    }
#endif
  }

  bool present_ = false, has_sign_ = false;
  [[maybe_unused]] bool by_bytes_ = false;  // where a target knows both ways
  const std::uint8_t* first_ = nullptr;
  std::size_t stride_ = 0, last_ = 0;
  alignas(64) Bf16Code table_[byte_codes];
  NumberHalves halves_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
