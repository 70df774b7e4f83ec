// Any bytes as the body of a request, the first choosing its type: refused, or texts, which come
// back from a body that is made of them.

#include "bert_classifier/serve/bodies.hpp"
#include "check.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using bodies::Type;
  if (size == 0) return 0;
  const Type type = static_cast<Type>(data[0] % 3);
  const std::size_t most = data[0] < 128 ? 1000 : 2;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  static_cast<void>(bodies::find_type(body));
  try {
    const std::vector<std::string> texts = bodies::texts(type, body, most);
    soma_fuzz::check(!texts.empty() && texts.size() <= most, "as many as are asked for");
    std::string json = "{\"inputs\":[", csv, plain;
    bool is_plain = true, is_csv = true;
    for (const std::string& text : texts) {
      const bool valid = soma::text::find_invalid_utf8(text) == std::string_view::npos;
      // JSON can name a zero byte.
      soma_fuzz::check(valid || type == Type::json, "texts are UTF-8");
      json.append(json.ends_with('[') ? "" : ",").append(bodies::json_value(text));
      csv.append(bodies::csv_field(text)).append("\r\n");
      plain.append(text).append("\n");
      is_plain = is_plain && valid && text.find_first_of("\r\n") == text.npos;
      is_csv = is_csv && valid && !text.empty();
    }
    json.append("]}");
    soma_fuzz::check(bodies::texts(Type::json, json, most) == texts, "the same as JSON");
    is_csv = is_csv && !csv.starts_with("\xEF\xBB\xBF");  // which a CSV may have in front
    if (is_csv) soma_fuzz::check(bodies::texts(Type::csv, csv, most) == texts, "the same as CSV");
    if (is_plain)
      soma_fuzz::check(bodies::texts(Type::plain, plain, most) == texts, "the same as lines");
  } catch (const soma::Error&) {
  }
  return 0;
}
