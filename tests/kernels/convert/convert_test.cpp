// The bulk kernels against the scalar codec: every format pair, rounding and target, every length,
// alignment and cut.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/samples.hpp"

#include <cstring>
#include <string>
#include <vector>

using namespace soma;

namespace {

const std::vector<Rounding> roundings{Rounding::nearest_even,
                                      Rounding::nearest_away,
                                      Rounding::toward_zero,
                                      Rounding::up,
                                      Rounding::down,
                                      Rounding::stochastic,
                                      {RoundingMode::stochastic, 1},
                                      {RoundingMode::stochastic, 7},
                                      {RoundingMode::stochastic, 16},
                                      {RoundingMode::stochastic, 17},
                                      {RoundingMode::stochastic, 32}};

// The ready-made formats, and records that take every branch: other biases (numbers among fp32's
// subnormals, numbers far from 1), flushed subnormals, no sign, other overflows, widths that no
// ready-made format has.
std::vector<FloatFormat> all_formats() {
  std::vector<FloatFormat> all;
  for (const NamedFormat& known : named_formats) {
    all.push_back(known.format);
    all.push_back(known.format.with(Overflow::saturate));
  }
  using S = Specials;
  all.push_back({.exponent_bits = 4, .mantissa_bits = 3, .bias = 100});
  all.push_back({.exponent_bits = 4, .mantissa_bits = 3, .bias = 146});
  all.push_back({.exponent_bits = 4, .mantissa_bits = 3, .bias = -100});
  all.push_back({.exponent_bits = 3, .mantissa_bits = 4, .bias = 3, .specials = S::none});
  all.push_back(
      {.exponent_bits = 5, .mantissa_bits = 2, .bias = 15, .subnormals = Subnormals::flushed});
  all.push_back(
      {.exponent_bits = 8, .mantissa_bits = 7, .bias = 127, .subnormals = Subnormals::flushed});
  all.push_back({.exponent_bits = 8, .mantissa_bits = 7, .bias = 127, .overflow = Overflow::nan});
  all.push_back({.exponent_bits = 5, .mantissa_bits = 3, .bias = 15, .is_signed = false});
  all.push_back(
      {.exponent_bits = 4, .mantissa_bits = 4, .bias = 7, .specials = S::none, .is_signed = false});
  all.push_back({.exponent_bits = 1, .mantissa_bits = 6, .bias = 1});
  all.push_back({.exponent_bits = 8, .mantissa_bits = 0, .bias = 128, .specials = S::none});
  all.push_back({.exponent_bits = 7, .mantissa_bits = 23, .bias = 63});
  all.push_back(
      {.exponent_bits = 6, .mantissa_bits = 20, .bias = 31, .specials = S::nan_negative_zero});
  all.push_back(
      {.exponent_bits = 3, .mantissa_bits = 2, .bias = 140, .subnormals = Subnormals::absent});
  all.push_back({.exponent_bits = 4,
                 .mantissa_bits = 3,
                 .bias = 7,
                 .specials = S::nan_negative_zero,
                 .subnormals = Subnormals::flushed});
  return all;
}

std::uint32_t code_at(const std::byte* codes, const FloatFormat& format, std::size_t index) {
  std::uint32_t code = 0;
  std::memcpy(&code, codes + index * static_cast<std::size_t>(format.bytes()),
              static_cast<std::size_t>(format.bytes()));
  return code >> format.storage_shift();
}

std::vector<std::byte> storage(const FloatFormat& format, std::size_t count) {
  return std::vector<std::byte>(count * static_cast<std::size_t>(format.bytes()));
}

ConstCodeSpan floats(const std::vector<float>& values) {
  return code_span(formats::fp32, std::as_bytes(std::span(values)));
}

std::vector<std::string> target_names() {
  auto context = make_context();
  std::vector<std::string> names;
  for (const Target& target : context.targets().targets) names.emplace_back(target.name);
  return names;
}

}  // namespace

