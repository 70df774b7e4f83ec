#pragma once
// The functions of sizes.hpp.

#include <soma/base/sizes.hpp>

#include <soma/base/error.hpp>

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

SOMA_INLINE std::size_t checked_multiply(std::size_t a, std::size_t b, std::string_view operation) {
  if (a != 0 && b > (std::numeric_limits<std::size_t>::max)() / a)
    fail(error_id::size_overflow, operation, "size", std::to_string(a) + " * " + std::to_string(b),
         "a product below 2^64");
  return a * b;
}

SOMA_INLINE std::size_t checked_add(std::size_t a, std::size_t b, std::string_view operation) {
  if (b > (std::numeric_limits<std::size_t>::max)() - a)
    fail(error_id::size_overflow, operation, "size", std::to_string(a) + " + " + std::to_string(b),
         "a sum below 2^64");
  return a + b;
}

}  // namespace SOMA_NAMESPACE
