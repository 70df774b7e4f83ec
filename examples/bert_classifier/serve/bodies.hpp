// What the bodies of POST /invocations hold, and those of the answers.
#pragma once

#include <soma/models/text_classifier.hpp>
#include <soma/text/columns.hpp>
#include <soma/text/record_reader.hpp>
#include <soma/text/utf8.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace bodies {

enum class Type { plain, json, csv };

inline constexpr std::string_view names[] = {"text/plain", "application/json", "text/csv"};

// Of a name in a header.
inline std::string lower_case(std::string_view name) {
  std::string result(name);
  for (char& letter : result)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter + 32);
  return result;
}

// Of the header Content-Type, whatever its parameters.
inline std::optional<Type> find_type(std::string_view header) {
  const std::string name = lower_case(soma::text::trimmed(header.substr(0, header.find(';'))));
  for (const Type type : {Type::plain, Type::json, Type::csv})
    if (name == names[static_cast<std::size_t>(type)]) return type;
  return std::nullopt;
}

[[noreturn]] inline void refuse(std::string_view given, std::string_view wanted) {
  soma::fail(soma::ErrorId{"serve.body"}, "POST /invocations", "the body", given, wanted);
}

// A text a line, also an empty one; the end of the last line may be left out.
inline std::vector<std::string> plain_texts(std::string_view body, std::size_t most) {
  std::vector<std::string> texts;
  while (!body.empty() && texts.size() < most) {
    const std::size_t end = body.find('\n');
    std::string& text = texts.emplace_back(body.substr(0, end));
    if (text.ends_with('\r')) text.pop_back();
    body.remove_prefix(end == body.npos ? body.size() : end + 1);
  }
  return texts;
}

// {"text": "..."}, or a list under "inputs" or "instances". Receives the events of the parser: a
// tree of the body would be many times as large.
class JsonTexts {
 public:
  using Json = nlohmann::json;

  static std::vector<std::string> read(std::string_view body, std::size_t most) {
    JsonTexts reader(most);
    const bool whole = Json::sax_parse(body.begin(), body.end(), &reader);
    if (reader.texts_.size() == most) return std::move(reader.texts_);
    if (!whole && reader.problem_.empty()) reader.refuse("no JSON");
    if (reader.problem_.empty() && reader.found_ != 1)
      reader.refuse("an object with " + std::to_string(reader.found_) + " of them");
    if (!reader.problem_.empty())
      bodies::refuse(reader.problem_,
                     "an object with one of \"text\": a string, \"inputs\" or \"instances\": a "
                     "list of strings");
    return std::move(reader.texts_);
  }

