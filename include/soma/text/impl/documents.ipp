#pragma once
// The functions of documents.hpp.

#include <soma/text/documents.hpp>

#include <soma/base/error.hpp>
#include <soma/base/json_limits.hpp>
#include <soma/text/byte_source.hpp>
#include <soma/text/record_reader.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text::detail {

// Reads one file; the rows are appended.
class DocumentReader {
 public:
  DocumentReader(const std::string& path, const DocumentOptions& options,
                 std::string_view operation, std::vector<DocumentRow>& rows)
      : path_(path), options_(options), operation_(operation), rows_(rows) {}

  void read() {
    std::string_view name = path_;
    if (name.ends_with(".gz")) name.remove_suffix(3);
    if (name.ends_with(".jsonl") || name.ends_with(".ndjson")) return read_json_lines();
    if (name.ends_with(".csv") || name.ends_with(".tsv")) return read_table(name.ends_with(".csv"));
    read_plain();
  }

 private:
  ByteSource open() const { return ByteSource::open(operation_, path_, options_.stop); }
  std::string line(std::uint64_t number) const {
    return "line " + std::to_string(number) + " of " + soma::quoted(path_);
  }
  void check(const std::optional<RowProblem>& problem, std::uint64_t number) const {
    if (problem) fail(problem->reason, operation_, line(number), problem->given, problem->wanted);
  }

  void read_plain() {
    ByteSource bytes = open();
    std::string content;
    for (int byte = bytes.next(); byte >= 0; byte = bytes.next())
      content.push_back(static_cast<char>(byte));
    check(encoding_problem(content, "text"), 1);
    if (options_.divider.empty()) {
      if (!content.empty()) rows_.push_back({std::move(content), {}, {}});
      return;
    }
    std::size_t begin = 0;
    const auto add = [&](std::size_t end) {
      if (end > begin) rows_.push_back({content.substr(begin, end - begin), {}, {}});
    };
    for (std::size_t at = 0; at < content.size();) {
      const std::size_t next = (std::min)(content.find('\n', at), content.size());
      std::string_view own = std::string_view(content).substr(at, next - at);
      if (own.ends_with('\r')) own.remove_suffix(1);
      if (own == options_.divider) {
        add(at);
        begin = (std::min)(next + 1, content.size());
      }
      at = next + 1;
    }
    add(content.size());
  }

  void read_json_lines() {
    RecordReader records(open(), options_.max_row_bytes);
    for (Record record; records.next_line(record);) {
      check(record.problem, record.line);
      add_object(record.fields.front(), record.line);
    }
  }

  void add_object(const std::string& text, std::uint64_t number) {
    nlohmann::json root;
    if (soma::may_be_tree(text)) root = nlohmann::json::parse(text, nullptr, false);
    const auto text_of = [&](const std::string& key) -> const std::string* {
      const auto found = root.find(key);
      return found == root.end() || !found->is_string() ? nullptr
                                                        : found->get_ptr<const std::string*>();
    };
    const bool object = root.is_object();
    const std::string* const whole = object ? text_of(options_.text_column) : nullptr;
    const std::string* const prompt = object ? text_of(options_.prompt_column) : nullptr;
    const std::string* const answer = object ? text_of(options_.answer_column) : nullptr;
    if (prompt != nullptr && answer != nullptr) return add_pair(*prompt, *answer, number);
    if (whole == nullptr)
      fail(error_id::text_row_json, operation_, line(number),
           object ? "an object without such texts" : "no JSON object", wanted());
    rows_.push_back({*whole, {}, {}});
  }

  void add_pair(std::string prompt, std::string answer, std::uint64_t number) {
    if (answer.empty())
      fail(error_id::text_row_empty, operation_, line(number),
           "an empty " + soma::quoted(options_.answer_column), "a text to learn");
    rows_.push_back({{}, std::move(prompt), std::move(answer)});
  }

  std::string wanted() const {
    return soma::quoted(options_.text_column) + ", or " + soma::quoted(options_.prompt_column) +
           " and " + soma::quoted(options_.answer_column);
  }

  void read_table(bool csv) {
    RecordReader records(open(), options_.max_row_bytes);
    const auto next = [&](Record& record) {
      return csv ? records.next_csv(record) : records.next_tsv(record);
    };
    Record record;
    if (!next(record))
      fail(error_id::text_file_empty, operation_, soma::quoted(path_), "no rows",
           "a header and rows");
    check(record.problem, record.line);
    const std::vector<std::string> header = record.fields;
    const auto column = [&](const std::string& name) {
      return static_cast<std::size_t>(std::find(header.begin(), header.end(), name) -
                                      header.begin());
    };
    const std::size_t whole = column(options_.text_column), prompt = column(options_.prompt_column),
                      answer = column(options_.answer_column), none = header.size();
    const bool pairs = prompt != none && answer != none;
    if (!pairs && whole == none)
      fail(error_id::text_column, operation_, "header of " + soma::quoted(path_),
           "without such columns", wanted());
    while (next(record)) {
      check(record.problem, record.line);
      if (record.fields.size() != header.size())
        fail(error_id::text_row_columns, operation_, line(record.line),
             std::to_string(record.fields.size()) + " columns",
             std::to_string(header.size()) + ", as the header has");
      for (const std::size_t used : {whole, prompt, answer})
        if (used != none) check(encoding_problem(record.fields[used], header[used]), record.line);
      if (pairs)
        add_pair(std::move(record.fields[prompt]), std::move(record.fields[answer]), record.line);
      else
        rows_.push_back({std::move(record.fields[whole]), {}, {}});
    }
  }

  const std::string& path_;
  const DocumentOptions& options_;
  std::string_view operation_;
  std::vector<DocumentRow>& rows_;
};

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE std::vector<DocumentRow> read_documents(std::span<const std::string> files,
                                                    const DocumentOptions& options,
                                                    std::string_view operation) {
  std::vector<DocumentRow> rows;
  for (const std::string& file : files) {
    const std::size_t before = rows.size();
    detail::DocumentReader(file, options, operation, rows).read();
    if (rows.size() == before)
      fail(error_id::text_file_empty, operation, soma::quoted(file), "no documents",
           "at least one");
  }
  return rows;
}

}  // namespace SOMA_NAMESPACE::text
