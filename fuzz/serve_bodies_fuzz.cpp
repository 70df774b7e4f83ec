// Any bytes as the body of a request, the first choosing its type and the form that the model
// wants: refused, or texts or pairs, which come back from a body that is made of them.

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
  soma::models::InputForm form;  // either form
  if (data[0] / 3 % 3 == 1) form.pairs = false;
  if (data[0] / 3 % 3 == 2) form.pairs = true;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  static_cast<void>(bodies::find_type(body));
  try {
    const bodies::Texts found = bodies::texts(type, body, form, most);
    soma_fuzz::check(found.size() != 0 && found.size() <= most, "as many as are asked for");
    const bool pairs = !found.pairs.empty();
    soma_fuzz::check(!pairs || found.pairs.size() == found.size(), "a pair of each text");
    soma_fuzz::check(!form.pairs || *form.pairs == pairs, "the form that the model wants");
    const std::vector<std::string>& texts = found.texts;
    form.pairs = pairs;
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
    if (pairs) {
      json = "{\"inputs\":[";
      for (std::size_t i = 0; i < texts.size(); ++i)
        json.append(i == 0 ? "" : ",")
            .append("{\"text\":" + bodies::json_value(texts[i]) +
                    ",\"text_pair\":" + bodies::json_value(found.pairs[i]) + "}");
      const bodies::Texts again = bodies::texts(Type::json, json + "]}", form, most);
      soma_fuzz::check(again.texts == texts && again.pairs == found.pairs,
                       "the same pairs as JSON");
      return 0;
    }
    const auto again = [&](Type as, const std::string& made) {
      return bodies::texts(as, made, form, most, bodies::Header::absent).texts;
    };
    soma_fuzz::check(again(Type::json, json) == texts, "the same as JSON");
    is_csv = is_csv && !csv.starts_with("\xEF\xBB\xBF");  // which a CSV may have in front
    if (is_csv) soma_fuzz::check(again(Type::csv, csv) == texts, "the same as CSV");
    if (is_plain) soma_fuzz::check(again(Type::plain, plain) == texts, "the same as lines");
  } catch (const soma::Error&) {
  }
  return 0;
}
