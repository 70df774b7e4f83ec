// Rows of an 8-bit type as bf16 numbers, for types of which bf16 holds all numbers exactly: looked
// up by their codes, which takes an eighth of the time of decoding them to fp32.

#if defined(SOMA_KERNELS_BYTE_ROWS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_BYTE_ROWS_INL_HPP
#undef SOMA_KERNELS_BYTE_ROWS_INL_HPP
#else
#define SOMA_KERNELS_BYTE_ROWS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/operand.hpp>
#include <soma/kernels/rows-inl.hpp>
#include <soma/simd/bf16_dot-inl.hpp>
#include <soma/tensor/dtype.hpp>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The upper half of an fp32 number.
using Bf16Code = std::uint16_t;

// The upper halves of numbers that bf16 holds exactly. Writes whole vectors.
HWY_NOINLINE HWY_MAYBE_UNUSED static void upper_halves(const float* values, std::size_t count,
                                                       Bf16Code* codes) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const hn::Rebind<Bf16Code, Floats> narrow;
  for (std::size_t i = 0; i < count; i += float_lanes)
    hn::StoreU(
        hn::TruncateTo(narrow, hn::ShiftRight<16>(hn::BitCast(du, hn::LoadU(d, values + i)))),
        narrow, codes + i);
}

// `count` elements of each row, from `column` on.
struct RowsPart {
  std::size_t row, rows, column, count;
};

namespace {  // internal linkage: units with other flags have their own

class ByteRows {
 public:
  // Whether bf16 holds all numbers of this 8-bit type, but for the operand's scale.
  static bool are_exact(const MatrixOperand& operand) {
    if (size_of(operand.dtype) != 1) return false;
    return is_floating(operand.dtype) || (-128 <= operand.zero_point && operand.zero_point <= 128);
  }
  // Whether these are rows of such a type, whose bytes are adjacent.
  static bool take(const MatrixOperand& operand) {
    return are_exact(operand) && operand.column_stride == 1;
  }
  // Whether looking up is quicker than decoding to fp32.
  static constexpr bool quick = SOMA_HAS_BF16_DOT;

  ByteRows() = default;  // not present()
  // Of `rows` rows. `by_bytes`: for a CPU that has the instructions of bf16_dot-inl.hpp.
  ByteRows(const MatrixOperand& operand, std::size_t rows, bool by_bytes)
      : present_(true),
        by_bytes_(by_bytes),
        first_(static_cast<const std::byte*>(operand.data)),
        stride_(operand.row_stride),
        last_(rows - 1) {
    make_table(operand);
  }

  bool present() const { return present_; }

  // To rows `stride` numbers apart. The same columns of rows `ahead` of them, for a read() soon,
  // are fetched meanwhile, line by line: asked for all at once, they are in the way of what is read
  // now (0.93 to 0.96 of the speed of a weight gradient over 4,096 tokens, AMD Zen 5).
  void read(const RowsPart& part, std::size_t ahead, Bf16Code* numbers, std::size_t stride) const {
    if (by_bytes_)
      has_sign_ ? look_up_bytes<true>(part, ahead, numbers, stride)
                : look_up_bytes<false>(part, ahead, numbers, stride);
    else
      has_sign_ ? look_up<true>(part, ahead, numbers, stride)
                : look_up<false>(part, ahead, numbers, stride);
  }

 private:
  static constexpr Bf16Code sign = 0x8000;
  static constexpr std::size_t codes = 256;

  const std::byte* at(std::size_t row, std::size_t column) const {
    return first_ + row * stride_ + column;
  }

  void make_table(MatrixOperand operand) {
    std::byte all[codes];
    for (std::size_t code = 0; code < codes; ++code) all[code] = static_cast<std::byte>(code);
    operand.data = all;
    operand.scale = 1;
    alignas(64) float values[codes];
    upper_halves(RowReader(operand).read(0, 0, codes, values), codes, table_);
    // To the end, as vectors do it: a table is made for each call of a product.
    unsigned differences = 0;
    for (std::size_t code = 0; code < codes / 2; ++code)
      differences |= static_cast<unsigned>(table_[codes / 2 + code] ^ (table_[code] | sign));
    has_sign_ = differences == 0;
    if (!by_bytes_) return;
    for (std::size_t code = 0; code < codes; ++code) {
      halves_[0][code] = static_cast<std::uint8_t>(table_[code]);
      halves_[1][code] = static_cast<std::uint8_t>(table_[code] >> 8);
    }
  }

