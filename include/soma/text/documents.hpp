#pragma once
// Documents for language models: plain text, and rows of JSON lines and tables with a text, or with
// a prompt and an answer.

#include <soma/runtime/stop_flag.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

// A text, or a prompt with its answer.
struct DocumentRow {
  std::string text, prompt, answer;
};

struct DocumentOptions {
  // The line that divides plain text into documents, without its end; empty: a file is a document.
  std::string divider{};
  // Names of columns of tables, and keys of JSON lines. A row has the text, or both others.
  std::string text_column = "text", prompt_column = "prompt", answer_column = "answer";
  std::size_t max_row_bytes = std::size_t{1} << 26;  // in JSON lines and tables
  const StopFlag* stop = nullptr;                    // ends the reading with runtime.stopped
};

// The documents of files, in order. Names decide the format, before an optional .gz: .jsonl and
// .ndjson are JSON lines, .csv and .tsv tables with a header; all others are plain text, whose line
// ends stay as they are. UTF-16 and byte order marks are read as everywhere. `operation` names the
// caller in messages. Errors file.read, text.row_json (no object with such texts), text.row_empty
// (an empty answer), text.row_encoding, text.column (a table without such columns),
// text.row_columns, text.file_empty, and those of RecordReader.
std::vector<DocumentRow> read_documents(std::span<const std::string> files,
                                        const DocumentOptions& options = {},
                                        std::string_view operation = "read_documents");

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/documents.ipp>
#endif
