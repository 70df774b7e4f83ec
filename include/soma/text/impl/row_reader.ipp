#pragma once
// The functions of row_reader.hpp.

#include <soma/text/row_reader.hpp>

#include <soma/text/columns.hpp>
#include <soma/text/json_row.hpp>
#include <soma/text/record_reader.hpp>
#include <soma/text/row_options.hpp>
#include <soma/text/rows/header.hpp>
#include <soma/text/rows/label_cells.hpp>
#include <soma/text/rows/label_names.hpp>
#include <soma/text/rows/separators.hpp>
#include <soma/text/utf8.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE RowReader::RowReader(std::string_view path, const RowOptions& options,
                                 std::string_view operation)
    : RowReader(of_bytes(ByteSource::open(operation, path, options.stop,
                                          options.reads_ahead ? ReadAhead::yes : ReadAhead::no),
                         options)) {}

SOMA_INLINE RowReader RowReader::of_bytes(ByteSource bytes, const RowOptions& options) {
  if (!bytes.is_once()) return RowReader(std::move(bytes), options);
  // Headers and columns may need a second pass.
  auto text = std::make_unique<std::string>(bytes.rest());
  const std::string_view memory = *text;
  return RowReader(ByteSource::of_memory(bytes.operation(), memory, bytes.name()), options, memory,
                   std::move(text));
}

SOMA_INLINE RowReader RowReader::of_memory(std::string_view content, const RowOptions& options,
                                           std::string_view operation) {
  return RowReader(ByteSource::of_memory(operation, content), options, content);
}

SOMA_INLINE bool RowReader::next(Row& row) {
  Record record;
  while (next_record(record)) {
    std::optional<RowProblem> problem = std::move(record.problem);
    if (!problem) problem = take(record, row);
    if (!problem) problem = check(row);
    row.line = record.line;
    if (!problem) {
      ++rows_;
      return true;
    }
    refuse(*problem, record.line);
  }
  if (rows_ == 0)
    fail(error_id::text_file_empty, operation(), "file",
         soma::quoted(file()) + (skipped_.empty() ? ", without rows" : ", all rows of it bad"),
         "at least one row with text and label");
  return false;
}

SOMA_INLINE bool RowReader::has_header() const { return header_.has_value(); }

SOMA_INLINE std::vector<std::string> RowReader::classes() const {
  std::vector<std::string> names;
  for (const std::size_t column : columns_.flags)
    names.emplace_back(trimmed_label((*header_)[column]));
  return names;
}

SOMA_INLINE const std::string& RowReader::file() const { return records_.bytes().name(); }

SOMA_INLINE const FileState& RowReader::state() const { return records_.bytes().state(); }

SOMA_INLINE RowReader::RowReader(ByteSource bytes, const RowOptions& options,
                                 std::string_view memory, std::unique_ptr<std::string> kept)
    : options_(options),
      kept_(std::move(kept)),
      memory_(memory),
      records_(std::move(bytes), options.max_row_bytes, separator()),
      format_(find_format()),
      json_(json_reader()) {
  if (format_ == Format::tsv || format_ == Format::csv) read_header();
  if (format_ == Format::fasttext) refuse_columns();
  if (format_ == Format::json_lines && !options_.label_columns.empty())
    fail(error_id::text_column, this->operation(), "label_columns",
         "given for " + soma::quoted(file()) + ", which is JSON lines", "a table");
}

