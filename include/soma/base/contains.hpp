#pragma once
// Membership in a range, as a question.

#include <soma/base/config.hpp>

#include <algorithm>
#include <iterator>

namespace SOMA_NAMESPACE {

// True if an element of the range equals the value. Linear. The algorithms of std::ranges are not
// used in soma: libc++ before 15 has none.
template <typename Range, typename Value>
bool contains(const Range& range, const Value& value) {
  return std::find(std::begin(range), std::end(range), value) != std::end(range);
}

}  // namespace SOMA_NAMESPACE
