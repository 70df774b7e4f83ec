// The ordinary unit of the fast_math_host program.

#include <soma/soma.hpp>

#include "support/samples.hpp"

#include <vector>

bool soma_bits_are_exact();

bool soma_bits_are_exact() {
  using namespace soma;
  auto context = make_context({.threads = 2});
  const std::vector<float> values = soma_test::hard_floats(70001);
  std::vector<bf16> codes(values.size());
  convert(context, values, codes);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (codes[i].code() != encode(formats::bf16, values[i])) return false;
  // A bias that puts its numbers among fp32's subnormals, decoded by a multiplication.
  constexpr FloatFormat deep{.exponent_bits = 4, .mantissa_bits = 3, .bias = 146};
  std::vector<minifloat<deep>> narrow(256);
  for (std::uint32_t code = 0; code < 256; ++code) narrow[code] = minifloat<deep>::from_code(code);
  std::vector<float> back(narrow.size());
  convert(context, narrow, back);
  for (std::uint32_t code = 0; code < 256; ++code)
    if (std::bit_cast<std::uint32_t>(back[code]) !=
        std::bit_cast<std::uint32_t>(decode(deep, code)))
      return false;
  return true;
}
