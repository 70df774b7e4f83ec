#pragma once
// The functions of report.hpp.

#include <soma/testing/report.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::testing {

SOMA_INLINE bool Report::passed() const { return failures.empty(); }

SOMA_INLINE std::string to_string(const Report& report) {
  std::string text = report.name;
  text.append(report.checks == 0 ? ": not checked" : report.passed() ? ": passed" : ": FAILED");
  text.append(", ").append(std::to_string(report.checks)).append(" checks\n");
  for (std::size_t i = 0; i < topic_names.size(); ++i)
    if (report.by_topic[i] != 0)
      text.append("  checked ")
          .append(std::to_string(report.by_topic[i]))
          .append(" times: ")
          .append(topic_names[i])
          .append("\n");
  for (const std::string& what : report.not_checked)
    text.append("  not checked: ").append(what).append("\n");
  for (const std::string& failure : report.failures)
    text.append("  failed: ").append(failure).append("\n");
  return text;
}

}  // namespace SOMA_NAMESPACE::testing