SOMA_INLINE Format RowReader::find_format() {
  if (options_.separator != 0) return Format::csv;
  if (options_.format != Format::detect) return options_.format;
  struct Ending {
    std::string_view name;
    Format format;
  };
  constexpr std::array<Ending, 4> endings = {{{".tsv", Format::tsv},
                                              {".csv", Format::csv},
                                              {".jsonl", Format::json_lines},
                                              {".ndjson", Format::json_lines}}};
  std::string_view name = file();
  if (name.ends_with(".gz")) name.remove_suffix(3);
  std::string_view line = records_.bytes().ahead();
  // A byte order mark may be missing from a full buffer.
  bool whole = line.size() + 3 < ByteSource::buffer_bytes;
  line.remove_prefix((std::min)(line.find_first_not_of("\r\n"), line.size()));
  whole = whole || line.find('\n') != line.npos;
  line = line.substr(0, line.find('\n'));
  const auto looks_like = [&](Format format) {
    switch (format) {
      case Format::fasttext:
        return line.starts_with("__label__");
      case Format::json_lines:
        return line.starts_with('{');
      case Format::tsv:
        return line.find('\t') != std::string_view::npos;
      default:
        return line.find_first_of(",\"") != std::string_view::npos;
    }
  };
  for (const auto& [ending, format] : endings) {
    if (!name.ends_with(ending)) continue;
    // In a longer line, the tab or comma may lie beyond the visible part.
    const bool decided = whole || format == Format::json_lines;
    if (!line.empty() && decided && !looks_like(format)) {
      if (line.find_first_of(";|") != line.npos) check_separator(format);
      fail(error_id::text_file_format, operation(), "file",
           soma::quoted(file()) + ", whose first line is not " + std::string(to_string(format)),
           "the format that the file's name says, or an explicit format");
    }
    check_separator(format);
    return format;
  }
  for (const Format format : {Format::fasttext, Format::json_lines, Format::tsv})
    if (looks_like(format)) {
      check_separator(format);
      return format;
    }
  // The file is empty: next() reports it.
  if (line.empty()) return Format::tsv;
  // A pipe has no name that could say it.
  if (kept_ != nullptr && evident_separator(memory_, true, '\t', true) == ',') return Format::csv;
  fail(error_id::text_file_format, operation(), "file", soma::quoted(file()),
       "a name that ends in .tsv, .csv or .jsonl, a first line of fastText, JSON or with a tab, "
       "or a format or separator that is given (--separator comma)");
}

SOMA_INLINE void RowReader::check_separator(Format format) {
  if (format != Format::csv && format != Format::tsv) return;
  const std::string_view ahead = records_.bytes().ahead();
  const bool whole = ahead.size() + 3 < ByteSource::buffer_bytes;
  const bool csv = format == Format::csv;
  if (const char found = evident_separator(ahead, whole, csv ? ',' : '\t', csv); found != 0)
    fail(error_id::text_file_format, operation(), "file",
         soma::quoted(file()) + ", whose columns are separated by " +
             std::string(separator_name(found)),
         std::string(csv ? "commas" : "tabs") + ", or a separator that is given (--separator)");
}

SOMA_INLINE void RowReader::refuse_columns() const {
  if (!detail::gives_columns(options_)) return;
  fail(error_id::text_column, operation(), "columns of " + soma::quoted(file()), "given",
       "none: each line of fastText is its labels and one text");
}

template <class Has>
void RowReader::take_known(const Has& has) {
  const KnownColumns& known = options_.known_columns;
  const bool texts = !detail::text_columns_of(options_).empty();
  const bool pair = !options_.pair_column.empty() || known.pair.empty();
  const bool label = !options_.label_column.empty();
  if (known.texts.empty() ||
      (!texts && !std::all_of(known.texts.begin(), known.texts.end(), has)) ||
      (!pair && !has(known.pair)) || (!label && !has(known.label)))
    return;
  if (!texts) options_.text_columns = known.texts;
  if (!pair) options_.pair_column = known.pair;
  if (!label) options_.label_column = known.label;
}

SOMA_INLINE JsonRowReader RowReader::json_reader() {
  if (format_ == Format::json_lines && options_.known_columns.named) {
    const std::string_view ahead = records_.bytes().ahead();
    const std::string_view line =
        ahead.substr(0, ahead.find('\n', ahead.find_first_not_of("\r\n")));
    take_known([&](const std::string& key) { return line.find(soma::quoted(key)) != line.npos; });
  }
  return JsonRowReader(options_);
}