  // Lower and upper halves of 64 numbers at a time: in half of the instructions of look_up(), the
  // most of which are shuffles.
  template <bool kSign>
  HWY_NOINLINE void look_up_bytes([[maybe_unused]] const RowsPart& part,
                                  [[maybe_unused]] std::size_t ahead,
                                  [[maybe_unused]] Bf16Code* numbers,
                                  [[maybe_unused]] std::size_t stride) const {
#if SOMA_HAS_BF16_DOT
    const hn::ScalableTag<std::uint8_t> d;
    const hn::Repartition<std::uint16_t, decltype(d)> d16;
    const hn::Repartition<std::uint64_t, decltype(d)> d64;
    using Bytes = hn::Vec<decltype(d)>;
    constexpr std::size_t lanes = 64;
    // Of each eight bytes those that come out of the first vector side by side.
    alignas(64) static constexpr std::uint64_t sides[] = {0, 4, 1, 5, 2, 6, 3, 7};
    const auto order = hn::SetTableIndices(d64, sides);
    Bytes table[2][codes / lanes];
    for (std::size_t half = 0; half < 2; ++half)
      for (std::size_t i = 0; i < codes / lanes; ++i)
        table[half][i] = hn::Load(d, halves_[half] + i * lanes);
    const auto half = [&](std::size_t which, Bytes bytes) HWY_ATTR {
      const Bytes* const all = table[which];
      const Bytes low = HWY_NAMESPACE::look_up_bytes(bytes, all[0], all[1]);
      if constexpr (kSign) {
        return which == 0 ? low : hn::Or(low, hn::And(bytes, hn::Set(d, sign >> 8)));
      } else {
        const auto upper = hn::TestBit(bytes, hn::Set(d, codes / 2));
        return hn::IfThenElse(upper, HWY_NAMESPACE::look_up_bytes(bytes, all[2], all[3]), low);
      }
    };
    const auto number = [&](Bytes from, Bytes& first, Bytes& second) HWY_ATTR {
      const Bytes bytes = hn::BitCast(d, hn::TableLookupLanes(hn::BitCast(d64, from), order));
      const Bytes low = half(0, bytes), high = half(1, bytes);
      first = hn::InterleaveLower(d, low, high), second = hn::InterleaveUpper(d, low, high);
    };
    const std::size_t whole = part.count / lanes * lanes, rest = part.count - whole;
    for (std::size_t row = 0; row < part.rows; ++row, numbers += stride) {
      const auto* const from =
          reinterpret_cast<const std::uint8_t*>(at(part.row + row, part.column));
      const auto* const fetched = at((std::min)(part.row + row + ahead, last_), part.column);
      hwy::Prefetch(fetched + part.count - 1);
      Bytes first, second;
      for (std::size_t i = 0; i < whole; i += lanes) {
        hwy::Prefetch(fetched + i);
        number(hn::LoadU(d, from + i), first, second);
        hn::StoreU(hn::BitCast(d16, first), d16, numbers + i);
        hn::StoreU(hn::BitCast(d16, second), d16, numbers + i + lanes / 2);
      }
      if (rest == 0) continue;
      number(hn::MaskedLoad(hn::FirstN(d, rest), d, from + whole), first, second);
      const std::size_t left = (std::min)(rest, lanes / 2);
      hn::BlendedStore(hn::BitCast(d16, first), hn::FirstN(d16, left), d16, numbers + whole);
      hn::BlendedStore(hn::BitCast(d16, second), hn::FirstN(d16, rest - left), d16,
                       numbers + whole + lanes / 2);
    }
#endif
  }

  // `kSign`: the upper half of the table is the lower one with a sign, which makes two of the four
  // look-ups: 58 codes a nanosecond instead of 35 (AMD Zen 5).
  template <bool kSign>
  HWY_NOINLINE void look_up(const RowsPart& part, std::size_t ahead, Bf16Code* numbers,
                            std::size_t stride) const {
#if SOMA_HAS_BF16_DOT
    constexpr std::size_t lanes = 32;  // Highway 1.0.3 has no look-up of 16-bit lanes
    __m512i table[codes / lanes];
    for (std::size_t i = 0; i < codes / lanes; ++i)
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
        const __m512i mask = _mm512_set1_epi16(static_cast<std::int16_t>(sign));
        return _mm512_or_si512(low, _mm512_and_si512(_mm512_slli_epi16(index, 8), mask));
      } else {
        const __mmask32 upper = _mm512_test_epi16_mask(index, _mm512_set1_epi16(128));
        return _mm512_mask_blend_epi16(upper, low, half(table + 4, index));
      }
    };
    const std::size_t whole = part.count / lanes * lanes;
    const auto rest = static_cast<__mmask32>((std::uint64_t{1} << (part.count - whole)) - 1);
    for (std::size_t row = 0; row < part.rows; ++row, numbers += stride) {
      const std::byte* const from = at(part.row + row, part.column);
      const std::byte* const fetched = at((std::min)(part.row + row + ahead, last_), part.column);
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
      const std::byte* const from = at(part.row + row, part.column);
      hwy::Prefetch(at((std::min)(part.row + row + ahead, last_), part.column));
      for (std::size_t i = 0; i < part.count; ++i)
        numbers[i] = table_[std::to_integer<std::size_t>(from[i])];
    }
#endif
  }

  bool present_ = false, by_bytes_ = false, has_sign_ = false;
  const std::byte* first_ = nullptr;
  std::size_t stride_ = 0, last_ = 0;
  alignas(64) Bf16Code table_[codes];
  alignas(64) std::uint8_t halves_[2][codes];  // the lower ones, the upper ones
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
