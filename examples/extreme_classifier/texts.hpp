// Files of texts with labels by name, as points of an extreme classifier.
#pragma once

#include "extreme_classifier/options.hpp"

#include <soma/data/labels.hpp>
#include <soma/models/extreme_text.hpp>

#include <string>
#include <string_view>
#include <vector>

struct Texts {
  std::vector<std::string> texts;
  soma::data::IdLists labels;      // a list for each text
  std::vector<std::string> names;  // all classes, by a training file

  std::vector<std::string_view> views() const { return {texts.begin(), texts.end()}; }
};

// True for tables and JSON lines (.tsv, .csv, .json, .jsonl, .ndjson) and fastText's format
// (.ft.txt), also with .gz behind it.
bool is_text_file(std::string_view file);
// Errors of soma::text::read_labelled().
Texts read_texts(const std::string& file, const TextOptions& form, std::size_t max_line_bytes);
// With the labels of a model. Labels that it does not know are left out, with a note on standard
// error: no answer can have them.
Texts read_known_texts(const std::string& file, const std::vector<std::string>& names,
                       const TextOptions& form, std::size_t max_line_bytes);
// The lines of a file, or of standard input ("-"), without labels.
std::vector<std::string> read_lines(const std::string& file, std::size_t max_line_bytes);
