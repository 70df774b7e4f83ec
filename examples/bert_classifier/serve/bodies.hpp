// The bodies of POST /invocations, and of its answers.
#pragma once

#include <soma/models/text_classifier.hpp>
#include <soma/text/columns.hpp>
#include <soma/text/record_reader.hpp>
#include <soma/text/utf8.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace bodies {

enum class Type { plain, json, csv, json_lines };

inline constexpr Type types[] = {Type::plain, Type::json, Type::csv, Type::json_lines};
inline constexpr std::string_view names[] = {"text/plain", "application/json", "text/csv",
                                             "application/jsonlines"};
inline constexpr std::string_view name_of(Type type) {
  return names[static_cast<std::size_t>(type)];
}

// Lower case for ASCII letters, to compare names.
inline std::string lower_case(std::string_view name) {
  std::string result(name);
  for (char& letter : result)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter + 32);
  return result;
}

// The type of a header Content-Type, without its parameters.
inline std::optional<Type> find_type(std::string_view header) {
  const std::string name = lower_case(soma::text::trimmed(header.substr(0, header.find(';'))));
  for (const Type type : types)
    if (name == name_of(type)) return type;
  for (const char* other : {"application/x-jsonlines", "application/jsonl", "application/x-ndjson"})
    if (name == other) return Type::json_lines;
  return std::nullopt;
}
// The value of a parameter after a type, in lower case and without quotes; empty if there is none.
inline std::string parameter(std::string_view header, std::string_view name) {
  for (std::size_t at = header.find(';'); at != header.npos; at = header.find(';')) {
    header.remove_prefix(at + 1);
    const std::string_view part = header.substr(0, header.find(';'));
    const std::size_t middle = part.find('=');
    if (middle == part.npos || lower_case(soma::text::trimmed(part.substr(0, middle))) != name)
      continue;
    std::string value = lower_case(soma::text::trimmed(part.substr(middle + 1)));
    if (value.size() > 1 && value.front() == '"' && value.back() == '"')
      value = value.substr(1, value.size() - 2);
    return value;
  }
  return {};
}
// How much a client wants answers of the type, 0 to 1, by its header Accept (RFC 9110, 12.5.1): the
// most specific name counts.
inline double wish_for(std::string_view header, std::string_view type) {
  const std::string group = std::string(type.substr(0, type.find('/'))) + "/*";
  int closest = -1;
  double wish = 0;
  while (true) {
    const std::string_view part = header.substr(0, header.find(','));
    const std::string name = lower_case(soma::text::trimmed(part.substr(0, part.find(';'))));
    const int close = name == type ? 2 : name == group ? 1 : name == "*/*" ? 0 : -1;
    if (close > closest) {
      const std::string weight = parameter(part, "q");
      closest = close;
      wish = weight.empty() ? 1 : std::strtod(weight.c_str(), nullptr);
    }
    if (part.size() == header.size()) return wish;
    header.remove_prefix(part.size() + 1);
  }
}
// The type of the answer to a body: the body's type, unless the client prefers another one. Not set
// if the client accepts none.
inline std::optional<Type> find_answer_type(std::string_view accept, Type body) {
  if (soma::text::trimmed(accept).empty()) return body;
  Type best = body;
  double most = wish_for(accept, name_of(body));
  for (const Type type : types)
    if (const double wish = wish_for(accept, name_of(type)); wish > most) {
      best = type;
      most = wish;
    }
  if (!(most > 0)) return std::nullopt;
  return best;
}

[[noreturn]] inline void refuse(std::string_view given, std::string_view wanted) {
  soma::fail(soma::ErrorId{"serve.body"}, "POST /invocations", "the body", given, wanted);
}

// One text a line; empty lines are texts too; the end of the last line is optional.
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

// Accepts {"text": "..."}, {"inputs": "..."}, or a list under "inputs" or "instances". Reads the
// parser's events, because a tree would need many times the memory of the body.
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
                     "an object with one of \"text\": a string, \"inputs\": a string or a list "
                     "of strings, \"instances\": such a list");
    return std::move(reader.texts_);
  }

  // The parser calls these functions.
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
    const bool taken =
        !key_.empty() && (depth_ == 1 ? key_ != "instances" : depth_ == 2 && key_ != "text");
    if (!taken) return other_value();
    texts_.push_back(std::move(value));
    return texts_.size() < most_;
  }
  bool number_unsigned(std::uint64_t) { return other_value(); }
  bool number_integer(std::int64_t) { return other_value(); }
  bool number_float(double, const std::string&) { return other_value(); }
  bool boolean(bool) { return other_value(); }
  bool null() { return other_value(); }
  bool binary(Json::binary_t&) { return other_value(); }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) {
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
  // A value that is no text, which other members of the object may have.
  bool other_value() {
    if (depth_ == 0) return refuse("no JSON object");
    if (key_.empty()) return true;
    if (depth_ > 1)
      return refuse("an object whose \"" + key_ + "\" holds something else than strings");
    return refuse("an object whose \"" + key_ + "\" is no " + (key_ == "text" ? "string" : "list"));
  }

  std::size_t most_;
  std::vector<std::string> texts_;
  std::string problem_;  // why the first event was refused
  std::string key_;      // the object's current key, if it is one of the three
  std::size_t depth_ = 0;
  int found_ = 0;
};