SOMA_INLINE KnownColumns RowReader::columns() const {
  KnownColumns result;
  if (format_ == Format::json_lines) {
    result.named = true;
    result.texts = detail::text_columns_of(options_);
    if (result.texts.empty()) result.texts.emplace_back("text");
    result.pair = options_.pair_column;
    result.label = options_.label_column.empty() ? "label" : options_.label_column;
    return result;
  }
  if (format_ == Format::fasttext || columns_.texts.empty() || !columns_.flags.empty())
    return result;
  bool found_again = true;  // the columns, by these names or numbers
  const auto name = [&](std::size_t column) {
    if (!header_) return std::to_string(column + 1);
    std::string cell(trimmed((*header_)[column]));
    found_again = found_again && detail::is_name(cell) && find_invalid_utf8(cell) == cell.npos;
    for (std::size_t i = 0; i < column; ++i)
      found_again = found_again && trimmed((*header_)[i]) != cell;
    return cell;
  };
  for (const std::size_t column : columns_.texts) result.texts.push_back(name(column));
  if (columns_.pair) result.pair = name(*columns_.pair);
  result.label = name(columns_.label);
  result.named = header_.has_value();
  result.count = columns_.count;
  return found_again ? result : KnownColumns{};
}

SOMA_INLINE void RowReader::read_header() {
  Record first;
  if (!read_good(first)) return;
  const KnownColumns& known = options_.known_columns;
  if (known.named && options_.header != Header::absent)
    take_known([&](const std::string& column) {
      return std::any_of(first.fields.begin(), first.fields.end(),
                         [&](const std::string& cell) { return trimmed(cell) == column; });
    });
  HeaderFinder finder(options_, first.fields);
  LabelColumnFinder labels(options_);
  const bool counts = first.fields.size() == 2 && !detail::gives_columns(options_) &&
                      !detail::has_usual_name(first.fields);
  if (counts || finder.needs_rows()) read_ahead(finder, counts ? &labels : nullptr, first);
  const HeaderFinder::Verdict verdict = finder.verdict();
  if (verdict == HeaderFinder::Verdict::unclear)
    fail(error_id::text_header, operation(),
         "line " + std::to_string(first.line) + " of " + soma::quoted(file()),
         shown(first.fields) + ", whose label is in no other row",
         "to be told whether it is a header (--header yes) or a row (--header no)");
  const bool header = verdict == HeaderFinder::Verdict::header;
  const bool knows = !header && !known.named && known.count == first.fields.size();
  if (knows) take_known([](const std::string&) { return true; });
  if (counts && !header) labels.add(first.fields);
  columns_ =
      find_columns(operation(), file(), counts && !knows ? with_label_column(labels) : options_,
                   first.fields, header);
  columns_line_ = first.line;
  if (header)
    header_ = std::move(first.fields);
  else
    waiting_ = std::move(first);
}

SOMA_INLINE void RowReader::read_ahead(HeaderFinder& finder, LabelColumnFinder* labels,
                                       const Record& first) {
  ByteSource again = memory_.data() != nullptr
                         ? ByteSource::of_memory(operation(), memory_, file())
                         : ByteSource::open(operation(), file(), options_.stop);
  RecordReader records(std::move(again), options_.max_row_bytes, separator());
  const auto needs_rows = [&] {
    return finder.needs_rows() || (labels != nullptr && labels->needs_rows());
  };
  Record record;
  while (needs_rows() && read_record(records, record)) {
    if (record.problem || record.line <= first.line || record.fields.size() != first.fields.size())
      continue;
    finder.add(record.fields);
    if (labels != nullptr) labels->add(record.fields);
  }
}

