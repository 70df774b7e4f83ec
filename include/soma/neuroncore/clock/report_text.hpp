#pragma once
// A summary as text and as JSON. Used by Report.

#include <soma/neuroncore/clock/advice.hpp>
#include <soma/neuroncore/clock/summary.hpp>
#include <soma/neuroncore/clock/text_parts.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore::detail {

inline constexpr std::array<std::string_view, bound_count> bound_names{
    "launch", "own previous", "own result", "semaphore", "port", "dma engines", "descriptors"};

// The texts beside the numbers of a summary.
struct ReportNotes {
  std::string machine, estimate;  // its name, and what it says of its times
  std::vector<std::string> advice, warnings;
};

void append_ranks(std::string& text, const Summary& summary, std::size_t most);

void append_lanes(std::string& text, const Summary& summary);

std::string report_text(const Summary& summary, const ReportNotes& notes, std::size_t most);

std::string report_json(const Summary& summary, const ReportNotes& notes);

}  // namespace SOMA_NAMESPACE::neuroncore::detail

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/clock/impl/report_text.ipp>
#endif