  // Called by the parser.
  bool start_object(std::size_t) { return depth_ == 0 ? enter() : other_value() && enter(); }
  bool end_object() { return leave(); }
  bool start_array(std::size_t) {
    const bool list = depth_ == 1 && (key_ == "inputs" || key_ == "instances");
    return list ? enter() : other_value() && enter();
  }
  bool end_array() { return leave(); }
  bool key(const std::string& name) {
    if (depth_ != 1) return true;
    const bool wanted = name == "text" || name == "inputs" || name == "instances";
    key_ = wanted ? name : std::string();
    found_ += wanted ? 1 : 0;
    return true;
  }
  bool string(std::string& value) {
    const std::size_t depth = key_ == "text" ? 1 : 2;
    if (depth_ != depth || key_.empty()) return other_value();
    texts_.push_back(std::move(value));
    return texts_.size() < most_;
  }
  bool number_unsigned(std::uint64_t) { return other_value(); }
  bool number_integer(std::int64_t) { return other_value(); }
  bool number_float(double, const std::string&) { return other_value(); }
  bool boolean(bool) { return other_value(); }
  bool null() { return other_value(); }
  bool binary(Json::binary_t&) { return other_value(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) {
    return refuse("no JSON");
  }

 private:
  explicit JsonTexts(std::size_t most) : most_(most) {}

  bool refuse(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }
  bool enter() {
    ++depth_;
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }
  // One that is no text, which others of the object may be.
  bool other_value() {
    if (depth_ == 0) return refuse("no JSON object");
    if (key_.empty()) return true;
    if (depth_ > 1)
      return refuse("an object whose \"" + key_ + "\" holds something else than strings");
    return refuse("an object whose \"" + key_ + "\" is no " + (key_ == "text" ? "string" : "list"));
  }

  std::size_t most_;
  std::vector<std::string> texts_;
  std::string problem_;  // of the first event that was refused
  std::string key_;      // of the object, where it is one of the three
  std::size_t depth_ = 0;
  int found_ = 0;
};

// RFC 4180 without a header: the first column. Blank lines are no rows.
inline std::vector<std::string> csv_texts(std::string_view body, std::size_t most) {
  std::vector<std::string> texts;
  soma::text::RecordReader rows(soma::text::ByteSource::of_memory("serve", body), body.size());
  soma::text::Record row;
  try {
    while (texts.size() < most && rows.next_csv(row)) {
      if (row.problem) refuse(row.problem->given, row.problem->wanted);
      texts.push_back(std::move(row.fields.front()));
    }
  } catch (const soma::Error& error) {
    if (error.id() == soma::ErrorId{"serve.body"}) throw;
    refuse(error.given(), error.wanted());
  }
  return texts;
}

// At least one. Error serve.body.
inline std::vector<std::string> texts(Type type, std::string_view body, std::size_t most) {
  if (body.empty()) refuse("empty", "at least one text");
  if (const std::size_t at = soma::text::find_invalid_utf8(body); at != body.npos)
    refuse("not UTF-8 at byte " + std::to_string(at + 1), "UTF-8 without zero bytes");
  std::vector<std::string> found = type == Type::plain  ? plain_texts(body, most)
                                   : type == Type::json ? JsonTexts::read(body, most)
                                                        : csv_texts(body, most);
  if (found.empty()) refuse("without a text", "at least one text");
  return found;
}

// Of a string or a number. What holds others is put together by hand, as a tree needs memory even
// to be taken away.
template <class Value>
std::string json_value(const Value& value) {
  return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

inline std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string field(1, '"');
  for (const char letter : text) field.append(letter == '"' ? 2 : 1, letter);
  return field += '"';
}

// A number, or the labels that a text has and the probability of each label.
inline void append_json(std::string& body, const soma::models::Prediction& prediction,
                        const std::vector<std::string>& labels) {
  if (prediction.kind == soma::data::LabelKind::number) {
    body.append("{\"number\":").append(json_value(prediction.number)).append("}");
    return;
  }
  body.append("{\"labels\":[");
  for (const std::string& label : prediction.labels)
    body.append(body.ends_with('[') ? "" : ",").append(json_value(label));
  body.append("],\"probabilities\":{");
  for (std::size_t i = 0; i < labels.size(); ++i)
    body.append(i == 0 ? "" : ",")
        .append(json_value(labels[i]))
        .append(":")
        .append(json_value(prediction.probabilities[i]));
  body.append("}}");
}
// Labels with their probabilities, or a number.
inline std::string csv_row(const soma::models::Prediction& prediction) {
  std::string row = to_string(prediction);
  if (prediction.kind == soma::data::LabelKind::number) return row;
  std::string fields;
  for (std::size_t begin = 0; begin <= row.size();) {
    const std::size_t end = (std::min)(row.find('\t', begin), row.size());
    fields.append(begin == 0 ? "" : ",").append(csv_field(row.substr(begin, end - begin)));
    begin = end + 1;
  }
  return fields;
}

// In the order of the texts.
inline std::string answer(Type type, const std::vector<soma::models::Prediction>& predictions,
                          const std::vector<std::string>& labels) {
  std::string body;
  if (type == Type::json) {
    body = "{\"predictions\":[";
    for (const auto& prediction : predictions) {
      body.append(body.ends_with('[') ? "" : ",");
      if (prediction.kind != soma::data::LabelKind::one) {
        append_json(body, prediction, labels);
        continue;
      }
      body.append("{\"label\":");
      body.append(json_value(prediction.label)).append(",\"probability\":");
      body.append(json_value(static_cast<float>(prediction.probability)));
      body.append(",\"probabilities\":{");
      for (std::size_t i = 0; i < labels.size(); ++i)
        body.append(i == 0 ? "" : ",")
            .append(json_value(labels[i]))
            .append(":")
            .append(json_value(prediction.probabilities[i]));
      body.append("}}");
    }
    return body.append("]}\n");
  }
  for (const auto& prediction : predictions) {
    if (type == Type::plain)
      body.append(to_string(prediction)).push_back('\n');
    else
      body.append(csv_row(prediction)).append("\r\n");
  }
  return body;
}

}  // namespace bodies
