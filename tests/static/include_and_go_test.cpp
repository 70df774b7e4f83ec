// Include and go: the kernels compiled into this unit, for whatever its flags allow, give the
// scalar codec's bits.

#include <soma/runtime/host.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/samples.hpp"

#include <string>
#include <vector>

using namespace soma;

TEST_CASE("the static target converts exactly", "[unit]") {
  auto context = make_context({.threads = 2});
  CHECK(!context.targets().dispatched);
  CHECK(context.targets().targets.size() == 1);
  const std::vector<float> values = soma_test::hard_floats(40009);
  for (const NamedFormat& known : named_formats)
    for (const Rounding& rounding : {Rounding::nearest_even, Rounding::up, Rounding::stochastic}) {
      const FloatFormat& format = known.format;
      const auto width = static_cast<std::size_t>(format.bytes());
      std::vector<std::byte> codes(values.size() * width);
      convert(context, ConstCodeSpan(code_span(formats::fp32, std::as_bytes(std::span(values)))),
              code_span(format, std::span(codes)), {.rounding = rounding, .draw = {.seed = 8}});
      bool same = true;
      for (std::size_t i = 0; i < values.size(); ++i) {
        std::uint32_t code = 0;
        std::memcpy(&code, codes.data() + i * width, width);
        const std::uint32_t random = rounding_word({.seed = 8}, random_bits(rounding, format), i);
        same =
            same && code >> format.storage_shift() == encode(format, values[i], rounding, random);
      }
      INFO(known.name << " " << to_string(rounding.mode));
      CHECK(same);
    }
}

TEST_CASE("asking for another target says which there is", "[unit]") {
  try {
    auto context = make_context({.target = "NEON_OF_THE_FUTURE"});
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.wanted() == "one of " + std::string(make_context().target().name));
  }
}

TEST_CASE("the description names the remedies for a slow build", "[unit]") {
  auto context = make_context({.threads = 1});
  const HostDescription host = describe_host(context, Measure::no);
  CHECK(!host.dispatched);
  if (!host.fused_multiply_add) {
    REQUIRE(!host.remedies.empty());
    CHECK(host.remedies[0].find("soma::dispatch") != std::string::npos);
    CHECK(host.remedies[0].find("-march=native") != std::string::npos);
  }
}
