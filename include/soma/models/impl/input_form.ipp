#pragma once
// The functions of input_form.hpp.

#include <soma/models/input_form.hpp>

#include <soma/base/record.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::models {

SOMA_INLINE Record to_record(const InputForm& form) {
  Record record{input_form_key};
  if (form.pairs) record.set("pairs", *form.pairs);
  if (static_cast<unsigned char>(form.label_separator - 1) < 0x7F)  // ASCII, for JSON
    record.set("label_separator", std::string_view(&form.label_separator, 1));
  const text::KnownColumns& columns = form.columns;
  if (columns.texts.empty()) return record;
  std::string texts;  // a name may have any character except an end of line
  for (const std::string& name : columns.texts)
    texts.append(texts.empty() ? "" : "\n").append(name);
  record.set("text_columns", texts);
  record.set("pair_column", columns.pair);
  record.set("label_column", columns.label);
  record.set("named", columns.named);
  record.set("columns", columns.count);
  return record;
}

SOMA_INLINE InputForm input_form_of(const Record& record) {
  InputForm form;
  if (record.contains("pairs")) form.pairs = record.boolean("pairs");
  if (record.contains("label_separator"))
    if (const std::string& text = record.text("label_separator"); text.size() == 1)
      form.label_separator = text.front();
  if (!record.contains("text_columns")) return form;
  text::KnownColumns& columns = form.columns;
  const std::string& texts = record.text("text_columns");
  for (std::size_t begin = 0; begin <= texts.size();) {
    const std::size_t end = (std::min)(texts.find('\n', begin), texts.size());
    columns.texts.push_back(texts.substr(begin, end - begin));
    begin = end + 1;
  }
  columns.pair = record.text("pair_column");
  columns.label = record.text("label_column");
  columns.named = record.boolean("named");
  columns.count = record.count("columns");
  return form;
}

}  // namespace SOMA_NAMESPACE::models
