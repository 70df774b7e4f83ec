// Converts codes of 8-bit types to bf16 numbers, a vector at a time, for types whose numbers are
// all exact in bf16.

#if defined(SOMA_KERNELS_GEMM_PACK_LOOKUP_8BIT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_PACK_LOOKUP_8BIT_INL_HPP
#undef SOMA_KERNELS_GEMM_PACK_LOOKUP_8BIT_INL_HPP
#else
#define SOMA_KERNELS_GEMM_PACK_LOOKUP_8BIT_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/rows/vector_loops-inl.hpp>
#include <soma/simd/bf16_dot-inl.hpp>

#include <hwy/highway.h>

#include <bit>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The upper half of the bits of an fp32 number.
using Bf16Code = std::uint16_t;

// The function writes whole vectors.
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

inline constexpr std::size_t byte_codes = 256;
inline constexpr Bf16Code bf16_sign = 0x8000;

// Byte shuffles of 128 bits: all that other x86 CPUs have.
#define SOMA_HAS_BYTE_SHUFFLES (HWY_ARCH_X86 && !SOMA_HAS_BF16_DOT && HWY_TARGET <= HWY_SSSE3)

#if SOMA_HAS_BYTE_SHUFFLES
// The numbers of an 8-bit floating-point format. From one positive code to the next the bf16 code
// grows by one step, except for subnormal and special numbers: few codes, at both ends. A code with
// a sign is the same number with the other sign, or NaN if the number is zero.
struct NumberHalves {
  static constexpr std::size_t ends = 16, signless = byte_codes / 2;

  int shift;       // the number of a code is first + (code << shift),
  Bf16Code first;  // but for those at the ends, whose halves differ from that by these bits,
  alignas(16) std::uint8_t lower[2][ends], upper[2][ends];  // [low or high end][code]
  Bf16Code minus_zero;  // and that of code 128 from a zero with a sign by these

  // Fills this object from a table; returns false if the table's numbers do not follow this
  // pattern.
  bool take(const Bf16Code* table) {
    const unsigned step = static_cast<unsigned>(table[ends + 1] - table[ends]);
    if (!std::has_single_bit(step) || step >= byte_codes) return false;
    shift = std::countr_zero(step);
    first = static_cast<Bf16Code>(table[ends] - (ends << shift));
    for (std::size_t code = 0; code < signless; ++code) {
      const unsigned differs = table[code] ^ static_cast<Bf16Code>(first + (code << shift));
      const bool high = code >= signless - ends;
      if (high || code < ends) {
        lower[high][code % ends] = static_cast<std::uint8_t>(differs);
        upper[high][code % ends] = static_cast<std::uint8_t>(differs >> 8);
      } else if (differs != 0) {
        return false;
      }
    }
    minus_zero = static_cast<Bf16Code>(table[signless] ^ table[0] ^ bf16_sign);
    for (std::size_t code = 1; code < signless; ++code)
      if (table[signless + code] != (table[code] ^ bf16_sign)) return false;
    return true;
  }
};
#else
// The two bytes of the number of each code.
struct NumberHalves {
  alignas(64) std::uint8_t lower[byte_codes], upper[byte_codes];
};
#endif

namespace {  // internal linkage: units with other flags have their own

#if SOMA_HAS_BF16_DOT
// Looks up 64 numbers at a time, their lower bytes and their upper bytes separately. That takes
// half as many instructions, most of them shuffles, as looking up whole numbers (EightBitRows).
// `kSign`: the numbers of the upper 128 codes are the numbers of the lower 128 codes with a sign.
template <bool kSign>
class NumberTable {
  static constexpr hn::ScalableTag<std::uint8_t> d{};

 public:
  using Bytes = hn::Vec<decltype(d)>;
  static constexpr std::size_t lanes = 64;

  HWY_INLINE explicit NumberTable(const NumberHalves& halves) {
    for (std::size_t i = 0; i < parts; ++i) {
      lower_[i] = hn::Load(d, halves.lower + i * lanes);
      upper_[i] = hn::Load(d, halves.upper + i * lanes);
    }
  }
  // For each group of sixteen codes: `first` gets the numbers of the first eight codes, `second`
  // the numbers of the other eight.
  HWY_INLINE void look_up(Bytes bytes, Bytes& first, Bytes& second) const {
    const Bytes lower = of_half(lower_, bytes);
    Bytes upper = of_half(upper_, bytes);
    if constexpr (kSign) upper = hn::Or(upper, hn::And(bytes, hn::Set(d, bf16_sign >> 8)));
    first = hn::InterleaveLower(d, lower, upper), second = hn::InterleaveUpper(d, lower, upper);
  }

