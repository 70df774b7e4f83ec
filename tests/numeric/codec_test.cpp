// encode() and decode() against the plain second implementation of reference_codec.hpp: every code
// of the ready-made formats up, tens of thousands of floats and doubles down in every mode and
// policy, and the same for random records.
#include "catch.hpp"
#include "mismatches.hpp"
#include "reference_codec.hpp"
#include "samples.hpp"

#include <soma/numeric/codec.hpp>
#include <soma/numeric/formats.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace soma_test;
using soma::Rounding;

namespace {

std::vector<FloatFormat> policies_of(const FloatFormat& format) {
  std::vector<FloatFormat> all;
  for (const Overflow policy :
       {Overflow::special, Overflow::saturate, Overflow::infinity, Overflow::nan})
    if (format.with(policy).problem() == nullptr) all.push_back(format.with(policy));
  return all;
}

// Every code in `step`s: its value, and that encoding the value gives the code back whatever the
// mode.
void check_codes(Mismatches& result, const ReferenceCodec& reference, std::uint64_t step = 1) {
  const FloatFormat& format = reference.format();
  for (std::uint64_t wide = 0; wide < reference.code_count(); wide += step) {
    const auto code = static_cast<std::uint32_t>(wide);
    const float value = soma::decode(format, code);
    const std::uint32_t wanted = reference.decode_bits(code);
    result.expect(bits_of(value) == wanted, [&](auto& out) {
      out << format << ": decode(" << code << ") = " << std::hex << bits_of(value) << ", wanted "
          << wanted << std::dec;
    });
    // Flushed subnormal codes are read as zero, and an infinity comes back only where the policy
    // makes one.
    const std::uint64_t magnitude = code & ~reference.sign_bit();
    if (!reference.is_nan(code) && magnitude < reference.finite_count() &&
        reference.read_magnitude(magnitude) != reference.magnitude(magnitude))
      continue;
    if (reference.is_infinity(code) && format.resolved_overflow() != Overflow::infinity) continue;
    for (const RoundingMode mode : deterministic_modes) {
      const std::uint32_t back = soma::encode(format, value, {mode});
      result.expect(back == code, [&](auto& out) {
        out << format << " " << to_string(mode) << ": code " << code << " came back as " << back;
      });
    }
  }
}

// Every pattern in every deterministic mode, and once in stochastic rounding with a random word of
// a random width.
void check_floats(Mismatches& result, const ReferenceCodec& reference,
                  const std::vector<std::uint32_t>& patterns, Sequence& sequence) {
  const FloatFormat& format = reference.format();
  const auto check = [&](std::uint32_t pattern, Rounding rounding, std::uint64_t word) {
    const int bits = random_bits(rounding, format);
    const auto random = static_cast<std::uint32_t>(word << (32 - bits));
    const std::uint32_t code =
        soma::encode(format, std::bit_cast<float>(pattern), rounding, random);
    const std::uint32_t wanted = reference.encode_bits(pattern, rounding.mode, word, bits);
    result.expect(code == wanted, [&](auto& out) {
      out << format << " " << to_string(rounding.mode) << ": fp32 " << std::hex << pattern
          << std::dec << " to " << code << ", wanted " << wanted << " (word " << word << " of "
          << bits << " bits)";
    });
  };
  for (const std::uint32_t pattern : patterns) {
    for (const RoundingMode mode : deterministic_modes) check(pattern, {mode}, 0);
    const auto bits = static_cast<std::uint8_t>(sequence.between(1, 32));
    check(pattern, {RoundingMode::stochastic, bits}, sequence.next() >> (64 - bits));
  }
}

void check_double(Mismatches& result, const ReferenceCodec& reference, double value) {
  for (const double x : {value, -value})
    for (const RoundingMode mode : deterministic_modes) {
      const std::uint32_t code = soma::encode(reference.format(), x, {mode});
      const std::uint32_t wanted = reference.encode(x, mode);
      result.expect(code == wanted, [&](auto& out) {
        out << reference.format() << " " << to_string(mode) << ": " << std::hexfloat << x
            << std::defaultfloat << " to " << code << ", wanted " << wanted;
      });
    }
}

// Doubles at and next to values and midpoints; where they are closer than fp32 can tell, one
// rounding shows.
void check_doubles(Mismatches& result, const ReferenceCodec& reference, std::uint64_t dense,
                   Sequence& sequence) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::uint64_t count = reference.finite_count();
  const auto around = [&](double value) {
    for (const double x : {std::nextafter(value, 0.0), value, std::nextafter(value, infinity)})
      check_double(result, reference, x);
  };
  const auto around_code = [&](std::uint64_t code) {
    const double value = reference.magnitude(code), next = reference.magnitude(code + 1);
    around(value);
    around((value + next) / 2);
    check_double(result, reference,
                 std::ldexp(static_cast<double>(sequence.next()), -64) * (next - value) + value);
  };
  for (std::uint64_t code = 0; code < count; code += (count / dense + 1) | 1) around_code(code);
  around_code(count - 1);
  around(reference.magnitude(count));
  const double limits[] = {0,
                           std::numeric_limits<double>::denorm_min(),
                           0x1p-1022,
                           0x1.8p-1030,
                           0x1p-149,
                           0x1p-150,
                           0x1.000001p-150,
                           0x1p128,
                           0x1.8p1023,
                           1e300,
                           infinity};
  for (const double x : limits) around(x);
}

}  // namespace

TEST_CASE("every code of every ready-made format up to 16 bits decodes and comes back",
          "[unit][exhaustive]") {
  for (const auto& [name, format] : soma::named_formats) {
    if (format.bits() > 16) continue;
    for (const FloatFormat& variant : policies_of(format)) {
      Mismatches result;
      check_codes(result, ReferenceCodec(variant));
      CHECK_NONE(result);
    }
  }
}

