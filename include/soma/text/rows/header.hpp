#pragma once
// HeaderFinder: decides if the first row of a table names its columns, by the rule of RowOptions.

#include <soma/text/columns.hpp>
#include <soma/text/rows/label_names.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace SOMA_NAMESPACE::text {

// Uses the first row, and if that is not enough, the labels of other rows, which add() takes.
// Memory: a number for each label, of at most most_labels labels.
class HeaderFinder {
 public:
  enum class Verdict : std::uint8_t {
    row,     // a row of data, as all others
    header,  // it names columns
    unclear  // its label is as that of a header, its names are not
  };

  HeaderFinder(const RowOptions& options, detail::Fields first);

  // True as long as further rows are needed.
  bool needs_rows() const;
  // Adds a row after the first, with the same number of columns.
  void add(detail::Fields row);
  Verdict verdict() const;

 private:
  static constexpr std::size_t most_labels = std::size_t{1} << 16;

  // A column that may hold the labels, with findings from its cells.
  struct Candidate {
    std::size_t column = 0;
    int names = 0;                // how many of text and label have a usual name
    bool unnamed_counts = false;  // where the labels are if the first row is no header
    std::string cell{};
    char separator = 0;  // between labels of a cell; 0: it has one
    bool once = true;    // the first row's label is in no other row
    std::unordered_map<std::string, std::uint64_t> others{};

    void add(detail::Fields row);
    void add_label(std::string_view label);
    // With two usual names, the first row's label must only differ from all classes; otherwise the
    // labels must also look like classes: each occurs twice, or they are numbers.
    bool is_as_header() const;
  };

  void decide_by_options(const RowOptions& options);

  void find_candidates(const RowOptions& options);
  void add_number(std::string_view column, std::vector<std::size_t>& to) const;
  static bool is_known(const RowOptions& options, std::string_view cell);

  detail::Fields first_;
  std::optional<Verdict> decided_{};
  std::vector<Candidate> candidates_{};
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/rows/impl/header.ipp>
#endif
