// Files and folders of labelled text: which file is what, labels, the split, and what is refused.

#include <soma/text/labelled_text.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "text/files.hpp"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

using namespace soma;
using namespace soma_test;
using text::Format;
using text::LabelledText;
using text::read_labelled;

namespace {

// Rows "text <i>" of labels "a" and "b" in turn.
std::string many_rows(std::size_t first, std::size_t count) {
  std::string content;
  for (std::size_t i = first; i < first + count; ++i)
    content += "text " + std::to_string(i) + (i % 2 == 0 ? "\ta\n" : "\tb\n");
  return content;
}

std::set<std::string> texts_of(std::span<const text::LabelledRow> rows) {
  std::set<std::string> texts;
  for (const text::LabelledRow& row : rows) texts.insert(row.text);
  return texts;
}

// The message, the folder's name cut out.
template <class Action>
std::string refusal(const TemporaryFolder& folder, const Action& action) {
  std::string text = message_of(action);
  for (std::size_t at; (at = text.find(folder.path())) != std::string::npos;)
    text.replace(at, folder.path().size(), "F");
  return text;
}

}  // namespace

TEST_CASE("a format is found by the name or the first line", "[unit][text]") {
  const TemporaryFolder folder;
  const auto format_of = [&](const std::string& name, std::string_view content) {
    write_text(folder / name, content);
    return text::RowReader(folder / name).format();
  };
  CHECK(format_of("a.tsv", "x\t1\n") == Format::tsv);
  CHECK(format_of("a.csv", "x,1\n") == Format::csv);
  CHECK(format_of("b.csv", "\"x\ny\",1\n") == Format::csv);
  CHECK(format_of("a.jsonl", "{\"text\": \"x\", \"label\": 1}\n") == Format::json_lines);
  CHECK(format_of("a.ft.txt", "__label__1 x\n") == Format::fasttext);
  CHECK(format_of("a.txt", "\nx\t1\n") == Format::tsv);
  CHECK(format_of("a", "{\"text\": \"x\", \"label\": 1}\n") == Format::json_lines);
  const auto message = [&](const std::string& name, std::string_view content) {
    return refusal(folder, [&] { format_of(name, content); });
  };
  CHECK(message("c.tsv", "x,1\n") ==
        "RowReader: file is \"F/c.tsv\", whose first line is not tsv, wanted the format that the "
        "file's name says, or an explicit format [text.file_format]");
  CHECK(message("c.csv", "x\t1\n").ends_with("[text.file_format]"));
  CHECK(message("c.jsonl", "x\t1\n").ends_with("[text.file_format]"));
  CHECK(message("c.txt", "x,1\n").ends_with("[text.file_format]"));
  // Texts have commas, or none: the columns are between other characters.
  CHECK(message("d.csv", "good, really;1\nbad;0\nso, so, well;1\n") ==
        "RowReader: file is \"F/d.csv\", whose columns are separated by semicolons, wanted commas, "
        "or a separator that is given (--separator) [text.file_format]");
  CHECK(message("d.csv", "good;1\nbad;0\n").ends_with("[text.file_format]"));
  CHECK(message("d.csv", "\"a;b\"|1\nb|0\n").find("vertical bars") != std::string::npos);
  CHECK(message("d.csv", "a, b\t1\nc\t0\nd\t0\n").find("by tabs") != std::string::npos);
  CHECK(message("d.tsv", "a\tb;1\nc;0\nd;0\n").find("semicolons") != std::string::npos);
  CHECK(format_of("e.csv", "a;b,1\nc;d,2\ne;f,1\n") == Format::csv);  // commas will do
  write_text(folder / "f.csv", "good, really;1\n\"bad; so\";0\n");
  text::RowReader reader(folder / "f.csv", {.separator = ';'});
  text::Row row;
  REQUIRE(reader.next(row));
  CHECK(row.text == "good, really");
  REQUIRE(reader.next(row));
  CHECK(row.text == "bad; so");
  CHECK(row.label == "0");
}