TEST_CASE("tf32 and fp32 codes decode and come back", "[unit]") {
  Mismatches result;
  check_codes(result, ReferenceCodec(soma::formats::tf32));  // all 2^19
  check_codes(result, ReferenceCodec(soma::formats::fp32),
              65521);  // a prime: all mantissas' low bits occur
  CHECK_NONE(result);
}

TEST_CASE("fp32 to fp32 changes no bit", "[unit]") {
  Mismatches result;
  for (std::uint64_t wide = 0; wide < std::uint64_t{1} << 32; wide += 4099) {
    const auto pattern = static_cast<std::uint32_t>(wide);
    for (const RoundingMode mode : deterministic_modes) {
      const std::uint32_t code =
          soma::encode(soma::formats::fp32, std::bit_cast<float>(pattern), {mode});
      result.expect(code == pattern, [&](auto& out) { out << std::hex << pattern << " " << code; });
    }
  }
  CHECK_NONE(result);
}

TEST_CASE("floats encode as the reference says, every ready-made format, mode and policy",
          "[unit]") {
  for (const auto& [name, format] : soma::named_formats)
    for (const FloatFormat& variant : policies_of(format)) {
      const ReferenceCodec reference(variant);
      Sequence sequence(2026);
      // Around every value and midpoint of up to 16 bits once; the other policies differ at the top
      // only.
      const bool all = format.bits() <= 16 && variant == format;
      Mismatches result;
      check_floats(result, reference, float_samples(reference, all ? 40000 : 1000, 20000, 17),
                   sequence);
      INFO(name);
      CHECK_NONE(result);
    }
}

TEST_CASE("formats with subnormals flushed, and unsigned ones", "[unit]") {
  for (const auto& [name, format] : soma::named_formats) {
    if (format.bits() > 16) continue;
    FloatFormat flushed = format, unsigned_one = format;
    flushed.subnormals = Subnormals::flushed;
    unsigned_one.is_signed = false;
    for (const FloatFormat& changed : {flushed, unsigned_one}) {
      if (changed.problem() != nullptr) continue;
      for (const FloatFormat& variant : policies_of(changed)) {
        const ReferenceCodec reference(variant);
        Sequence sequence(5);
        Mismatches result;
        check_codes(result, reference);
        check_floats(result, reference, float_samples(reference, 512, 3000, 6), sequence);
        CHECK_NONE(result);
      }
    }
  }
}

TEST_CASE("doubles encode in one rounding, every ready-made format and mode", "[unit]") {
  for (const auto& [name, format] : soma::named_formats)
    for (const FloatFormat& variant : policies_of(format)) {
      Sequence sequence(11);
      Mismatches result;
      check_doubles(result, ReferenceCodec(variant), 2048, sequence);
      INFO(name);
      CHECK_NONE(result);
    }
}

TEST_CASE("random records: codes, floats and doubles", "[unit]") {
  Sequence sequence(0x50FA);
  int biases_above_127 = 0, negative_biases = 0, one_exponent_bit = 0, no_mantissa = 0, wide = 0;
  Mismatches result;
  for (int i = 0; i < 400; ++i) {
    const FloatFormat format = random_format(sequence, i < 300 ? 16 : 32);
    biases_above_127 += format.bias > 127;
    negative_biases += format.bias < 0;
    one_exponent_bit += format.exponent_bits == 1;
    no_mantissa += format.mantissa_bits == 0;
    wide += format.bits() > 16;
    const ReferenceCodec reference(format);
    check_codes(result, reference, (reference.code_count() / 65536) | 1);
    check_floats(result, reference, float_samples(reference, 256, 1000, sequence.next()), sequence);
    check_doubles(result, reference, 128, sequence);
  }
  CHECK_NONE(result);
  // The corners that a draw could miss are in it.
  CHECK(biases_above_127 >= 10);
  CHECK(negative_biases >= 10);
  CHECK(one_exponent_bit >= 10);
  CHECK(no_mantissa >= 5);
  CHECK(wide >= 30);
}

TEST_CASE("every record of up to five bits, wherever its bias lies", "[unit][exhaustive]") {
  Mismatches result;
  Sequence sequence(3);
  int records = 0;
  for (int exponent_bits = 1; exponent_bits <= 4; ++exponent_bits)
    for (int mantissa_bits = 0; exponent_bits + mantissa_bits <= 4; ++mantissa_bits)
      for (int rest = 0; rest < 4 * 3 * 4 * 2; ++rest)
        for (const int bias : {-120, 0, 1, 5, 127, 140}) {
          const FloatFormat format{exponent_bits,
                                   mantissa_bits,
                                   bias,
                                   static_cast<Specials>(rest % 4),
                                   rest / 48 == 0,
                                   static_cast<Subnormals>(rest / 4 % 3),
                                   static_cast<Overflow>(rest / 12 % 4)};
          if (format.problem() != nullptr) continue;
          ++records;
          const ReferenceCodec reference(format);
          check_codes(result, reference);
          check_doubles(result, reference, 32, sequence);
        }
  CHECK_NONE(result);
  CHECK(records > 1000);
}

TEST_CASE("bits above a code's own are ignored when decoding", "[unit]") {
  Mismatches result;
  for (const soma::NamedFormat& named : soma::named_formats) {
    const FloatFormat& format = named.format;
    if (format.bits() >= 32) continue;
    const std::uint32_t above = ~std::uint32_t{0} << format.bits();
    for (std::uint32_t code = 0; code < 256u && code >> format.bits() == 0; ++code)
      result.expect(
          bits_of(soma::decode(format, code)) == bits_of(soma::decode(format, code | above)),
          [&](auto& out) { out << format << " " << code; });
  }
  CHECK_NONE(result);
}
