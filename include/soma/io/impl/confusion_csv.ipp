#pragma once
// The functions of confusion_csv.hpp.

#include <soma/io/confusion_csv.hpp>

#include <soma/base/error.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

SOMA_INLINE std::string csv_cell(std::string_view content) {
  if (content.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(content);
  std::string cell(1, '"');
  for (const char letter : content) cell.append(letter == '"' ? 2 : 1, letter);
  cell.push_back('"');
  return cell;
}

SOMA_INLINE std::string confusion_csv(std::span<const std::string> labels,
                                      std::span<const std::uint64_t> counts) {
  const std::size_t count = labels.size();
  if (count == 0 ? !counts.empty() : counts.size() % count != 0 || counts.size() / count != count)
    fail(error_id::csv_size, "confusion_csv", "counts", std::to_string(counts.size()) + " numbers",
         "the square of " + std::to_string(count) + ", the number of labels");
  std::string text = "actual/predicted";
  for (const std::string& label : labels) text.append(",").append(soma::csv_cell(label));
  for (std::size_t i = 0; i < count; ++i) {
    text.append("\r\n").append(soma::csv_cell(labels[i]));
    for (const std::uint64_t number : counts.subspan(i * count, count))
      text.append(",").append(std::to_string(number));
  }
  return text.append("\r\n");
}

}  // namespace SOMA_NAMESPACE