TEST_CASE("encoding equals the scalar codec on every target", "[unit]") {
  const std::vector<float> values = soma_test::hard_floats(4099);
  for (const std::string& target : target_names()) {
    auto context = make_context({.threads = 1, .target = target});
    for (const FloatFormat& format : all_formats()) {
      REQUIRE(format.problem() == nullptr);
      std::vector<std::byte> codes = storage(format, values.size());
      for (const Rounding& rounding : roundings) {
        const Draw draw{
            .seed = 0x123456789ABCDEF0u, .stream = 3, .step = 9, .index = 0xFFFFFFFFFFu - 100};
        convert(context, floats(values), code_span(format, std::span(codes)),
                {.rounding = rounding, .draw = draw});
        std::size_t wrong = values.size();
        for (std::size_t i = values.size(); i-- > 0;) {
          const std::uint32_t random = rounding_word(draw, random_bits(rounding, format), i);
          if (code_at(codes.data(), format, i) != encode(format, values[i], rounding, random))
            wrong = i;
        }
        INFO(target << ", " << to_string(format) << ", " << to_string(rounding.mode) << " "
                    << int{rounding.random_bits} << ", value bits "
                    << (wrong < values.size() ? std::bit_cast<std::uint32_t>(values[wrong]) : 0));
        REQUIRE(wrong == values.size());
      }
    }
  }
}

TEST_CASE("decoding equals the scalar codec on every target", "[unit]") {
  for (const std::string& target : target_names()) {
    auto context = make_context({.threads = 1, .target = target});
    for (const FloatFormat& format : all_formats()) {
      // Every code of formats up to 16 bits, a spread of the others.
      const std::uint64_t codes_in_all = std::uint64_t{1} << format.bits();
      const std::size_t count =
          format.bits() <= 16 ? static_cast<std::size_t>(codes_in_all) : 65537;
      std::vector<std::byte> codes = storage(format, count);
      for (std::size_t i = 0; i < count; ++i) {
        const auto code =
            static_cast<std::uint32_t>(i * (format.bits() <= 16 ? 1 : codes_in_all / count));
        const std::uint32_t stored = code << format.storage_shift();
        std::memcpy(codes.data() + i * static_cast<std::size_t>(format.bytes()), &stored,
                    static_cast<std::size_t>(format.bytes()));
      }
      std::vector<float> values(count);
      convert(context, ConstCodeSpan(code_span(format, std::span(codes))),
              code_span(formats::fp32, std::as_writable_bytes(std::span(values))));
      std::size_t wrong = count;
      for (std::size_t i = count; i-- > 0;)
        if (std::bit_cast<std::uint32_t>(values[i]) !=
            std::bit_cast<std::uint32_t>(decode(format, code_at(codes.data(), format, i))))
          wrong = i;
      INFO(target << ", " << to_string(format) << ", code index " << wrong);
      REQUIRE(wrong == count);
    }
  }
}

TEST_CASE("any format to any other is decode and encode", "[unit]") {
  auto context = make_context({.threads = 1});
  const std::vector<float> values = soma_test::hard_floats(777);
  for (const NamedFormat& from : named_formats) {
    std::vector<std::byte> source = storage(from.format, values.size());
    convert(context, floats(values), code_span(from.format, std::span(source)));
    for (const NamedFormat& to : named_formats) {
      std::vector<std::byte> target = storage(to.format, values.size());
      convert(context, ConstCodeSpan(code_span(from.format, std::span(source))),
              code_span(to.format, std::span(target)), {.rounding = Rounding::toward_zero});
      std::size_t wrong = values.size();
      for (std::size_t i = values.size(); i-- > 0;)
        if (code_at(target.data(), to.format, i) !=
            encode(to.format, decode(from.format, code_at(source.data(), from.format, i)),
                   Rounding::toward_zero))
          wrong = i;
      INFO(from.name << " to " << to.name << ", element " << wrong);
      REQUIRE(wrong == values.size());
    }
  }
}