 private:
  static constexpr std::size_t parts = (kSign ? byte_codes / 2 : byte_codes) / lanes;

  static HWY_INLINE Bytes of_half(const Bytes (&table)[parts], Bytes bytes) {
    const Bytes low = look_up_bytes(bytes, table[0], table[1]);
    if constexpr (kSign) {
      return low;
    } else {
      const auto high = hn::TestBit(bytes, hn::Set(d, byte_codes / 2));
      return hn::IfThenElse(high, look_up_bytes(bytes, table[2], table[3]), low);
    }
  }

  Bytes lower_[parts], upper_[parts];
};
#endif

#if SOMA_HAS_BYTE_SHUFFLES
// The same by arithmetic, with a third of the instructions of eight shuffles per byte. Codes at the
// ends get their bits by shuffles, which return zero for an index of 128 or more.
class NumberSteps {
  static constexpr hn::ScalableTag<std::uint8_t> d{};
  static constexpr hn::Repartition<std::uint16_t, decltype(d)> d16{};

 public:
  using Bytes = hn::Vec<decltype(d)>;
  static constexpr std::size_t lanes = hn::MaxLanes(d);

  HWY_INLINE explicit NumberSteps(const NumberHalves& halves)
      : shift_(8 - halves.shift), first_(hn::Set(d16, halves.first)) {
    for (std::size_t i = 0; i < 2; ++i) {
      lower_[i] = hn::LoadDup128(d, halves.lower[i]);
      upper_[i] = hn::LoadDup128(d, halves.upper[i]);
    }
    minus_zero_lower_ = hn::Set(d, static_cast<std::uint8_t>(halves.minus_zero));
    minus_zero_upper_ = hn::Set(d, static_cast<std::uint8_t>(halves.minus_zero >> 8));
  }
  // For each group of sixteen codes: `first` gets the numbers of the first eight codes, `second`
  // the numbers of the other eight.
  HWY_INLINE void look_up(Bytes bytes, Bytes& first, Bytes& second) const {
    constexpr auto above = static_cast<std::uint8_t>(NumberHalves::signless - NumberHalves::ends);
    const Bytes sign = hn::Set(d, bf16_sign >> 8);
    const Bytes code = hn::AndNot(sign, bytes);
    // For an index below 128 the shuffle uses the lowest four bits: 112 and more address the low
    // end.
    const Bytes from_low = hn::SaturatedAdd(code, hn::Set(d, above));
    const Bytes from_high = hn::Sub(code, hn::Set(d, above));
    const Bytes is_minus_zero = hn::VecFromMask(d, hn::Eq(bytes, sign));
    const auto differs = [&](const Bytes* ends, Bytes minus_zero) HWY_ATTR {
      return hn::Xor(hn::Xor(hn::TableLookupBytes(ends[0], from_low),
                             hn::TableLookupBytes(ends[1], from_high)),
                     hn::And(is_minus_zero, minus_zero));
    };
    const Bytes lower = differs(lower_, minus_zero_lower_);
    const Bytes upper = hn::Xor(differs(upper_, minus_zero_upper_), hn::And(bytes, sign));
    const auto number = [&](Bytes codes, Bytes other) HWY_ATTR {
      const auto steps = hn::ShiftRightSame(hn::BitCast(d16, codes), shift_);
      return hn::Xor(hn::BitCast(d, hn::Add(steps, first_)), other);
    };
    first = number(hn::InterleaveLower(d, hn::Zero(d), code), hn::InterleaveLower(d, lower, upper));
    second =
        number(hn::InterleaveUpper(d, hn::Zero(d), code), hn::InterleaveUpper(d, lower, upper));
  }

 private:
  int shift_;
  hn::Vec<decltype(d16)> first_;
  Bytes lower_[2], upper_[2], minus_zero_lower_, minus_zero_upper_;
};
#endif

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
