#pragma once
// The function of name_pattern.hpp.

#include <soma/base/name_pattern.hpp>

#include <cstddef>
#include <string_view>

namespace SOMA_NAMESPACE {

SOMA_INLINE bool name_matches(std::string_view pattern, std::string_view name) {
  // Only the last star can be wrong about how much it stands for: the others took the first match.
  std::size_t p = 0, n = 0, star = pattern.npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != pattern.npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace SOMA_NAMESPACE
