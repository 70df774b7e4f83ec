// Any bytes as a record's JSON: refused, or a record that is written and read the same.

#include <soma/io/record_json.hpp>

#include "check.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const soma::Record record = soma::record_from_json(text, "input");
    const std::string line = to_json(record);
    const soma::Record again = soma::record_from_json(line, "line");
    soma_fuzz::check(line.find('\n') == std::string::npos, "one line");
    // Not value by value: a 0 may have been a -0.
    soma_fuzz::check(to_json(again) == line, "reads the same");
    for (const auto& [name, value] : record.entries())
      soma_fuzz::check(to_text(again.at(name)) == to_text(value), "every name is found");
  } catch (const soma::Error&) {
  }
  return 0;
}