// An object with one text in each line; blank lines are ignored.
inline std::vector<std::string> json_lines_texts(std::string_view body, std::size_t most) {
  std::vector<std::string> texts;
  for (std::size_t line = 1; !body.empty() && texts.size() < most; ++line) {
    const std::string_view text = body.substr(0, body.find('\n'));
    body.remove_prefix((std::min)(body.size(), text.size() + 1));
    if (text.find_first_not_of(" \t\r") == text.npos) continue;
    const std::string place = "with line " + std::to_string(line) + " ";
    try {
      std::vector<std::string> found = JsonTexts::read(text, 2);
      if (found.size() != 1) refuse(place + "of several texts", "one text in each line");
      texts.push_back(std::move(found.front()));
    } catch (const soma::Error& error) {
      if (error.given().starts_with(place)) throw;
      refuse(place + "being " + std::string(error.given()), error.wanted());
    }
  }
  return texts;
}

// RFC 4180: the first column, or the column that a header calls a text. Blank lines are ignored.
inline std::vector<std::string> csv_texts(std::string_view body, std::size_t most, bool header) {
  std::vector<std::string> texts;
  std::size_t column = 0;
  soma::text::RecordReader rows(soma::text::ByteSource::of_memory("serve", body), body.size());
  soma::text::Record row;
  try {
    while (texts.size() < most && rows.next_csv(row)) {
      if (row.problem) refuse(row.problem->given, row.problem->wanted);
      if (std::exchange(header, false)) {
        namespace names = soma::text::detail;
        column = names::find_name(row.fields, names::text_names).value_or(0);
        continue;
      }
      if (column >= row.fields.size())
        refuse("with " + std::to_string(row.fields.size()) + " columns in line " +
                   std::to_string(row.line),
               "a text in column " + std::to_string(column + 1) + ", as the header has it");
      texts.push_back(std::move(row.fields[column]));
    }
  } catch (const soma::Error& error) {
    if (error.id() == soma::ErrorId{"serve.body"}) throw;
    refuse(error.given(), error.wanted());
  }
  return texts;
}

// Returns at least one text. `header`: true if rows of CSV begin with names of columns. Error
// serve.body.
inline std::vector<std::string> texts(Type type, std::string_view body, std::size_t most,
                                      bool header = false) {
  if (body.empty()) refuse("empty", "at least one text");
  if (const std::size_t at = soma::text::find_invalid_utf8(body); at != body.npos)
    refuse("not UTF-8 at byte " + std::to_string(at + 1), "UTF-8 without zero bytes");
  std::vector<std::string> found = type == Type::plain  ? plain_texts(body, most)
                                   : type == Type::json ? JsonTexts::read(body, most)
                                   : type == Type::csv  ? csv_texts(body, most, header)
                                                        : json_lines_texts(body, most);
  if (found.empty()) refuse("without a text", "at least one text");
  return found;
}

// The JSON of a string or a number. Larger values are assembled by hand, because a tree needs
// memory even to be destroyed.
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

// A number, or the labels of a text, or its class; then labels with their probabilities.
inline void append_json(std::string& body, const soma::models::Prediction& prediction,
                        const std::vector<std::string>& labels) {
  if (prediction.kind == soma::data::LabelKind::number) {
    body.append("{\"number\":").append(json_value(prediction.number)).append("}");
    return;
  }
  if (prediction.kind == soma::data::LabelKind::one) {
    body.append("{\"label\":").append(json_value(prediction.label)).append(",\"probability\":");
    body.append(json_value(static_cast<float>(prediction.probability)));
  } else {
    body.append("{\"labels\":[");
    for (const std::string& label : prediction.labels)
      body.append(body.ends_with('[') ? "" : ",").append(json_value(label));
    body.append("]");
  }
  body.append(",\"probabilities\":{");
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

// The answer in the order of the texts.
inline std::string answer(Type type, const std::vector<soma::models::Prediction>& predictions,
                          const std::vector<std::string>& labels) {
  std::string body;
  if (type == Type::json) {
    body = "{\"predictions\":[";
    for (const auto& prediction : predictions) {
      body.append(body.ends_with('[') ? "" : ",");
      append_json(body, prediction, labels);
    }
    return body.append("]}\n");
  }
  if (type == Type::json_lines) {
    for (const auto& prediction : predictions) {
      append_json(body, prediction, labels);
      body.push_back('\n');
    }
    return body;
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