TEST_CASE("gzip is read like what is in it", "[unit][text]") {
  const TemporaryFolder folder;
  const std::string content = many_rows(0, 50000);
  // Unpacked by the reader, and by a thread of its own.
  const bool ahead = GENERATE(false, true);
  text::ReadOptions options;
  options.rows.reads_ahead = ahead;
  write_gzip(folder / "rows.tsv.gz", content);
  write_text(folder / "rows.tsv", content);
  const LabelledText packed = read_labelled(folder / "rows.tsv.gz", options);
  const LabelledText plain = read_labelled(folder / "rows.tsv");
  CHECK(packed.train().size() + packed.validation().size() == 50000);
  CHECK(texts_of(packed.train()) == texts_of(plain.train()));
  {
    text::RowReader reader(folder / "rows.tsv.gz", options.rows);  // ends before the file does
    text::Row row;
    CHECK(reader.next(row));
  }
  // Two packed files in one are one.
  const std::string bytes = read_text(folder / "rows.tsv.gz");
  write_text(folder / "twice.tsv.gz", bytes + bytes);
  CHECK(read_labelled(folder / "twice.tsv.gz", options).train().size() ==
        2 * packed.train().size());

  write_text(folder / "short.tsv.gz", bytes.substr(0, bytes.size() / 2));
  CHECK(id_of([&] { read_labelled(folder / "short.tsv.gz", options); }) == "text.file_gzip");
  std::string damaged = bytes;
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x55);
  write_text(folder / "damaged.tsv.gz", damaged);
  CHECK(id_of([&] { read_labelled(folder / "damaged.tsv.gz", options); }) == "text.file_gzip");
  // The following bytes are no further file, whichever byte of the head is damaged; zeros are
  // allowed.
  for (const std::size_t at : {0u, 1u, 2u}) {
    damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    write_text(folder / "second.tsv.gz", bytes + damaged);
    CHECK(id_of([&] { read_labelled(folder / "second.tsv.gz", options); }) == "text.file_gzip");
  }
  write_text(folder / "rest.tsv.gz", bytes + std::string(100000, '\0') + "x");
  CHECK(id_of([&] { read_labelled(folder / "rest.tsv.gz", options); }) == "text.file_gzip");
  write_text(folder / "filled.tsv.gz", bytes + std::string(100000, '\0'));
  CHECK(read_labelled(folder / "filled.tsv.gz", options).train().size() == packed.train().size());
}

TEST_CASE("a first line longer than what is looked at", "[unit][text]") {
  const TemporaryFolder folder;
  const std::string words(200000, 'x');
  for (const auto& [name, content] :
       {std::pair("a.tsv", words + "\t1\n"), {"a.csv", words + ",1\n"}}) {
    write_text(folder / name, content);
    text::Row row;
    text::RowReader reader(folder / name);
    REQUIRE(reader.next(row));
    CHECK(row.text == words);
    CHECK(row.label == "1");
  }
  write_text(folder / "a.jsonl", words + "\n");
  CHECK(id_of([&] { text::RowReader(folder / "a.jsonl"); }) == "text.file_format");
}

TEST_CASE("a label has one line, and a message about it a short one", "[unit][text]") {
  const TemporaryFolder folder;
  for (const char* label : {"a\\nb", "a\\rb", "a\\tb"}) {
    write_text(folder / "a.jsonl",
               std::string("{\"text\": \"x\", \"label\": \"") + label + "\"}\n");
    const std::string message = message_of([&] { read_labelled(folder / "a.jsonl"); });
    CHECK_THAT(message, contains(("labelled \"" + std::string(label) + "\"").c_str()));
    CHECK(message.ends_with("[text.row_label]"));
  }
  CHECK(soma::quoted("tab\t bell\a \x1b[31m \x7f") == "\"tab\\t bell\\x07 \\x1b[31m \\x7f\"");
  CHECK(soma::quoted(std::string(400, 'x')) == "\"" + std::string(400, 'x') + "\"");
  CHECK(soma::quoted(std::string(401, 'x')) ==
        "\"" + std::string(200, 'x') + "..." + std::string(100, 'x') + "\" (401 bytes)");
  std::string umlauts = "x";
  for (int i = 0; i < 300; ++i) umlauts += "\u00fc";
  const std::string cut = soma::quoted(umlauts);
  CHECK(text::find_invalid_utf8(cut) == std::string::npos);
  CHECK(cut.size() < 330);
}

