#pragma once
// The functions of label_counter.hpp.

#include <soma/text/rows/label_counter.hpp>

#include <soma/base/error.hpp>
#include <soma/text/rows/label_names.hpp>
#include <soma/text/rows/sort_labels.hpp>
#include <soma/text/utf8.hpp>

#include <utf8proc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace SOMA_NAMESPACE::text::detail {

// The text after utf8proc's `steps`; itself if it is not UTF-8.
SOMA_INLINE std::string mapped(std::string_view text, int steps) {
  utf8proc_uint8_t* found = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 static_cast<utf8proc_ssize_t>(text.size()), &found,
                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | steps));
  if (size < 0) return std::string(text);
  std::string result(reinterpret_cast<const char*>(found), static_cast<std::size_t>(size));
  std::free(found);
  return result;
}

SOMA_INLINE std::string folded(std::string_view text) {
  return mapped(text, UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD);
}

// "1.0" without its point and zeros; any other text is unchanged.
SOMA_INLINE std::string_view without_zeros(std::string_view text) {
  const std::size_t point = text.find('.');
  if (point == text.npos || point + 1 == text.size()) return text;
  if (text.find_first_not_of('0', point + 1) != text.npos) return text;
  const std::string_view whole = text.substr(0, point);
  const std::string_view digits = whole.substr(whole.starts_with('-') ? 1 : 0);
  const bool number = !digits.empty() && digits.find_first_not_of("0123456789") == digits.npos;
  return number ? whole : text;
}

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE std::string label_key(std::string_view label) {
  const std::string key = detail::mapped(visible_label(label), UTF8PROC_COMPOSE);
  const std::string folded = detail::folded(key);
  if (folded == "true" || folded == "false") return folded;
  return std::string(detail::without_zeros(key));
}

SOMA_INLINE LabelIndex::LabelIndex(std::span<const std::string> labels, bool merge)
    : labels_(labels.begin(), labels.end()), merge_(merge) {
  constexpr auto several = static_cast<std::size_t>(-1);
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    exact_.emplace(labels_[i], i);
    const auto [at, is_new] = keys_.emplace(label_key(labels_[i]), i);
    if (!is_new) at->second = several;
  }
  std::erase_if(keys_, [](const auto& entry) { return entry.second == several; });
}

SOMA_INLINE std::optional<std::size_t> LabelIndex::find(const std::string& label) const {
  if (const auto at = exact_.find(label); at != exact_.end()) return at->second;
  return merge_ ? same(label) : std::nullopt;
}

SOMA_INLINE std::string LabelIndex::wanted_for(const std::string& label) const {
  if (const auto known = same(label))
    return quoted_label(labels_[*known]) + ", which is the same, or merge_labels (--merge-labels)";
  return "one of " + std::to_string(labels_.size()) + " that are known" +
         (labels_.empty() ? "" : ", such as " + soma::quoted(labels_.front()));
}

SOMA_INLINE std::optional<std::size_t> LabelIndex::same(const std::string& label) const {
  const auto at = keys_.find(label_key(label));
  return at == keys_.end() ? std::nullopt : std::optional(at->second);
}

SOMA_INLINE std::size_t LabelCounter::add(const std::string& label, std::string_view file,
                                          std::uint64_t line) {
  const auto [at, is_new] = numbers_.try_emplace(label, labels_.size());
  if (is_new) {
    if (labels_.size() == most_)
      fail(error_id::text_label_count, operation_, "labels of " + soma::quoted(file),
           "more than " + std::to_string(most_),
           "at most that (max_labels), in the column of labels (--label-column)");
    labels_.push_back({.name = label, .file = std::string(file), .line = line});
  }
  ++labels_[at->second].rows;
  return at->second;
}

SOMA_INLINE void LabelCounter::add_class(const std::string& label, std::string_view file) {
  if (!numbers_.try_emplace(label, labels_.size()).second) return;
  labels_.push_back({.name = label, .file = std::string(file)});
}

SOMA_INLINE std::vector<std::string> LabelCounter::labels() const {
  std::vector<std::string> names;
  for (const Label& label : labels_) names.push_back(label.name);
  return names;
}

SOMA_INLINE auto LabelCounter::finish(const RowOptions& options) const -> Classes {
  check_count(options);
  const std::vector<std::size_t> spokesman = spokesmen(options.merge_labels);
  Classes classes;
  for (std::size_t i = 0; i < labels_.size(); ++i)
    if (spokesman[i] == i) classes.names.push_back(labels_[i].name);
  sort_labels(classes.names);
  classes.counts.resize(classes.names.size());
  std::unordered_map<std::string_view, std::size_t> index;
  for (const std::string& name : classes.names) index.emplace(name, index.size());
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    classes.of_number.push_back(index.at(labels_[spokesman[i]].name));
    classes.counts[classes.of_number.back()] += labels_[i].rows;
  }
  if (options.labels == data::LabelKind::one && classes.names.size() < 2)
    fail(error_id::text_one_class, operation_, "label of all rows",
         soma::quoted(classes.names.front()), "two labels at least");
  if (options.labels == data::LabelKind::several)
    check_label_separator(operation_, classes.names, options.label_separator);
  note_cases(classes, options);
  return classes;
}

SOMA_INLINE std::string LabelCounter::place(const Label& label) const {
  return quoted_label(label.name) + " (" +
         (label.line == 0 ? "header" : "line " + std::to_string(label.line)) + " of " +
         soma::quoted(label.file) + ")";
}

SOMA_INLINE std::vector<std::size_t> LabelCounter::spokesmen(bool merge) const {
  std::map<std::string, std::size_t> by_key;
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    keys.push_back(label_key(labels_[i].name));
    const auto [at, is_new] = by_key.emplace(keys.back(), i);
    if (is_new) continue;
    const Label &one = labels_[at->second], &other = labels_[i];
    if (!merge)
      fail(error_id::text_label_alike, operation_, "labels",
           place(one) + " and " + place(other) + ", which are the same to a reader",
           "one spelling of a class, or merge_labels (--merge-labels)");
    if (other.rows > one.rows || (other.rows == one.rows && other.name < one.name)) at->second = i;
  }
  std::vector<std::size_t> result;
  for (const std::string& key : keys) result.push_back(by_key.at(key));
  return result;
}

SOMA_INLINE void LabelCounter::note_cases(const Classes& classes, const RowOptions& options) const {
  if (options.notes == nullptr) return;
  std::map<std::string, std::size_t> seen;
  for (std::size_t i = 0; i < classes.names.size(); ++i) {
    const auto [at, is_new] = seen.emplace(detail::folded(classes.names[i]), i);
    if (is_new) continue;
    const auto first = [&](std::size_t index) {
      return place(labels_[numbers_.at(classes.names[index])]);
    };
    options.notes->push_back("labels " + first(at->second) + " and " + first(i) +
                             " differ by case, and are two classes");
  }
}

SOMA_INLINE void LabelCounter::check_count(const RowOptions& options) const {
  using data::LabelKind;
  if (!labels_.empty() || options.labels == LabelKind::number) return;
  fail(error_id::text_one_class, operation_, "labels of all rows", "none", "one label at least");
}

}  // namespace SOMA_NAMESPACE::text