TEST_CASE("length, alignment and cut change no bit and nothing outside is touched", "[unit]") {
  const std::vector<float> values = soma_test::hard_floats(512);
  for (const std::string& target : target_names()) {
    auto context = make_context({.threads = 1, .target = target});
    for (const FloatFormat& format :
         {formats::bf16, formats::fp8_e4m3, formats::tf32, formats::e8m0}) {
      for (const Rounding& rounding : {Rounding::nearest_even, Rounding::stochastic}) {
        const auto width = static_cast<std::size_t>(format.bytes());
        std::vector<std::byte> whole = storage(format, values.size());
        convert(context, floats(values), code_span(format, std::span(whole)),
                {.rounding = rounding, .draw = {.seed = 5}});
        bool same = true, untouched = true;
        for (std::size_t length = 0; length <= 300; ++length) {
          for (const std::size_t start : {std::size_t{0}, std::size_t{1}, length % 13}) {
            // A target at an odd address, with a guard on both sides; a source that starts inside a
            // vector.
            std::vector<std::byte> guarded(length * width + 3 + 64, std::byte{0xA5});
            const CodeSpan to{format, guarded.data() + 3, 1, length, length * width};
            const ConstCodeSpan from{formats::fp32,
                                     std::as_bytes(std::span(values)).data() + 4 * start, 1, length,
                                     4 * length};
            convert(context, from, to, {.rounding = rounding, .draw = {.seed = 5, .index = start}});
            same = same && std::memcmp(guarded.data() + 3, whole.data() + start * width,
                                       length * width) == 0;
            for (std::size_t i = 0; i < guarded.size(); ++i)
              if (i < 3 || i >= 3 + length * width)
                untouched = untouched && guarded[i] == std::byte{0xA5};
          }
        }
        INFO(target << ", " << to_string(format) << ", " << to_string(rounding.mode));
        CHECK(same);
        CHECK(untouched);
      }
    }
  }
}

TEST_CASE("threads change no bit", "[unit][invariance]") {
  // Long enough for many items of work, and not a multiple of anything.
  const std::vector<float> values = soma_test::finite_floats(300007);
  const FloatFormat format = formats::fp8_e4m3;
  for (const Rounding& rounding : {Rounding::nearest_even, Rounding::stochastic}) {
    for (const Scaling& scaling :
         {Scaling{}, Scaling{.policy = ScalePolicy::current},
          Scaling{.policy = ScalePolicy::current, .granularity = Granularity::group_32}}) {
      std::uint64_t expected = 0;
      for (const int threads : {1, 2, 3, 7}) {
        auto context = make_context({.threads = threads});
        std::vector<std::byte> codes = storage(format, values.size());
        const std::size_t blocks = scale_grid(scaling.granularity, 1, values.size()).size();
        std::vector<float> scales(scaling.policy == ScalePolicy::none ? 0 : blocks), amax(blocks);
        convert(context, floats(values), code_span(format, std::span(codes)),
                {.rounding = rounding,
                 .draw = {.seed = 11},
                 .scaling = scaling,
                 .scales = scales,
                 .amax = amax});
        std::uint64_t hash = soma_test::hash(codes);
        hash = soma_test::hash(std::as_bytes(std::span(scales)), hash);
        hash = soma_test::hash(std::as_bytes(std::span(amax)), hash);
        if (threads == 1) expected = hash;
        INFO(threads << " threads");
        CHECK(hash == expected);
      }
    }
  }
}

TEST_CASE("large targets are written past the cache with the same bits", "[unit]") {
  auto context = make_context();
  const std::size_t count = (std::size_t{9} << 20) + 5;
  std::vector<float> values = soma_test::hard_floats(4099);
  values.resize(count, 1.37f);
  std::vector<std::byte> codes(2 * count + 1);
  // One byte off, so that no part of the target is aligned.
  convert(context, floats(values), CodeSpan{formats::bf16, codes.data() + 1, 1, count, 2 * count});
  bool same = true;
  for (std::size_t i = 0; i < count; ++i)
    same = same && code_at(codes.data() + 1, formats::bf16, i) == encode(formats::bf16, values[i]);
  CHECK(same);
}