SOMA_INLINE RowOptions RowReader::with_label_column(const LabelColumnFinder& labels) {
  RowOptions options = options_;
  const LabelColumnFinder::Verdict verdict = labels.verdict();
  if (verdict == LabelColumnFinder::Verdict::unclear)
    fail(error_id::text_column, operation(), "columns of " + soma::quoted(file()),
         labels.counts() + ", so that neither is evidently that of the labels",
         "to be told which one is (--label-column 2, or 1)");
  if (verdict == LabelColumnFinder::Verdict::second) return options;
  options.label_column = "1";
  swaps_columns_ = true;
  if (options_.notes != nullptr)
    options_.notes->push_back("the labels of " + soma::quoted(file()) +
                              " are taken from column 1, the texts from column 2 (" +
                              labels.counts() + "); --label-column 2 if not");
  return options;
}

SOMA_INLINE std::string RowReader::shown(const std::vector<std::string>& fields) {
  std::string all;
  for (const std::string& field : fields)
    all += (all.empty() ? "" : ", ") + soma::quoted(trimmed(field));
  return all;
}

SOMA_INLINE std::optional<RowProblem> RowReader::check_header(const Record& record) const {
  if (!header_) return std::nullopt;
  if (record.fields == *header_)
    return RowProblem{error_id::text_header, "the header once more", "a row"};
  const std::string_view label = trimmed_label((*header_)[columns_.label]);
  if (options_.header == Header::detect && trimmed_label(record.fields[columns_.label]) == label)
    return RowProblem{error_id::text_header,
                      "labelled " + soma::quoted(label) + ", as line " +
                          std::to_string(columns_line_) + ", which looks like a header",
                      "another label, or to be told whether it is one (--header yes or no)"};
  return std::nullopt;
}

SOMA_INLINE bool RowReader::read_good(Record& record) {
  while (read_record(record)) {
    if (!record.problem) return true;
    refuse(*record.problem, record.line);
  }
  return false;
}

SOMA_INLINE bool RowReader::next_record(Record& record) {
  if (!waiting_) return read_record(record);
  record = *std::exchange(waiting_, std::nullopt);
  return true;
}

SOMA_INLINE bool RowReader::read_record(Record& record) { return read_record(records_, record); }

SOMA_INLINE bool RowReader::read_record(RecordReader& records, Record& record) const {
  if (format_ == Format::csv) return records.next_csv(record);
  return format_ == Format::tsv ? records.next_tsv(record) : records.next_line(record);
}

SOMA_INLINE std::optional<RowProblem> RowReader::take(Record& record, Row& row) {
  row = {};
  if (format_ == Format::json_lines) return take_json(record.fields.front(), row);
  if (format_ == Format::fasttext) return take_fasttext(record.fields.front(), row);
  if (record.fields.size() != columns_.count)
    return RowProblem{
        error_id::text_row_columns, std::to_string(record.fields.size()) + " columns wide",
        std::to_string(columns_.count) + ", as line " + std::to_string(columns_line_)};
  if (auto problem = check_header(record)) return problem;
  for (const std::size_t column : columns_.texts) join(row.text, record.fields[column]);
  if (columns_.pair) row.pair = std::move(record.fields[*columns_.pair]);
  if (!columns_.flags.empty()) return take_flags(record.fields, columns_.flags, *header_, row);
  return take_labels(record.fields[columns_.label], options_, row);
}

SOMA_INLINE std::optional<RowProblem> RowReader::take_json(std::string_view line, Row& row) {
  if (auto problem = json_.read(line)) return problem;
  for (std::size_t i = 0; i < json_.text_count(); ++i) join(row.text, json_.texts()[i]);
  if (!options_.pair_column.empty()) row.pair = std::move(json_.pair());
  if (!json_.is_list()) return take_labels(json_.label(), options_, row);
  for (const std::string& label : json_.labels()) add_label(label, row);
  return std::nullopt;
}

