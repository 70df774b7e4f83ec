// The bulk kernels against the plain reference: every float down to every ready-made format of up
// to 16 bits in every deterministic mode ([slow]: 60 times 2^32 results), and in the ordinary run a
// spread of patterns with all those where a result changes; every code up; random records on every
// target.
#include "catch.hpp"
#include "expected_runs.hpp"
#include "mismatches.hpp"
#include "reference_codec.hpp"
#include "samples.hpp"

#include <soma/soma.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

using namespace soma_test;

namespace {

constexpr std::uint64_t all_patterns = std::uint64_t{1} << 32;

std::vector<FloatFormat> narrow_formats() {
  std::vector<FloatFormat> list;
  for (const auto& [name, format] : soma::named_formats)
    if (format.bits() <= 16) list.push_back(format);
  return list;
}

// Converts the floats of `patterns` and compares the codes with `wanted`.
class BulkCheck {
 public:
  BulkCheck(soma::Context& context, std::size_t largest) : context_(context), codes_(4 * largest) {}

  // `patterns` and `wanted` hold `count` items.
  void operator()(Mismatches& result, const FloatFormat& format, RoundingMode mode,
                  const std::uint32_t* patterns, const std::byte* wanted, std::size_t count) {
    const auto width = static_cast<std::size_t>(format.bytes());
    const std::span<const std::uint32_t> from(patterns, count);
    const std::span<std::byte> to(codes_.data(), count * width);
    soma::convert(context_, soma::code_span(soma::formats::fp32, std::as_bytes(from)),
                  soma::code_span(format, to), {.rounding = {mode}});
    if (std::memcmp(to.data(), wanted, to.size()) == 0) {
      result.count_right(count);
      return;
    }
    for (std::size_t i = 0; i < count; ++i)
      result.expect(std::memcmp(&to[i * width], wanted + i * width, width) == 0, [&](auto& out) {
        std::uint32_t given = 0, right = 0;  // little-endian, as every target of the library
        std::memcpy(&given, &to[i * width], width);
        std::memcpy(&right, wanted + i * width, width);
        out << context_.target().name << ", " << format << " " << to_string(mode) << std::hex
            << ": fp32 " << patterns[i] << " to " << given << ", wanted " << right << std::dec;
      });
  }

 private:
  soma::Context& context_;
  std::vector<std::byte> codes_;
};

// Codes as the library stores them.
std::vector<std::byte> stored_codes(const ReferenceCodec& reference, RoundingMode mode,
                                    const std::vector<std::uint32_t>& patterns) {
  const auto width = static_cast<std::size_t>(reference.format().bytes());
  std::vector<std::byte> bytes(patterns.size() * width);
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const std::uint32_t stored = reference.encode_bits(patterns[i], mode)
                                 << reference.format().storage_shift();
    std::memcpy(&bytes[i * width], &stored, width);
  }
  return bytes;
}

}  // namespace

static_assert(std::endian::native == std::endian::little);

TEST_CASE("the runs are what the reference says, pattern by pattern", "[unit]") {
  for (const FloatFormat& format :
       {soma::formats::fp8_e4m3, soma::formats::e8m0, soma::formats::fp8_e5m2fnuz})
    for (const RoundingMode mode : deterministic_modes) {
      const ReferenceCodec reference(format);
      ExpectedRuns runs(format, mode);
      std::vector<std::uint32_t> patterns = runs.boundaries(2);
      for (std::uint64_t p = 0; p < all_patterns; p += 1000003)
        patterns.push_back(static_cast<std::uint32_t>(p));
      std::sort(patterns.begin(), patterns.end());
      std::vector<std::byte> codes(patterns.size());
      runs.store(patterns, codes.data());
      CHECK(codes == stored_codes(reference, mode, patterns));
      CHECK(runs.runs().back().end == all_patterns);
    }
}

TEST_CASE("bulk encoding: every 4099th float and all around each change of code", "[unit]") {
  auto context = soma::make_context();
  std::vector<std::uint32_t> spread;
  for (std::uint64_t p = 0; p < all_patterns; p += 4099)
    spread.push_back(static_cast<std::uint32_t>(p));
  for (const FloatFormat& format : narrow_formats())
    for (const RoundingMode mode : deterministic_modes) {
      ExpectedRuns runs(format, mode);
      Mismatches result;
      for (const std::vector<std::uint32_t>& patterns : {spread, runs.boundaries(2)}) {
        std::vector<std::byte> wanted(2 * patterns.size());
        runs.start_over();
        runs.store(patterns, wanted.data());
        BulkCheck check(context, patterns.size());
        check(result, format, mode, patterns.data(), wanted.data(), patterns.size());
      }
      INFO(format << " " << to_string(mode));
      CHECK_NONE(result);
    }
}

