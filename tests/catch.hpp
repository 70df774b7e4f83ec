// The one place where tests meet Catch2: 2.13 (one header) and 3.x (split headers) look the same
// behind it.
//
// Left out on purpose: Approx. Its tolerance has no unit; use the floating-point matchers, or a
// bound with a reason.
#pragma once

#if __has_include(<catch2/catch_test_macros.hpp>)

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_predicate.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#define SOMA_TEST_SKIP(reason) SKIP(reason)

namespace soma_test {
inline auto contains(const char* text) { return Catch::Matchers::ContainsSubstring(text); }
}  // namespace soma_test

#else

#include <catch2/catch.hpp>

#include <sstream>
#include <string>

namespace soma_test {
inline auto contains(const char* text) { return Catch::Matchers::Contains(text); }
void note_skip(const std::string& reason);  // in catch_main.cpp: prints and counts
}  // namespace soma_test

// Ends the test case. The program ends with code 4 if nothing but skipped cases ran; ctest shows
// that as "Skipped".
#define SOMA_TEST_SKIP(reason)                                     \
  do {                                                             \
    std::ostringstream soma_test_reason;                           \
    soma_test_reason << reason; /* NOLINT: may be a chain of << */ \
    ::soma_test::note_skip(soma_test_reason.str());                \
    return;                                                        \
  } while (false)

#endif

#pragma GCC poison Approx
