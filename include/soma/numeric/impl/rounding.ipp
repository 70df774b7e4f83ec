#pragma once
// The functions of rounding.hpp.

#include <soma/numeric/rounding.hpp>

#include <soma/base/error.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/numeric/float_format.hpp>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

SOMA_INLINE void check_random_bits(std::string_view operation, std::string_view argument,
                                   const Rounding& rounding) {
  if (rounding.random_bits > 32)
    fail(error_id::random_bits, operation, argument, std::to_string(rounding.random_bits),
         "0 (automatic) to 32");
}

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE std::uint64_t unsigned_from_environment(const char* name, std::uint64_t largest) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return 0;
  const std::string_view view(text);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc{} || end != view.data() + view.size() || value > largest)
    fail(error_id::environment_value, "Rounding::from_environment", name, quoted(view),
         "an integer from 0 to " + std::to_string(largest));
  return value;
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE RoundingSwitches Rounding::from_environment() {
  const bool enabled =
      detail::unsigned_from_environment("NEURON_RT_STOCHASTIC_ROUNDING_EN", 1) == 1;
  const std::uint64_t seed =
      detail::unsigned_from_environment("NEURON_RT_STOCHASTIC_ROUNDING_SEED", ~std::uint64_t{0});
  return {enabled ? Rounding::stochastic : Rounding::nearest_even, seed};
}

}  // namespace SOMA_NAMESPACE