TEST_CASE("bulk encoding of every float", "[exhaustive][slow]") {
  auto context = soma::make_context();
  std::vector<ExpectedRuns> jobs;
  for (const FloatFormat& format : narrow_formats())
    for (const RoundingMode mode : deterministic_modes) jobs.emplace_back(format, mode);

  // Small enough that floats, codes and expected codes stay in the second-level caches of two
  // cores.
  constexpr std::size_t block = std::size_t{1} << 17;
  std::vector<std::uint32_t> patterns(block);
  std::vector<std::byte> wanted(2 * block);
  BulkCheck check(context, block);
  Mismatches result;
  for (std::uint64_t first = 0; first < all_patterns; first += block) {
    for (std::size_t i = 0; i < block; ++i) patterns[i] = static_cast<std::uint32_t>(first + i);
    for (ExpectedRuns& job : jobs) {
      job.store(first, block, wanted.data());
      check(result, job.format(), job.mode(), patterns.data(), wanted.data(), block);
    }
  }
  CHECK_NONE(result);
  CHECK(result.compared() == jobs.size() * all_patterns);
}

TEST_CASE("bulk decoding of every code, whatever the bits above it", "[unit][exhaustive]") {
  auto context = soma::make_context();
  for (const soma::Target& target : context.targets().targets) {
    auto on_target = soma::make_context({.target = target.name});
    Mismatches result;
    for (const soma::NamedFormat& named : soma::named_formats) {
      const FloatFormat& format = named.format;
      const ReferenceCodec reference(format);
      const auto width = static_cast<std::size_t>(format.bytes());
      const std::size_t count =
          width == 1 ? 256 : std::min<std::uint64_t>(reference.code_count(), 1u << 19);
      std::vector<std::byte> codes(count * width);
      const auto mask = static_cast<std::uint32_t>(reference.code_count() - 1);
      const auto code_at = [&](std::size_t i) {  // all of them; spread out where there are 2^32
        return static_cast<std::uint32_t>(i) * (format.bits() == 32 ? 8191u : 1u);
      };
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t stored = code_at(i) << format.storage_shift();
        std::memcpy(&codes[i * width], &stored, width);
      }
      std::vector<float> values(count);
      const std::span<const std::byte> source(codes);
      soma::convert(
          on_target, soma::code_span(format, source),
          soma::code_span(soma::formats::fp32, std::as_writable_bytes(std::span(values))));
      for (std::size_t i = 0; i < count; ++i)
        result.expect(
            bits_of(values[i]) == reference.decode_bits(code_at(i) & mask), [&](auto& out) {
              out << target.name << ", " << format << " code " << code_at(i) << " is " << values[i];
            });
    }
    CHECK_NONE(result);
  }
}

TEST_CASE("bulk encoding to tf32 and fp32", "[unit]") {
  auto context = soma::make_context();
  for (const FloatFormat& format : {soma::formats::tf32, soma::formats::fp32}) {
    const ReferenceCodec reference(format);
    const std::vector<std::uint32_t> patterns = float_samples(reference, 4096, 20000, 55);
    BulkCheck check(context, patterns.size());
    Mismatches result;
    for (const RoundingMode mode : deterministic_modes)
      check(result, format, mode, patterns.data(), stored_codes(reference, mode, patterns).data(),
            patterns.size());
    CHECK_NONE(result);
  }
}

TEST_CASE("bulk encoding of random records on every target", "[unit]") {
  auto context = soma::make_context();
  std::vector<std::string> names;
  for (const soma::Target& target : context.targets().targets) names.emplace_back(target.name);
  REQUIRE_FALSE(names.empty());
  for (const std::string& name : names) {
    auto on_target = soma::make_context({.target = name});
    Sequence sequence(0x50FA);
    Mismatches result;
    for (int i = 0; i < 200; ++i) {
      const FloatFormat format = random_format(sequence, i < 150 ? 16 : 32);
      const ReferenceCodec reference(format);
      const std::vector<std::uint32_t> patterns =
          float_samples(reference, 200, 500, sequence.next());
      BulkCheck check(on_target, patterns.size());
      for (const RoundingMode mode : deterministic_modes)
        check(result, format, mode, patterns.data(), stored_codes(reference, mode, patterns).data(),
              patterns.size());
    }
    INFO(name);
    CHECK_NONE(result);
  }
}
