// The bodies of POST /invocations, and of its answers.
#pragma once

#include "bert_classifier/serve/batcher.hpp"
#include "bert_classifier/serve/json_texts.hpp"
#include "bert_classifier/serve/texts.hpp"

#include <soma/base/fixed.hpp>
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
#include <variant>
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

// One text a line, or two texts with a tab between; empty lines are texts too; the end of the last
// line is optional.
inline void plain_texts(std::string_view body, TextCollector& texts) {
  for (std::size_t line = 1; !body.empty() && !texts.full(); ++line) {
    const std::size_t end = body.find('\n');
    std::string text(body.substr(0, end));
    if (text.ends_with('\r')) text.pop_back();
    body.remove_prefix(end == body.npos ? body.size() : end + 1);
    const std::string place = " in line " + std::to_string(line);
    if (texts.form().pairs != true) {
      texts.add(std::move(text), place);
      continue;
    }
    const std::size_t tab = text.find('\t');
    if (tab == text.npos || text.find('\t', tab + 1) != text.npos)
      refuse("with no pair of texts" + place, "a text, a tab and a text: the model reads pairs");
    texts.add(text.substr(0, tab), text.substr(tab + 1), place);
  }
}

// An object with one text or pair in each line; blank lines are ignored.
inline void json_lines_texts(std::string_view body, TextCollector& texts) {
  for (std::size_t line = 1; !body.empty() && !texts.full(); ++line) {
    const std::string_view text = body.substr(0, body.find('\n'));
    body.remove_prefix((std::min)(body.size(), text.size() + 1));
    if (text.find_first_not_of(" \t\r") == text.npos) continue;
    const std::string place = " in line " + std::to_string(line);
    const std::size_t before = texts.size();
    JsonTexts::read(text, texts, place);
    if (texts.size() != before + 1)
      refuse("with " + std::to_string(texts.size() - before) + " texts" + place,
             "one text, or one pair, in each line");
  }
}

// The first row of CSV: names of columns or texts. detect: names, if one of them is "inputs", as of
// clients of hosting services, or for pairs "text" and "text_pair".
enum class Header { detect, present, absent };

// Finds the texts in rows of CSV (RFC 4180): in the columns that a header names, or in rows of one
// text, or of two for pairs.
class CsvColumns {
 public:
  explicit CsvColumns(const soma::models::InputForm& form) : form_(form) {}

  // True if the first row names columns.
  bool is_header(const std::vector<std::string>& row, Header header) const {
    if (header != Header::detect) return header == Header::present;
    return find(row, "inputs") ||
           (form_.pairs != false && find(row, "text") && find(row, "text_pair"));
  }
  // Error serve.body: no name of a text.
  void take_header(const std::vector<std::string>& row) {
    count_ = row.size();
    const soma::text::KnownColumns& known = form_.columns;
    if (known.named)
      for (const std::string& name : known.texts)
        if (const auto column = find(row, name)) texts_.push_back(*column);
    if (texts_.size() != known.texts.size()) texts_.clear();
    namespace names = soma::text::detail;
    if (texts_.empty())
      if (const auto column = find(row, "inputs")) texts_.push_back(*column);
    if (texts_.empty())
      if (const auto column = names::find_name(row, names::text_names)) texts_.push_back(*column);
    if (form_.pairs != false) {
      pair_ = known.pair.empty() ? std::nullopt : find(row, known.pair);
      if (!pair_) pair_ = find(row, "text_pair");
    }
    const std::size_t wanted = form_.pairs == true ? 2 : 1;
    if (texts_.empty() && !pair_ && count_ == wanted) {
      texts_ = {0};
      if (form_.pairs == true) pair_ = 1;
    } else if (form_.pairs == true && texts_.size() == 1 && !pair_ && count_ == 2) {
      pair_ = 1 - texts_.front();
    }
    if (texts_.empty() || (form_.pairs == true && !pair_))
      refuse("with a header of " + std::to_string(count_) + " columns, none of which is known",
             form_.pairs == true ? "the names text and text_pair, or those of the training rows"
                                 : "one column, or the name inputs, text or that of the training "
                                   "rows");
  }
  // Error serve.body: more or fewer columns than the model wants, or the header has.
  void add(soma::text::Record& row, TextCollector& texts) {
    std::vector<std::string>& fields = row.fields;
    const std::string place = " in line " + std::to_string(row.line);
    if (count_ == 0) {
      const bool pair = fields.size() == 2 && form_.pairs != false;
      if (!pair && (fields.size() != 1 || form_.pairs == true))
        refuse("with " + std::to_string(fields.size()) + " columns" + place,
               form_.pairs == true
                   ? "two columns, a pair of texts"
                   : "one text, in quotes if it has commas; or a header that names its column "
                     "(Content-Type: text/csv; header=present)");
      if (pair) return texts.add(std::move(fields[0]), std::move(fields[1]), place);
      return texts.add(std::move(fields[0]), place);
    }
    if (fields.size() != count_)
      refuse("with " + std::to_string(fields.size()) + " columns" + place,
             std::to_string(count_) + ", as the header has");
    std::string text = std::move(fields[texts_.front()]);
    for (std::size_t i = 1; i < texts_.size(); ++i) {
      const std::string& part = fields[texts_[i]];
      if (!part.empty()) text.append(text.empty() ? "" : " ").append(part);
    }
    if (pair_) return texts.add(std::move(text), std::move(fields[*pair_]), place);
    texts.add(std::move(text), place);
  }

