// How often this program has asked operator new for memory. For tests that are linked with
// autograd/new_counter_test.cpp, which counts.
#pragma once

#include <cstdint>

namespace soma_test {

std::uint64_t new_calls();

}  // namespace soma_test
