// Errors of convert(): the message names both sides, and nothing is written.

#include <soma/soma.hpp>

#include "catch.hpp"

#include <functional>
#include <string>
#include <vector>

using namespace soma;

namespace {

struct Attempt {
  std::string id, text;
};

template <class Work>
Attempt attempt(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    return {std::string(error.id().name), error.what()};
  }
  return {"none", ""};
}

}  // namespace

TEST_CASE("conversions that cannot be are refused before anything is written", "[unit]") {
  auto context = make_context();
  std::vector<float> values(64, 1.5f);
  std::vector<std::byte> out(256, std::byte{0x77});
  const std::vector<std::byte> before = out;
  const std::byte* in = std::as_bytes(std::span(values)).data();
  const ConstCodeSpan from{formats::fp32, in, 8, 8, 32};
  const CodeSpan to{formats::bf16, out.data(), 8, 8, 16};
  const FloatFormat impossible{.exponent_bits = 9, .mantissa_bits = 3};
  std::vector<float> one(1, 1.0f), two(2, 1.0f), nan(1, std::numeric_limits<float>::quiet_NaN());

  struct Case {
    const char* id;
    std::vector<const char*> said;
    std::function<void()> work;
  };
  const std::vector<Case> cases{
      {"convert.size_mismatch",
       {"8 x 7 bf16", "8 x 8 fp32"},
       [&] {
         convert(context, from, CodeSpan{formats::bf16, out.data(), 8, 7, 16});
       }},
      {"convert.size_mismatch",
       {"1 x 63 bf16", "1 x 64 fp32"},
       [&] { convert(context, values, std::span(reinterpret_cast<bf16*>(out.data()), 63)); }},
      {"format.impossible",
       {"1-9-3", "exponent_bits from 1 to 8"},
       [&] {
         convert(context, from, CodeSpan{impossible, out.data(), 8, 8, 16});
       }},
      {"format.impossible",
       {"1-9-3", "exponent_bits from 1 to 8"},
       [&] {
         convert(context, ConstCodeSpan{impossible, in, 8, 8, 32}, to);
       }},
      {"convert.layout",
       {"to is", "15 bytes apart", "at least 16"},
       [&] {
         convert(context, from, CodeSpan{formats::bf16, out.data(), 8, 8, 15});
       }},
      {"convert.layout",
       {"from is", "null pointer"},
       [&] {
         convert(context, ConstCodeSpan{formats::fp32, nullptr, 8, 8, 32}, to);
       }},
      {"base.size_overflow",
       {"18446744073709551615 * 8"},
       [&] {
         convert(context, ConstCodeSpan{formats::fp32, in, ~std::size_t{0}, 8, 32}, to);
       }},
      {"convert.overlap",
       {"to is 1 x 32 bf16", "from (1 x 32 fp32)"},
       [&] {
         convert(context, ConstCodeSpan{formats::fp32, out.data(), 1, 32, 128},
                 CodeSpan{formats::bf16, out.data() + 2, 1, 32, 64});
       }},
      {"convert.overlap",
       {"separate memory"},
       [&] {  // wider codes over narrower ones
         convert(context, ConstCodeSpan{formats::bf16, out.data(), 1, 32, 64},
                 CodeSpan{formats::fp32, out.data(), 1, 32, 128});
       }},
      {"rounding.random_bits",
       {"33", "0 (automatic) to 32"},
       [&] {
         convert(context, from, to, {.rounding = {RoundingMode::stochastic, 33}});
       }},
      {"scaling.count",
       {"scales is 0 numbers", "wanted 1"},
       [&] { convert(context, from, to, {.scaling = {.policy = ScalePolicy::current}}); }},
      {"scaling.count",
       {"scales is 1 numbers", "wanted 0"},
       [&] { convert(context, from, to, {.scales = one}); }},
      {"scaling.count",
       {"source_scales is 2 numbers", "wanted 8"},
       [&] {
         convert(context, from, to, {.source_granularity = Granularity::row, .source_scales = two});
       }},
      {"scaling.count", {"amax is 2 numbers"}, [&] { convert(context, from, to, {.amax = two}); }},
      {"scaling.invalid",
       {"scaling.margin is 65"},
       [&] {
         convert(context, from, to,
                 {.scaling = {.policy = ScalePolicy::current, .margin = 65}, .scales = one});
       }},
      {"scaling.invalid",
       {"positive and finite"},
       [&] {
         convert(context, from, to, {.scaling = {.policy = ScalePolicy::delayed}, .scales = nan});
       }},
  };
  for (const Case& c : cases) {
    const Attempt seen = attempt(c.work);
    INFO(seen.text);
    CHECK(seen.id == c.id);
    for (const char* part : c.said) CHECK(seen.text.find(part) != std::string::npos);
    CHECK(out == before);
  }
  CHECK(attempt([&] { convert(context, from, to); }).id == "none");
}

TEST_CASE("a byte span has to hold whole codes", "[unit]") {
  std::vector<std::byte> bytes(7);
  const Attempt seen =
      attempt([&] { static_cast<void>(code_span(formats::bf16, std::span(bytes))); });
  CHECK(seen.id == "convert.layout");
  CHECK(seen.text == "code_span: bytes is 7 bytes, wanted a multiple of 2 (bf16) [convert.layout]");
}
