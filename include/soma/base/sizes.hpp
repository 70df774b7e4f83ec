#pragma once
// Checked arithmetic for sizes from outside, which are never trusted.

#include <soma/base/error.hpp>

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

// a * b, or Error base.size_overflow naming the operation and both factors.
[[nodiscard]] std::size_t checked_multiply(std::size_t a, std::size_t b,
                                           std::string_view operation);

// a + b, or Error base.size_overflow naming the operation and both terms.
[[nodiscard]] std::size_t checked_add(std::size_t a, std::size_t b, std::string_view operation);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/base/impl/sizes.ipp>
#endif
