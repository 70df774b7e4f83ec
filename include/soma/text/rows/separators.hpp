#pragma once
// Detects the character that separates the columns of a table, from its first lines.

#include <soma/base/config.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace SOMA_NAMESPACE::text {

constexpr std::string_view separator_name(char separator) {
  switch (separator) {
    case '\t':
      return "tabs";
    case ',':
      return "commas";
    case ';':
      return "semicolons";
    case '|':
      return "vertical bars";
    default:
      return "another character";
  }
}

// The separator that a table evidently has instead of `own`: each record at the beginning of `text`
// has the same number of it as the first, and less than half of the records have the same number of
// `own`. 0: there is none. `quotes`: separators within quotation marks do not count. `whole`: the
// text is not cut off.
char evident_separator(std::string_view text, bool whole, char own, bool quotes);

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/rows/impl/separators.ipp>
#endif
