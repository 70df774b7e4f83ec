#pragma once
// The functions of header.hpp.

#include <soma/base/contains.hpp>
#include <soma/text/rows/header.hpp>

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

SOMA_INLINE HeaderFinder::HeaderFinder(const RowOptions& options, detail::Fields first)
    : first_(first) {
  decide_by_options(options);
  if (!decided_) find_candidates(options);
}

SOMA_INLINE bool HeaderFinder::needs_rows() const {
  return !decided_ && std::any_of(candidates_.begin(), candidates_.end(),
                                  [](const Candidate& candidate) { return candidate.once; });
}

SOMA_INLINE void HeaderFinder::add(detail::Fields row) {
  for (Candidate& candidate : candidates_) candidate.add(row);
}

SOMA_INLINE auto HeaderFinder::verdict() const -> Verdict {
  if (decided_) return *decided_;
  bool unclear = false;
  for (const Candidate& candidate : candidates_) {
    if (!candidate.is_as_header()) continue;
    if (candidate.names != 0) return Verdict::header;
    unclear = unclear || candidate.unnamed_counts;
  }
  return unclear ? Verdict::unclear : Verdict::row;
}

SOMA_INLINE void HeaderFinder::Candidate::add(detail::Fields row) {
  const std::string_view labels = row[column];
  for (std::size_t begin = 0; once && begin <= labels.size();) {
    const std::size_t end =
        separator == 0 ? labels.size() : (std::min)(labels.find(separator, begin), labels.size());
    add_label(trimmed_label(labels.substr(begin, end - begin)));
    begin = end + 1;
  }
}

SOMA_INLINE void HeaderFinder::Candidate::add_label(std::string_view label) {
  once = label != cell;
  if (!label.empty() && others.size() <= most_labels) ++others[std::string(label)];
}

SOMA_INLINE bool HeaderFinder::Candidate::is_as_header() const {
  if (!once || others.empty() || cell.empty()) return false;
  if (names == 2) return true;
  if (others.size() > most_labels) return false;
  const bool number = real_number(cell).has_value();
  const bool all_numbers = std::all_of(others.begin(), others.end(), [](const auto& other) {
    return real_number(other.first).has_value();
  });
  if (number && all_numbers) return false;
  return std::all_of(others.begin(), others.end(), [&](const auto& other) {
    return other.second >= 2 || (!number && real_number(other.first));
  });
}

SOMA_INLINE void HeaderFinder::decide_by_options(const RowOptions& options) {
  if (options.header != Header::detect) {
    decided_ = options.header == Header::present ? Verdict::header : Verdict::row;
    return;
  }
  const auto text_name = detail::find_name(first_, detail::text_names);
  const auto label_name = detail::find_name(first_, detail::label_names);
  const bool both = text_name && label_name && *text_name != *label_name;
  if (detail::gives_names(options) || both) decided_ = Verdict::header;
}

SOMA_INLINE void HeaderFinder::find_candidates(const RowOptions& options) {
  const std::size_t count = first_.size();
  std::vector<std::size_t> texts;
  for (const std::string& column : detail::text_columns_of(options)) add_number(column, texts);
  if (!options.pair_column.empty()) add_number(options.pair_column, texts);
  std::vector<std::size_t> labels;
  if (!options.label_column.empty()) {
    add_number(options.label_column, labels);
  } else {
    for (std::size_t i = 0; i < count; ++i)
      if (!contains(texts, i)) labels.push_back(i);
    if (texts.empty() && count != 2) {
      // Without a header the columns could not be told apart.
      const auto text = detail::find_name(first_, detail::text_names, detail::more_text_names);
      const auto label = detail::find_name(first_, detail::label_names, detail::more_label_names);
      decided_ = text && label && *text != *label ? Verdict::header : Verdict::row;
      return;
    }
  }
  for (const std::size_t label : labels) {
    if (label >= count) continue;
    if (is_known(options, first_[label])) continue;
    const bool own_text = texts.empty() && count == 2;
    const bool named_text = own_text
                                ? detail::is_text_name(first_[1 - label])
                                : std::any_of(texts.begin(), texts.end(), [&](std::size_t text) {
                                    return text < count && detail::is_text_name(first_[text]);
                                  });
    const int names = (named_text ? 1 : 0) + (detail::is_label_name(first_[label]) ? 1 : 0);
    // In a table of two columns without a header, the second column has the labels.
    const bool by_default = labels.size() == 1 || label == 1;
    if (names == 0 && !by_default) continue;
    candidates_.push_back(
        {.column = label,
         .names = names,
         .unnamed_counts = by_default,
         .cell = std::string(trimmed_label(first_[label])),
         .separator = options.labels == data::LabelKind::several ? options.label_separator : '\0'});
  }
}

SOMA_INLINE void HeaderFinder::add_number(std::string_view column,
                                          std::vector<std::size_t>& to) const {
  if (const auto number = whole_number(column); number && *number >= 1)
    to.push_back(static_cast<std::size_t>(*number) - 1);
}

SOMA_INLINE bool HeaderFinder::is_known(const RowOptions& options, std::string_view cell) {
  return contains(options.known_labels, trimmed_label(cell));
}

}  // namespace SOMA_NAMESPACE::text