 private:
  static std::optional<std::size_t> find(const std::vector<std::string>& row,
                                         std::string_view name) {
    for (std::size_t i = 0; i < row.size(); ++i)
      if (soma::text::trimmed(row[i]) == name) return i;
    return std::nullopt;
  }

  const soma::models::InputForm& form_;
  std::size_t count_ = 0;  // columns of the header; 0: there is none
  std::vector<std::size_t> texts_;
  std::optional<std::size_t> pair_;
};

// Blank lines are ignored.
inline void csv_texts(std::string_view body, TextCollector& texts, Header header) {
  CsvColumns columns(texts.form());
  soma::text::RecordReader rows(soma::text::ByteSource::of_memory("serve", body), body.size());
  soma::text::Record row;
  bool first = true;
  try {
    while (!texts.full() && rows.next_csv(row)) {
      if (row.problem) refuse(row.problem->given, row.problem->wanted);
      if (std::exchange(first, false) && columns.is_header(row.fields, header))
        columns.take_header(row.fields);
      else
        columns.add(row, texts);
    }
  } catch (const soma::Error& error) {
    if (error.id() == soma::ErrorId{"serve.body"}) throw;
    refuse(error.given(), error.wanted());
  }
}

// Returns at least one text. Error serve.body.
inline Texts texts(Type type, std::string_view body, const soma::models::InputForm& form,
                   std::size_t most, Header header = Header::detect) {
  if (body.empty()) refuse("empty", "at least one text");
  if (const std::size_t at = soma::text::find_invalid_utf8(body); at != body.npos)
    refuse("not UTF-8 at byte " + std::to_string(at + 1), "UTF-8 without zero bytes");
  TextCollector found(form, most);
  if (type == Type::plain)
    plain_texts(body, found);
  else if (type == Type::json)
    JsonTexts::read(body, found);
  else if (type == Type::csv)
    csv_texts(body, found, header);
  else
    json_lines_texts(body, found);
  return found.take();
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

// As embed prints it.
inline std::string vector_row(const std::vector<float>& vector, std::string_view between) {
  std::string row;
  for (const float number : vector)
    row.append(row.empty() ? "" : between).append(soma::float_text(number));
  return row;
}

inline void append_json(std::string& body, const Answer& answer,
                        const std::vector<std::string>& labels) {
  if (const auto* vector = std::get_if<std::vector<float>>(&answer))
    body.append("[").append(vector_row(*vector, ",")).append("]");
  else
    append_json(body, std::get<soma::models::Prediction>(answer), labels);
}

// The answer in the order of the texts. `labels`: those of a classifier.
inline std::string answer(Type type, const std::vector<Answer>& answers,
                          const std::vector<std::string>& labels) {
  std::string body;
  if (type == Type::json) {
    const bool vectors = !answers.empty() && answers.front().index() == 1;
    body = vectors ? "{\"vectors\":[" : "{\"predictions\":[";
    for (const Answer& one : answers) {
      body.append(&one == answers.data() ? "" : ",");
      append_json(body, one, labels);
    }
    return body.append("]}\n");
  }
  for (const Answer& one : answers) {
    const auto* vector = std::get_if<std::vector<float>>(&one);
    const auto* prediction = std::get_if<soma::models::Prediction>(&one);
    if (type == Type::json_lines) {
      append_json(body, one, labels);
      body.push_back('\n');
    } else if (type == Type::plain) {
      body.append(vector != nullptr ? "[" + vector_row(*vector, ", ") + "]"
                                    : to_string(*prediction))
          .push_back('\n');
    } else {
      body.append(vector != nullptr ? vector_row(*vector, ",") : csv_row(*prediction))
          .append("\r\n");
    }
  }
  return body;
}

}  // namespace bodies
