#pragma once
// Tables of text whose columns are as wide as their widest cell.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace tools {

using Row = std::vector<std::string>;

// The first row is the header. Cells that begin with a digit are aligned to the right.
inline std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      const std::string& cell = rows[r][i];
      const std::string gap(widths[i] - cell.size(), ' ');
      const bool number = r != 0 && !cell.empty() && cell[0] >= '0' && cell[0] <= '9';
      line += (i == 0 ? "" : "  ") + (number ? gap + cell : cell + gap);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
    if (r == 0) {
      std::size_t all = 2 * (widths.empty() ? 0 : widths.size() - 1);
      for (const std::size_t width : widths) all += width;
      text += std::string(all, '-') + '\n';
    }
  }
  return text;
}

// Replaces bytes that could control a terminal by '?'.
inline std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

}  // namespace tools
