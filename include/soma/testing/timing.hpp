#pragma once
// The run time of an operator: a small tool, for a first look.

#include <soma/ops/registry.hpp>
#include <soma/ops/run.hpp>
#include <soma/system/clock.hpp>
#include <soma/testing/values.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::testing {

struct Timing {
  std::string sample;
  std::size_t elements = 0;  // elements of the inputs
  double nanoseconds = 0;    // the time of a forward call: the least of several rounds
};

// Times the operator's samples on the context's threads and device, about `seconds` for each. Empty
// if there are no samples. Error operator.unknown, and those of the operator.
std::vector<Timing> time_operator(Context& context, std::string_view name, double seconds = 0.05);

}  // namespace SOMA_NAMESPACE::testing

#ifndef SOMA_DISPATCH
#include <soma/testing/impl/timing.ipp>
#endif