TEST_CASE("a folder's files are found by name", "[unit][text]") {
  const TemporaryFolder folder;
  write_text(folder / "train.tsv", many_rows(0, 10));
  write_text(folder / "train.tsv~", "not data");
  write_text(folder / "notes.txt", "not data");
  LabelledText text = read_labelled(folder.path(), {.validation_share = 0.5});
  CHECK(text.train().size() + text.validation().size() == 10);
  CHECK(text.test().empty());
  CHECK_FALSE(text.validation().empty());

  std::filesystem::create_directory(folder / "valid");
  CHECK(refusal(folder, [&] { read_labelled(folder.path()); }) ==
        "read_labelled: folder is \"F/valid\", without data, wanted files that end in .tsv, .csv, "
        ".jsonl, .txt or .ft, or those with .gz behind [text.folder]");
  write_text(folder / "valid/2.tsv", many_rows(10, 3));
  write_text(folder / "valid/1.csv", "x,b\n");
  write_gzip(folder / "test.tsv.gz", many_rows(20, 5));
  text = read_labelled(folder.path());
  CHECK(text.train().size() == 10);
  CHECK(texts_of(text.validation()) == std::set<std::string>{"text 10", "text 11", "text 12", "x"});
  CHECK(text.validation()[0].text == "x");
  CHECK(text.validation()[0].label == 1);
  CHECK(text.test().size() == 5);
  CHECK(read_labelled(folder.path(), {.read_test = false}).test().empty());

  write_text(folder / "dev.tsv", many_rows(0, 1));
  CHECK(refusal(folder, [&] { read_labelled(folder.path()); }) ==
        "read_labelled: folder is \"F\", which has dev.tsv and valid, wanted one of them "
        "[text.folder]");
  const TemporaryFolder empty;
  CHECK(refusal(empty, [&] { read_labelled(empty.path()); }) ==
        "read_labelled: folder is \"F\", without training data, wanted a file train.tsv, .csv, "
        ".jsonl or .txt, or a folder train/ [text.folder]");
  CHECK(id_of([&] { read_labelled(folder / "missing"); }) == "file.read");
  CHECK(id_of([] { read_labelled(text::DataFiles{}); }) == "text.folder");
}

TEST_CASE("a model is measured by the files of test, or else of dev", "[unit][text]") {
  const TemporaryFolder folder;
  CHECK(text::find_test_files(folder / "a.tsv") == std::vector<std::string>{folder / "a.tsv"});
  write_text(folder / "train.tsv", many_rows(0, 10));
  CHECK(id_of([&] { text::find_test_files(folder.path()); }) == "text.folder");
  write_text(folder / "dev.tsv", "one\tb\n");
  CHECK(text::find_test_files(folder.path()) == std::vector<std::string>{folder / "dev.tsv"});
  write_text(folder / "test.tsv", "two\tb\nthree\n");
  const std::vector<std::string> files = text::find_test_files(folder.path());
  CHECK(files == std::vector<std::string>{folder / "test.tsv"});
  // One class of several is enough.
  const std::vector<std::string> labels{"a", "b"};
  std::vector<text::SkippedRows> skipped;
  CHECK(id_of([&] { text::read_rows(files, labels, {}, skipped); }) == "text.row_columns");
  const auto rows = text::read_rows(files, labels, {.skip_bad_rows = true}, skipped);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].label == 1);
  REQUIRE(skipped.size() == 1);
  CHECK(skipped[0].rows == 1);
  CHECK(id_of([&] { text::read_rows(files, {}, {}, skipped); }) == "text.label_unseen");
}

