// Any bytes as a precision's JSON: refused, or one that is valid, written and read the same.

#include <soma/io/precision_json.hpp>

#include "check.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const soma::Precision precision = soma::precision_from_json(text);
    soma::validate(precision, "input");
    soma::Precision again = soma::precision_from_json(to_json(precision));
    // A name that is no UTF-8 is written with replacements.
    again.name = precision.name;
    soma_fuzz::check(again == precision, "reads the same");
  } catch (const soma::Error&) {
  }
  return 0;
}