SOMA_INLINE std::optional<RowProblem> RowReader::take_fasttext(std::string_view line,
                                                               Row& row) const {
  constexpr std::string_view prefix = "__label__", spaces = " \t";
  const bool several = options_.labels == data::LabelKind::several;
  const auto problem = [&](std::string given) {
    return RowProblem{
        error_id::text_row_label, std::move(given),
        several ? "__label__<name> for each label" : "one __label__<name> in front of the text"};
  };
  std::size_t labels = 0;
  bool behind_label = true;  // the spaces there belong to no text
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t word = (std::min)(line.find_first_not_of(spaces, at), line.size());
    const std::size_t end = (std::min)(line.find_first_of(spaces, word), line.size());
    const std::string_view name = line.substr(word, end - word);
    if (name.starts_with(prefix)) {
      const std::string_view label = trimmed_label(name.substr(prefix.size()));
      if (several && label.empty()) return problem("a label without a name");
      if (several) add_label(label, row);
      row.label = label;
      behind_label = true;
      ++labels;
    } else if (!name.empty()) {
      if (labels == 0 && !several) return problem("a line without label");
      // Usually only text is left: one piece, up to its last word.
      if (row.text.empty() && line.find(prefix, word) == line.npos) {
        row.text = line.substr(word, line.find_last_not_of(spaces) + 1 - word);
        break;
      }
      if (!row.text.empty())
        row.text += behind_label ? std::string_view(" ") : line.substr(at, word - at);
      row.text += name;
      behind_label = false;
    }
    at = end;
  }
  if (several) row.label.clear();
  if (labels == 0 && !several) return problem("a line without label");
  if (labels > 1 && !several) return problem("a line with several labels");
  return std::nullopt;
}

SOMA_INLINE void RowReader::join(std::string& text, std::string& part) {
  if (trimmed(part).empty()) return;
  if (text.empty())
    text = std::move(part);
  else
    text.append(" ").append(part);
}

SOMA_INLINE std::optional<RowProblem> RowReader::check(Row& row) const {
  const bool several = options_.labels == data::LabelKind::several;
  std::optional<RowProblem> problem = encoding_problem(row.text, "text");
  if (!problem) problem = encoding_problem(row.pair, "second text");
  for (const std::string& label : row.labels)
    if (!problem) problem = check_label(label);
  if (!problem && !several) problem = check_label(row.label);
  if (problem) return problem;
  if (is_blank(row.text)) return RowProblem{error_id::text_row_empty, "without text", "a text"};
  if (!options_.pair_column.empty() && is_blank(row.pair))
    return RowProblem{error_id::text_row_empty, "without its second text", "two texts"};
  if (options_.labels == data::LabelKind::number) {
    const std::optional<float> number = real_number(row.label);
    if (!number)
      return RowProblem{error_id::text_row_label, "labelled " + soma::quoted(row.label),
                        "a number that a float holds, such as 0.5"};
    row.number = *number;
  }
  return std::nullopt;
}

SOMA_INLINE std::optional<RowProblem> RowReader::check_label(const std::string& label) {
  if (auto problem = encoding_problem(label, "label")) return problem;
  if (label.empty()) return RowProblem{error_id::text_row_label, "without label", "a label"};
  // Predictions are written line by line, with a tab after the label.
  if (label.find_first_of("\t\r\n") != std::string::npos)
    return RowProblem{error_id::text_row_label, "labelled " + soma::quoted(label),
                      "a label without tabs and line ends"};
  return std::nullopt;
}

SOMA_INLINE void RowReader::refuse(const RowProblem& problem, std::uint64_t line) {
  if (!options_.skip_bad_rows)
    fail(problem.reason, operation(),
         "line " + std::to_string(line) + " of " + soma::quoted(file()), problem.given,
         problem.wanted);
  count_skipped(skipped_, {problem.reason, 1, file(), line});
}

SOMA_INLINE std::string_view RowReader::operation() const { return records_.bytes().operation(); }

}  // namespace SOMA_NAMESPACE::text