TEST_CASE("labels are in order of value or of bytes", "[unit][text]") {
  const TemporaryFolder folder;
  write_text(folder / "a.tsv", "a\t10\nb\t9\nc\t-1\nd\t10\n");
  LabelledText text = read_labelled(folder / "a.tsv", {.validation_share = 0});
  CHECK(text.labels() == std::vector<std::string>{"-1", "9", "10"});
  CHECK(text.train()[0].label == 2);
  CHECK(text.train()[2].label == 0);
  CHECK(text.train()[3].label == 2);
  write_text(folder / "a.tsv", "a\t10\nb\t9\nc\tx\n");
  text = read_labelled(folder / "a.tsv",
                       {.rows = {.header = text::Header::absent}, .validation_share = 0});
  CHECK(text.labels() == std::vector<std::string>{"10", "9", "x"});
}

TEST_CASE("the split depends on texts and the seed alone", "[unit][text]") {
  const TemporaryFolder folder;
  write_text(folder / "a.tsv", many_rows(0, 1000) + many_rows(0, 100));
  write_text(folder / "b.tsv", many_rows(500, 500) + many_rows(0, 500));
  const LabelledText a = read_labelled(folder / "a.tsv"), b = read_labelled(folder / "b.tsv");
  CHECK(texts_of(a.train()) == texts_of(b.train()));
  CHECK(texts_of(a.validation()) == texts_of(b.validation()));
  // Six standard deviations of a binomial of 1000 with p = 1/10.
  CHECK(b.validation().size() > 100 - 57);
  CHECK(b.validation().size() < 100 + 57);
  CHECK(texts_of(read_labelled(folder / "a.tsv", {.split_seed = 1}).validation()) !=
        texts_of(a.validation()));
  CHECK(read_labelled(folder / "a.tsv", {.validation_share = 0}).validation().empty());

  // A label's only row stays in training, wherever the hash puts it.
  std::string rare = many_rows(0, 100);
  for (int i = 0; i < 100; ++i)
    rare += "rare " + std::to_string(i) + "\tr" + std::to_string(i) + "\n";
  write_text(folder / "rare.tsv", rare);
  const LabelledText text = read_labelled(folder / "rare.tsv", {.validation_share = 0.5});
  CHECK(text.labels().size() == 102);
  CHECK(text.train().size() > 100);
  for (const text::LabelledRow& row : text.validation()) CHECK(row.text.starts_with("text"));
}

TEST_CASE("rows with numbers have no classes", "[unit][text]") {
  const TemporaryFolder folder;
  std::string content;
  for (int i = 0; i < 100; ++i) content += "text " + std::to_string(i) + "\t0.5\n";
  write_text(folder / "a.tsv", content);
  const LabelledText text = read_labelled(
      folder / "a.tsv", {.rows = {.labels = data::LabelKind::number}, .validation_share = 0.2});
  CHECK(text.labels().empty());
  CHECK(text.train().size() + text.validation().size() == 100);
  CHECK_FALSE(text.validation().empty());
  CHECK(text.train().front().number == 0.5f);
}

