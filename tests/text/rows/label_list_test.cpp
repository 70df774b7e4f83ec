// Several labels in a row: lists in a cell, and columns of 0 and 1.

#include <soma/text/labelled_text.hpp>
#include <soma/text/rows/label_list.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "text/rows.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

using namespace soma;
using namespace soma_test;
using text::Format;
using text::RowOptions;

namespace {

// "a|b|" of a list; "-" of a cell that is none.
std::string listed(std::string_view cell) {
  const auto labels = text::read_label_list(cell);
  if (!labels) return "-";
  std::string all;
  for (const std::string& label : *labels) all += label + "|";
  return all;
}
std::string several(std::string_view content, Format format = Format::csv) {
  text::RowReader reader =
      text::RowReader::of_memory(content, {.format = format, .labels = data::LabelKind::several});
  std::string all;
  for (text::Row row; reader.next(row); all += ". ")
    for (const std::string& label : row.labels) all += label + "|";
  return all;
}

}  // namespace

TEST_CASE("lists as JSON and Python write them", "[unit][text]") {
  CHECK(listed("[]") == "");
  CHECK(listed("[ ]") == "");
  CHECK(listed("[\"x\", \"b\"]") == "x|b|");
  CHECK(listed("['x','b']") == "x|b|");
  CHECK(listed("['x' 'b']") == "x|b|");  // numpy
  CHECK(listed("('x',)") == "x|");
  CHECK(listed("{'x', 'b'}") == "x|b|");
  CHECK(listed("[1, 2.5, -3, true, False]") == "1|2.5|-3|true|False|");
  CHECK(listed("['it\\'s', \"it's\", 'a \"b\"']") == "it's|it's|a \"b\"|");
  CHECK(listed("[\"a, b\", '[c]']") == "a, b|[c]|");
  CHECK(listed("['\\xe9', \"\\u00e9\", '\\U0001f600', \"\\ud83d\\ude00\"]") ==
        "\u00e9|\u00e9|\U0001f600|\U0001f600|");
  CHECK(listed("['a\\tb\\\\']") == "a\tb\\|");
  for (const char* cell : {"", "x", "['x'", "['x]", "['x'] y", "[x]", "[x, y]", "['x', [1]]",
                           "['\\q']", "['\\ud83d']", "['\\u00']", "[None]", "('x']", "]["})
    CHECK(listed(cell) == "-");
}

TEST_CASE("cells with lists", "[unit][text]") {
  CHECK(several("text,tags\na,\"[\"\"x\"\", \"\"b\"\"]\"\nb,\"['x']\"\nc,[]\nd,\"x,b\"\n") ==
        "x|b|. x|. . x|b|. ");
  CHECK(several("text\ttags\na\t['x', 'b']\nb\t[1, 2]\nc\t[nsfw]\n", Format::tsv) ==
        "x|b|. 1|2|. [nsfw]|. ");
  CHECK(several("{\"text\": \"a\", \"label\": \"['x', 'b']\"}", Format::json_lines) == "x|b|. ");
  for (const std::string_view cell : {"['x', 'b", "['x' 'b', \"c]", "['']", "['x'] and y"})
    CHECK(message_of([&] {
            several("a\t" + std::string(cell) + "\n", Format::tsv);
          }).ends_with("[text.row_label]"));
  CHECK(refusal("a\t['x', 'b']\nb\ty\n", Format::tsv) ==
        "RowReader: line 1 of \"memory\" is labelled \"['x', 'b']\", a list, wanted one label, or "
        "several in each row (--multi-label) [text.row_label]");
  CHECK(rows_of("a\t[x]\n", Format::tsv) == "[x]: a @1|");
}

TEST_CASE("columns of 0 and 1", "[unit][text]") {
  const TemporaryFolder folder;
  text::ReadOptions options{.rows = {.labels = data::LabelKind::several}, .validation_share = 0};
  options.rows.label_columns = {"x", "b", "never"};
  write_text(folder / "a.csv",
             "id,words,b,x,never\n7,one,0,1,0\n8,two,1.0,true,False\n9,three,,0,0.0\n");
  CHECK(id_of([&] { text::read_labelled(folder / "a.csv", options); }) == "text.column");
  options.rows.text_column = "words";
  const text::LabelledText found = text::read_labelled(folder / "a.csv", options);
  CHECK(found.labels() == std::vector<std::string>{"b", "never", "x"});
  CHECK(found.train()[0].labels == std::vector<std::int32_t>{2});
  CHECK(found.train()[1].labels == std::vector<std::int32_t>{0, 2});
  CHECK(found.train()[2].labels.empty());
  // The text is the only other column.
  options.rows.text_column.clear();
  write_text(folder / "b.csv", "words,x,b,never\none,0,1,0\n");
  CHECK(text::read_labelled(folder / "b.csv", options).train()[0].text == "one");
  const auto message = [&](std::string_view content, RowOptions rows) {
    return refusal(content, rows);
  };
  RowOptions rows = options.rows;
  rows.format = Format::csv;
  CHECK(message("words,x,b,never\none,0,2,0\n", rows) ==
        "RowReader: line 2 of \"memory\" is \"2\" in column \"b\", wanted 0 or 1 in each of "
        "label_columns (--label-columns) [text.row_label]");
  CHECK(message("words,x,b\none,0,1\n", rows).ends_with("[text.column]"));
  rows.header = text::Header::absent;
  CHECK(message("one,0,1,0\n", rows).ends_with("[text.column]"));
  rows.header = text::Header::detect;
  rows.labels = data::LabelKind::one;
  CHECK(message("words,x,b,never\none,0,1,0\n", rows).ends_with("[text.column]"));
  rows.labels = data::LabelKind::several;
  rows.format = Format::json_lines;
  CHECK(message("{\"text\": \"a\", \"x\": 1}\n", rows).ends_with("[text.column]"));
}
