#pragma once
// Names of classes as people see them: invisible characters around a name do not belong to the
// name.

#include <soma/base/error.hpp>
#include <soma/text/utf8.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::text {

namespace detail {

// Spaces beyond ASCII: those with Unicode's property White_Space.
bool is_wide_space(char32_t point);
// Characters without width: joiners, marks of direction, a byte order mark, the soft hyphen. Tag
// characters of flags are visible.
bool is_invisible(char32_t point);

}  // namespace detail

// The label without the spaces, tabs and invisible characters around it. Invalid UTF-8 stays.
std::string_view trimmed_label(std::string_view label);

// The name with single spaces, and without invisible characters.
std::string visible_label(std::string_view label);

// The name in quotation marks, with numbers such as <U+00A0> for invisible characters.
std::string quoted_label(std::string_view label);

// Error text.label_separator: in rows with several labels, a label that evidently uses another
// separator.
void check_label_separator(std::string_view operation, std::span<const std::string> labels,
                           char separator);

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/rows/impl/label_names.ipp>
#endif
