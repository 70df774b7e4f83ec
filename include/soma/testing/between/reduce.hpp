#pragma once
// reduce(): makes a program that fails smaller, as long as it fails in the same way.

#include <soma/testing/between/checks.hpp>
#include <soma/testing/between/program.hpp>

#include <string>

namespace SOMA_NAMESPACE::testing::detail {

inline constexpr double reduction_seconds = 20;

// Leaves out places, views, calls, inputs and sizes, and puts leaves in the place of calls.
Program reduce(Checks& checks, Program program, const std::string& kind);

}  // namespace SOMA_NAMESPACE::testing::detail

#ifndef SOMA_DISPATCH
#include <soma/testing/between/impl/reduce.ipp>
#endif