TEST_CASE("rows may lie apart, and draw from streams of their own", "[unit]") {
  auto context = make_context({.threads = 2});
  const std::size_t rows = 37, columns = 21, pitch = 32;
  const std::vector<float> values = soma_test::hard_floats(rows * pitch);
  std::vector<std::byte> codes(rows * 2 * 40, std::byte{0xA5});
  const ConstCodeSpan from{formats::fp32, std::as_bytes(std::span(values)).data(), rows, columns,
                           4 * pitch};
  const CodeSpan to{formats::bf16, codes.data(), rows, columns, 2 * 40};
  const Draw draw{.seed = 3, .index = parameter_index(5, 7)};
  const std::uint64_t row_stride = parameter_index(1, 0);
  convert(context, from, to,
          {.rounding = Rounding::stochastic, .draw = draw, .draw_row_stride = row_stride});
  bool same = true, untouched = true;
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < 40; ++column) {
      if (column >= columns) {
        untouched = untouched && to.row(row)[2 * column] == std::byte{0xA5};
        continue;
      }
      const std::uint32_t random = rounding_word(draw, 16, row * row_stride + column);
      same = same &&
             code_at(to.row(row), formats::bf16, column) ==
                 encode(formats::bf16, values[row * pitch + column], Rounding::stochastic, random);
    }
  CHECK(same);
  CHECK(untouched);

  SECTION("rows longer than an item of work") {
    const std::size_t wide = 70001;
    const std::vector<float> long_rows = soma_test::hard_floats(3 * (wide + 5));
    std::vector<bf16> out(3 * wide);
    const ConstCodeSpan source{formats::fp32, std::as_bytes(std::span(long_rows)).data(), 3, wide,
                               4 * (wide + 5)};
    convert(
        context, source,
        CodeSpan{formats::bf16, std::as_writable_bytes(std::span(out)).data(), 3, wide, 2 * wide},
        {.rounding = Rounding::stochastic, .draw = draw, .draw_row_stride = row_stride});
    bool same_long = true;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t row = i / wide, column = i % wide;
      const std::uint32_t random = rounding_word(draw, 16, row * row_stride + column);
      same_long =
          same_long && out[i].code() == encode(formats::bf16, long_rows[row * (wide + 5) + column],
                                               Rounding::stochastic, random);
    }
    CHECK(same_long);
  }

  SECTION("by default row after row") {
    convert(context, from, to, {.rounding = Rounding::stochastic, .draw = {.seed = 3}});
    const std::uint32_t random = rounding_word({.seed = 3}, 16, 4 * columns + 2);
    CHECK(code_at(to.row(4), formats::bf16, 2) ==
          encode(formats::bf16, values[4 * pitch + 2], Rounding::stochastic, random));
  }
}

TEST_CASE("in place where widths allow", "[unit]") {
  auto context = make_context({.threads = 3});
  const std::vector<float> values = soma_test::hard_floats(100003);
  for (const FloatFormat& format : {formats::bf16, formats::fp8_e5m2, formats::tf32}) {
    std::vector<std::byte> apart = storage(format, values.size());
    convert(context, floats(values), code_span(format, std::span(apart)),
            {.rounding = Rounding::stochastic, .draw = {.seed = 2}});
    std::vector<float> buffer = values;
    std::byte* bytes = std::as_writable_bytes(std::span(buffer)).data();
    convert(context, floats(buffer), CodeSpan{format, bytes, 1, values.size(), apart.size()},
            {.rounding = Rounding::stochastic, .draw = {.seed = 2}});
    INFO(to_string(format));
    CHECK(std::memcmp(bytes, apart.data(), apart.size()) == 0);
  }
}

TEST_CASE("the host's floating-point modes do not matter and are left alone", "[unit]") {
#if defined(__x86_64__)
  auto context = make_context({.threads = 2});
  const std::vector<float> values = soma_test::hard_floats(70001);
  // Decoding a bias of 146 and scaling both meet subnormals in floating-point instructions.
  const FloatFormat deep{.exponent_bits = 4, .mantissa_bits = 3, .bias = 146};
  std::vector<std::byte> codes(values.size());
  std::vector<float> back(values.size()), expected(values.size());
  const auto run = [&](std::vector<float>& out) {
    convert(context, floats(values), code_span(deep, std::span(codes)));
    const std::vector<float> scale{0.37f};
    convert(context, ConstCodeSpan(code_span(deep, std::span(codes))),
            code_span(formats::fp32, std::as_writable_bytes(std::span(out))),
            {.source_scales = scale});
  };
  run(expected);
  const unsigned before = __builtin_ia32_stmxcsr();
  const unsigned hostile =
      before | 0x8040u | 0x4000u;  // flush to zero, subnormals as zero, round up
  __builtin_ia32_ldmxcsr(hostile);
  run(back);
  const unsigned after = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before);
  CHECK(after == hostile);
  CHECK(std::memcmp(back.data(), expected.data(), back.size() * sizeof(float)) == 0);
#else
  SOMA_TEST_SKIP("reads the x86 control register");
#endif
}
