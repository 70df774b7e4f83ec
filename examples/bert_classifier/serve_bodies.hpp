// What the bodies of POST /invocations hold, and those of the answers.
#pragma once

#include <soma/models/text_classifier.hpp>
#include <soma/text/columns.hpp>
#include <soma/text/record_reader.hpp>
#include <soma/text/utf8.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace bodies {

enum class Type { plain, json, csv };

inline constexpr std::string_view names[] = {"text/plain", "application/json", "text/csv"};

// Of the header Content-Type, whatever its parameters.
inline std::optional<Type> find_type(std::string_view header) {
  std::string name(soma::text::trimmed(header.substr(0, header.find(';'))));
  for (char& letter : name)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter + 32);
  for (const Type type : {Type::plain, Type::json, Type::csv})
    if (name == names[static_cast<std::size_t>(type)]) return type;
  return std::nullopt;
}

[[noreturn]] inline void refuse(std::string_view given, std::string_view wanted) {
  soma::fail(soma::ErrorId{"serve.body"}, "POST /invocations", "the body", given, wanted);
}

// A text a line, also an empty one; the end of the last line may be left out.
inline std::vector<std::string> plain_texts(std::string_view body) {
  std::vector<std::string> texts;
  while (!body.empty()) {
    const std::size_t end = body.find('\n');
    std::string& text = texts.emplace_back(body.substr(0, end));
    if (text.ends_with('\r')) text.pop_back();
    body.remove_prefix(end == body.npos ? body.size() : end + 1);
  }
  return texts;
}

// {"text": "..."}, or a list under "inputs" or "instances".
inline std::vector<std::string> json_texts(std::string_view body) {
  constexpr std::string_view wanted =
      "an object with one of \"text\": a string, \"inputs\" or \"instances\": a list of strings";
  const auto json = nlohmann::json::parse(body, nullptr, false);
  if (json.is_discarded()) refuse("no JSON", wanted);
  if (!json.is_object()) refuse("no JSON object", wanted);
  std::vector<std::string> texts;
  int found = 0;
  for (const char* key : {"text", "inputs", "instances"}) {
    const auto entry = json.find(key);
    if (entry == json.end()) continue;
    ++found;
    const bool single = key == std::string_view("text");
    if (single ? !entry->is_string() : !entry->is_array())
      refuse("an object whose \"" + std::string(key) + "\" is no " + (single ? "string" : "list"),
             wanted);
    if (single)
      texts.push_back(entry->get<std::string>());
    else
      for (const auto& element : *entry) {
        if (!element.is_string())
          refuse("an object whose \"" + std::string(key) + "\" holds something else than strings",
                 wanted);
        texts.push_back(element.get<std::string>());
      }
  }
  if (found != 1) refuse("an object with " + std::to_string(found) + " of them", wanted);
  return texts;
}

// RFC 4180 without a header: the first column. Blank lines are no rows.
inline std::vector<std::string> csv_texts(std::string_view body) {
  std::vector<std::string> texts;
  soma::text::RecordReader rows(soma::text::ByteSource::of_memory("serve", body), body.size());
  soma::text::Record row;
  try {
    while (rows.next_csv(row)) {
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
inline std::vector<std::string> texts(Type type, std::string_view body) {
  if (body.empty()) refuse("empty", "at least one text");
  if (const std::size_t at = soma::text::find_invalid_utf8(body); at != body.npos)
    refuse("not UTF-8 at byte " + std::to_string(at + 1), "UTF-8 without zero bytes");
  std::vector<std::string> found = type == Type::plain  ? plain_texts(body)
                                   : type == Type::json ? json_texts(body)
                                                        : csv_texts(body);
  if (found.empty()) refuse("without a text", "at least one text");
  return found;
}

inline std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string field(1, '"');
  for (const char letter : text) field.append(letter == '"' ? 2 : 1, letter);
  return field += '"';
}

// In the order of the texts.
inline std::string answer(Type type, const std::vector<soma::models::Prediction>& predictions,
                          const std::vector<std::string>& labels) {
  std::string body;
  if (type == Type::json) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& prediction : predictions) {
      auto of_labels = nlohmann::ordered_json::object();
      for (std::size_t i = 0; i < labels.size(); ++i)
        of_labels[labels[i]] = prediction.probabilities[i];
      list.push_back({{"label", prediction.label},
                      {"probability", static_cast<float>(prediction.probability)},
                      {"probabilities", std::move(of_labels)}});
    }
    return nlohmann::ordered_json{{"predictions", std::move(list)}}.dump() + "\n";
  }
  for (const auto& prediction : predictions) {
    const std::string line = to_string(prediction);
    if (type == Type::plain)
      body.append(line).push_back('\n');
    else
      body.append(csv_field(prediction.label))
          .append(",")
          .append(line, prediction.label.size() + 1)
          .append("\r\n");
  }
  return body;
}

}  // namespace bodies
