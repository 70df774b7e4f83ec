#pragma once
// The usual names of text and label columns in a header.

#include <soma/base/config.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

// The text without the spaces and tabs around it.
std::string_view trimmed(std::string_view text);

// True if there is nothing but ASCII white space: such a text has no answer.
bool is_blank(std::string_view text);

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

std::string lower_name(std::string_view cell);
bool is_one_of(std::string_view name, Names names);

// "reviewText" and "review_text_1" have the parts review and text (and 1). A cell with spaces has
// no parts, because it is more likely a text.
std::vector<std::string> parts_of_name(std::string_view cell);

// True if a cell of the first row is a usual name for such a column.
bool is_usual_name(std::string_view cell, Names names, Names more, Names parts);
bool is_text_name(std::string_view cell);
bool is_label_name(std::string_view cell);

// The index of the first field that is one of the names, in any case.
std::optional<std::size_t> find_name(Fields fields, Names names);
std::optional<std::size_t> find_name(Fields fields, Names names, Names more);

}  // namespace detail
}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/rows/impl/column_names.ipp>
#endif
