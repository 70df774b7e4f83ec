#pragma once
// The functions of timing.hpp.

#include <soma/testing/timing.hpp>

#include <soma/ops/registry.hpp>
#include <soma/ops/run.hpp>
#include <soma/system/clock.hpp>
#include <soma/testing/samples.hpp>
#include <soma/testing/values.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::testing {

SOMA_INLINE std::vector<Timing> time_operator(Context& context, std::string_view name,
                                              double seconds) {
  const Operator& op = context.operators().at(name);
  std::vector<Timing> timings;
  for (const Sample& sample : samples_of(op).samples) {
    Timing timing{.sample = sample.name};
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
      inputs.push_back(detail::make_input(context, sample, i, {}));
      timing.elements += inputs.back().defined() ? inputs.back().elements() : 0;
    }
    const Sequences sequences =
        sample.lengths.empty() ? Sequences() : Sequences::from_lengths(context, sample.lengths);
    const auto round = [&](std::size_t calls) {
      const std::int64_t start = monotonic_nanoseconds();
      for (std::size_t i = 0; i < calls; ++i)
        run(context, op, sample.attributes, inputs, sequences);
      return static_cast<double>(monotonic_nanoseconds() - start);
    };
    constexpr int rounds = 8;
    std::size_t calls = 1;
    for (double time = round(1); time < 1e9 * seconds / (2 * rounds) && calls < 1u << 24;)
      time = round(calls *= 2);
    double least = round(calls);
    for (int i = 1; i < rounds; ++i) least = (std::min)(least, round(calls));
    timing.nanoseconds = least / static_cast<double>(calls);
    timings.push_back(timing);
  }
  return timings;
}

}  // namespace SOMA_NAMESPACE::testing