TEST_CASE("data that nothing can be learned from are refused", "[unit][text]") {
  const TemporaryFolder folder;
  const auto message = [&](std::string_view train, std::string_view dev,
                           const text::ReadOptions& options = {}) {
    write_text(folder / "train.tsv", train);
    if (dev.empty())
      std::filesystem::remove(folder / "dev.tsv");
    else
      write_text(folder / "dev.tsv", dev);
    return refusal(folder, [&] { read_labelled(folder.path(), options); });
  };
  CHECK(message("a\tx\nb\tx\n", "") ==
        "read_labelled: label of all rows is \"x\", wanted two labels at least [text.one_class]");
  CHECK(message("a\tx\nb\ty\n", "c\tx\n\nd\tz\n") ==
        "read_labelled: label in line 3 of \"F/dev.tsv\" is \"z\", wanted one of 2 that are known, "
        "such as \"x\" [text.label_unseen]");
  CHECK(message("a\tx\nb\ty\n", "", {.validation_share = 1e-9}) ==
        "read_labelled: validation share of 2 rows is no row: there are 2 different texts (equal "
        "ones stay together), of which the hash chose none, wanted some: a larger "
        "validation_share, a file of its own, or 0 for none [text.split]");
  std::string equal;
  for (int i = 0; i < 50; ++i) equal += i % 2 == 0 ? "same\tx\n" : "same\ty\n";
  CHECK_THAT(message(equal, ""), contains("of 50 rows is no row: all have the same text (equal"));
  // All rows of a label, which therefore stays.
  CHECK_THAT(message("a\tx\nb\ty\n", "", {.validation_share = 1 - 1e-9}),
             contains("the hash chose 2, with all rows of their labels, which stay in training"));
  CHECK(message("a\tx\nb\ty\n", "", {.validation_share = 1}).ends_with("[text.split]"));
  CHECK(message("a\tx\nb\ty\n", "", {.validation_share = -0.5}).ends_with("[text.split]"));
  CHECK(
      message("a\tx\nb\ty\nc\tz\n", "", {.max_labels = 2}) ==
      "read_labelled: labels of \"F/train.tsv\" is more than 2, wanted at most that (max_labels), "
      "in the column of labels (--label-column) [text.label_count]");
  CHECK(message("a\tx\nb\ty\n", "\n") ==
        "read_labelled: file is \"F/dev.tsv\", without rows, wanted at least one row with text and "
        "label [text.file_empty]");
  CHECK(message("a\tx\nb\n", "c\tx\n") ==
        "read_labelled: line 2 of \"F/train.tsv\" is 1 columns wide, wanted 2, as line 1 "
        "[text.row_columns]");

  const text::ReadOptions skipping{.rows = {.skip_bad_rows = true}};
  message("a\tx\nb\nc\ty\n\t\n", "c\tx\nd\n", skipping);
  const LabelledText text = read_labelled(folder.path(), skipping);
  REQUIRE(text.skipped().size() == 2);
  CHECK(text.skipped()[0].reason == error_id::text_row_columns);
  CHECK(text.skipped()[0].rows == 2);
  CHECK(text.skipped()[0].line == 2);
  CHECK(text.skipped()[0].file == folder / "train.tsv");
  CHECK(text.skipped()[1].reason == error_id::text_row_label);
}

TEST_CASE("a file that is written to while it is read is refused", "[unit][text]") {
  const TemporaryFolder folder;
  write_text(folder / "a.tsv", many_rows(0, 20000));
  text::RowReader reader(folder / "a.tsv");
  text::Row row;
  reader.next(row);
  std::ofstream(folder / "a.tsv", std::ios::app) << "one more\ta\n";
  CHECK(refusal(folder,
                [&] {
                  while (reader.next(row)) {
                  }
                }) ==
        "RowReader: file is \"F/a.tsv\", which was written to while it was read, wanted a file "
        "that rests [text.file_changed]");
  CHECK(id_of([&] { text::RowReader(folder.path()); }) == "file.read");
  CHECK(id_of([&] { text::RowReader(""); }) == "file.read");
}

TEST_CASE("rows that lie across the reader's buffer come out whole", "[unit][text]") {
  const TemporaryFolder folder;
  for (std::size_t shift = 0; shift < 8; ++shift) {
    const std::size_t first = text::ByteSource::buffer_bytes - 8 + shift;
    const std::string content = std::string(first - 4, 'x') + "\t1\r\n\r\n\r\n\"a\"\t2\r\n";
    write_text(folder / "a.tsv", content);
    text::RowReader reader(folder / "a.tsv", {.format = Format::tsv});
    text::Row row;
    REQUIRE(reader.next(row));
    CHECK(row.text.size() == first - 4);
    REQUIRE(reader.next(row));
    CHECK(row.text == "\"a\"");
    CHECK(row.line == 4);
    CHECK_FALSE(reader.next(row));
  }
}
