#pragma once
// Reports a broken promise of a fuzz target.

#include <cstdio>
#include <cstdlib>

namespace soma_fuzz {

// Ends the program; the fuzzer reports this as a finding.
inline void check(bool kept, const char* promise) {
  if (kept) return;
  std::fprintf(stderr, "broken: %s\n", promise);
  std::abort();
}

}  // namespace soma_fuzz
