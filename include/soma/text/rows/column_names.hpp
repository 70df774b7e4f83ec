#pragma once
// The usual names of text and label columns in a header.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace soma::text {

// The text without the spaces and tabs around it.
inline std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

namespace detail {

using Fields = std::span<const std::string>;
using Names = std::span<const std::string_view>;

// The names by which columns are found in a table with many columns, likelier names first; then
// further usual names.
inline constexpr std::array<std::string_view, 5> text_names = {"text", "sentence", "review",
                                                               "content", "comment"};
inline constexpr std::array<std::string_view, 4> label_names = {"label", "class", "category",
                                                                "sentiment"};
inline constexpr std::array<std::string_view, 27> more_text_names = {
    "texts",   "sentences", "reviews",  "contents", "comments",  "tweet",      "tweets",
    "message", "messages",  "document", "doc",      "utterance", "body",       "headline",
    "phrase",  "post",      "question", "query",    "title",     "article",    "sms",
    "email",   "input",     "premise",  "abstract", "summary",   "description"};
inline constexpr std::array<std::string_view, 27> more_label_names = {
    "labels", "classes", "categories", "sentiments", "target",   "targets", "topic",
    "topics", "tag",     "tags",       "intent",     "intents",  "emotion", "emotions",
    "rating", "ratings", "score",      "scores",     "star",     "stars",   "polarity",
    "y",      "genre",   "stance",     "outcome",    "label_id", "is_spam"};
// Parts of names such as airline_sentiment or reviewText.
inline constexpr std::array<std::string_view, 6> text_parts = {"text",    "sentence", "review",
                                                               "comment", "tweet",    "message"};
inline constexpr std::array<std::string_view, 6> label_parts = {"label",    "class",  "sentiment",
                                                                "category", "target", "rating"};

inline std::string lower_name(std::string_view cell) {
  std::string name(trimmed(cell));
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return name;
}
inline bool is_one_of(std::string_view name, Names names) {
  return std::ranges::find(names, name) != names.end();
}

// "reviewText" and "review_text_1" have the parts review and text (and 1). A cell with spaces has
// no parts, because it is more likely a text.
inline std::vector<std::string> parts_of_name(std::string_view cell) {
  cell = trimmed(cell);
  std::vector<std::string> parts{{}};
  if (cell.find(' ') != std::string_view::npos) return {};
  const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t i = 0; i < cell.size(); ++i) {
    const bool splits = cell[i] == '_' || cell[i] == '-' || cell[i] == '.';
    const bool begins = i > 0 && ((is_upper(cell[i]) && !is_upper(cell[i - 1])) ||
                                  (is_digit(cell[i]) && !is_digit(cell[i - 1])));
    if (splits || begins) parts.emplace_back();
    if (!splits) parts.back() += lower_name(cell.substr(i, 1));
  }
  return parts;
}

// True if a cell of the first row is a usual name for such a column.
inline bool is_usual_name(std::string_view cell, Names names, Names more, Names parts) {
  const std::string name = lower_name(cell);
  if (is_one_of(name, names) || is_one_of(name, more)) return true;
  return std::ranges::any_of(parts_of_name(cell),
                             [&](const std::string& part) { return is_one_of(part, parts); });
}
inline bool is_text_name(std::string_view cell) {
  return is_usual_name(cell, text_names, more_text_names, text_parts);
}
inline bool is_label_name(std::string_view cell) {
  return is_usual_name(cell, label_names, more_label_names, label_parts);
}

// The index of the first field that is one of the names, in any case.
inline std::optional<std::size_t> find_name(Fields fields, Names names) {
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (is_one_of(lower_name(fields[i]), names)) return i;
  return std::nullopt;
}
inline std::optional<std::size_t> find_name(Fields fields, Names names, Names more) {
  const auto found = find_name(fields, names);
  return found ? found : find_name(fields, more);
}

}  // namespace detail
}  // namespace soma::text
