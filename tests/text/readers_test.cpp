// Rows of every format, and every kind of row and file that is none.

#include <soma/text/labelled_text.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "text/files.hpp"
#include "text/rows.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

using namespace soma;
using namespace soma_test;
using text::Format;
using text::Header;
using text::RowOptions;

TEST_CASE("rows of tsv", "[unit][text]") {
  CHECK(rows_of("a \"b\tx\n\n\r\nc, d\t y \r\ne\tx", Format::tsv) ==
        "x: a \"b @1|y: c, d @4|x: e @5|");
  CHECK(rows_of("\xEF\xBB\xBF"
                "a\t1\n",
                Format::tsv) == "1: a @1|");
}

TEST_CASE("rows of csv", "[unit][text]") {
  CHECK(rows_of("\"a \"\"quoted\"\", word\",1\nplain,2\r\n\"two\nlines\r\n\",1\r\n\n\"\",\"3\"",
                {.format = Format::csv,
                 .text_column = "1",
                 .label_column = "2",
                 .skip_bad_rows = true}) ==
        "1: a \"quoted\", word @1|2: plain @2|1: two\nlines\r\n @3|");
  CHECK(rows_of("a,label\n\"x\ny\",1\nz,2\n", Format::csv) == "1: x\ny @2|2: z @4|");
  CHECK(rows_of("a,1\nb,\"2\"", Format::csv) == "1: a @1|2: b @2|");
}

TEST_CASE("a quoted empty text is a record, a blank line is none", "[unit][text]") {
  text::RecordReader records(
      text::ByteSource::of_memory("test", "a\n\"\"\n\n\r\n\"\"\r\n\"\",\nb\n\"\""), 100);
  text::Record record;
  std::string all;
  while (records.next_csv(record))
    all += std::to_string(record.line) + ": " + std::to_string(record.fields.size()) + " " +
           record.fields.front() + "|";
  CHECK(all == "1: 1 a|2: 1 |5: 1 |6: 2 |7: 1 b|8: 1 |");
  CHECK(refusal("a,1\n\n\"\"\n", Format::csv) ==
        "RowReader: line 3 of \"memory\" is 1 columns wide, wanted 2, as line 1 "
        "[text.row_columns]");
}

TEST_CASE("rows of fastText", "[unit][text]") {
  CHECK(rows_of("__label__2 Great CD: \"x\"\n__label__a\tb \n", Format::fasttext) ==
        "2: Great CD: \"x\" @1|a: b @2|");
  // Spaces between words stay; a label is a word of its own.
  CHECK(rows_of("  __label__a   x  y\tz \t\n__label__b x__label__c  y \nx __label__d y\n",
                {.format = Format::fasttext, .skip_bad_rows = true}) ==
        "a: x  y\tz @1|b: x__label__c  y @2|");
  CHECK(refusal("__label__1 __label__2 text\n", Format::fasttext) ==
        "RowReader: line 1 of \"memory\" is a line with several labels, wanted one "
        "__label__<name> in front of the text [text.row_label]");
  CHECK(refusal("__label__1 a\nno label\n", Format::fasttext) ==
        "RowReader: line 2 of \"memory\" is a line without label, wanted one __label__<name> in "
        "front of the text [text.row_label]");
  CHECK(refusal("__label__ a\n", Format::fasttext) ==
        "RowReader: line 1 of \"memory\" is without label, wanted a label [text.row_label]");
  CHECK(refusal("__label__a\n", Format::fasttext) ==
        "RowReader: line 1 of \"memory\" is without text, wanted a text [text.row_empty]");
}

TEST_CASE("rows of JSON lines", "[unit][text]") {
  CHECK(
      rows_of("{\"text\": \"a\\nb\", \"label\": 1}\n\n"
              "{\"label\": \"x\", \"more\": {\"text\": [1, 2.5, null]}, \"text\": \"\\u00e9\"}\r\n"
              "{\"text\": \"c\", \"label\": -2}\n{\"text\": \"d\", \"label\": true}",
              Format::json_lines) == "1: a\nb @1|x: \xC3\xA9 @3|-2: c @4|true: d @5|");
  CHECK(rows_of("{\"s\": \"a\", \"y\": 1}",
                {.format = Format::json_lines, .text_column = "s", .label_column = "y"}) ==
        "1: a @1|");
  CHECK(rows_of("{\"text\": \" a \", \"label\": \"\\t x y \"}", Format::json_lines) ==
        "x y:  a  @1|");
  CHECK(refusal("{\"text\": \"a\", \"label\": \" \"}", Format::json_lines) ==
        "RowReader: line 1 of \"memory\" is without label, wanted a label [text.row_label]");
  // A number is the label that a table has with the same digits.
  CHECK(rows_of("{\"text\": \"a\", \"label\": 1.0}\n{\"text\": \"b\", \"label\": -1.50}",
                Format::json_lines) == "1.0: a @1|-1.50: b @2|");
  const auto given = [](std::string_view line) {
    std::string message =
        refusal("{\"text\": \"a\", \"label\": 1}\n" + std::string(line), Format::json_lines);
    CHECK(message.ends_with(
        ", wanted an object with \"text\", a text, and \"label\", a text or a number "
        "[text.row_json]"));
    const std::string_view start = "RowReader: line 2 of \"memory\" is ";
    CHECK(message.starts_with(start));
    message.erase(0, start.size());
    return message.substr(0, message.find(", wanted"));
  };
  CHECK(given("{\"text\": \"a\"}") == "an object without \"label\"");
  CHECK(given("{\"label\": 1}") == "an object without \"text\"");
  CHECK(given("{\"text\": \"a\", \"label\": null}") == "null for \"label\"");
  CHECK(given("{\"text\": 5, \"label\": 1}") == "5 for \"text\"");
  CHECK(given("{\"text\": [\"a\"], \"label\": 1}") == "a list for \"text\"");
  CHECK(given("{\"text\": \"a\", \"label\": {}}") == "an object for \"label\"");
  CHECK(given("{\"text\": \"a\", \"text\": \"b\", \"label\": 1}") ==
        "an object with \"text\" twice");
  CHECK(given("[1]") == "a list, no object");
  CHECK(given("7") == "no object");
  CHECK(given("{\"text\": \"a\"") == "no JSON at its byte 13");
  CHECK(given("{\"text\": \"a\", \"label\": 1} x") == "no JSON at its byte 27");
  CHECK(given("{\"text\": \"\\ud800\", \"label\": 1}").starts_with("no JSON"));
  CHECK(given(std::string_view("{\"text\": \"a\", \"label\": 1}\0", 26)) ==
        "a line with a zero byte");
}

TEST_CASE("rows that are refused, with their line", "[unit][text]") {
  CHECK(refusal("a\t1\nb\n", Format::tsv) ==
        "RowReader: line 2 of \"memory\" is 1 columns wide, wanted 2, as line 1 "
        "[text.row_columns]");
  CHECK(refusal("a\t1\nb\t\t2\n", Format::tsv).find("3 columns wide") != std::string::npos);
  CHECK(refusal("a\t1\n \t2\n", Format::tsv) ==
        "RowReader: line 2 of \"memory\" is without text, wanted a text [text.row_empty]");
  CHECK(refusal("a\t1\nb\t \n", Format::tsv) ==
        "RowReader: line 2 of \"memory\" is without label, wanted a label [text.row_label]");
  CHECK(
      refusal(std::string_view("a\t1\nb\0c\t1\n", 10), Format::tsv) ==
      "RowReader: line 2 of \"memory\" is a zero byte at byte 2 of its text, wanted UTF-8 without "
      "zero bytes [text.row_encoding]");
  CHECK(refusal("{\"text\": \"a\\u0000\", \"label\": 1}", Format::json_lines)
            .find("a zero byte at byte 2 of its text") != std::string::npos);
  CHECK(refusal("a\t1\nb\xFF\t1\n", Format::tsv) ==
        "RowReader: line 2 of \"memory\" is not UTF-8 at byte 2 of its text, wanted UTF-8 without "
        "zero bytes [text.row_encoding]");
  CHECK(refusal("a\t1\nb\t\xC0\x80\n", Format::tsv).find("of its label") != std::string::npos);
  CHECK(refusal("a\t1\n" + std::string(98, 'x') + "\t1\nc\t1",
                {.format = Format::tsv, .max_row_bytes = 99}) ==
        "RowReader: line 2 of \"memory\" is longer than 99 bytes, wanted at most that "
        "(max_row_bytes) [text.row_too_long]");
  CHECK_NOTHROW(rows_of("a\t1\n" + std::string(97, 'x') + "\t1\nc\t1",
                        {.format = Format::tsv, .max_row_bytes = 99}));
  CHECK(refusal("a,1\n" + std::string(1000, ','), {.format = Format::csv, .max_row_bytes = 99})
            .ends_with("[text.row_too_long]"));
  CHECK(refusal("a,1\n\"x\ny\" z,2\n", Format::csv) ==
        "RowReader: line 2 of \"memory\" is a field with text behind its closing quotation mark, "
        "wanted a comma or a line's end there [text.row_quote]");
  CHECK(refusal("a,1\nthe \"best\",2\n", Format::csv) ==
        "RowReader: line 2 of \"memory\" is a field without quotes that holds a quotation mark, "
        "wanted fields with quotation marks inside quotes, the marks doubled [text.row_quote]");
  CHECK(refusal("a,1\nb,2\n\"c,1\nd,2\n", {.format = Format::csv, .skip_bad_rows = true}) ==
        "RowReader: line 3 of \"memory\" is a row whose quotation mark is not closed before the "
        "file's end, wanted a closing quotation mark [text.row_quote]");
  for (const std::string_view empty : {"", "\n\r\n\n", "\xEF\xBB\xBF"})
    CHECK(
        refusal(empty, Format::csv) ==
        "RowReader: file is \"memory\", without rows, wanted at least one row with text and label "
        "[text.file_empty]");
  CHECK(refusal("text,label\n", Format::csv).ends_with("[text.file_empty]"));
}

TEST_CASE("labels that are numbers", "[unit][text]") {
  const auto numbers = [](std::string_view content, Format format, bool skip = false) {
    text::RowReader reader = text::RowReader::of_memory(
        content, {.format = format, .skip_bad_rows = skip, .labels = data::LabelKind::number});
    std::vector<float> all;
    for (text::Row row; reader.next(row);) all.push_back(row.number);
    return all;
  };
  // The first row names the columns where its label is no number and the next one's is.
  CHECK(numbers("a,score\nb,0.5\nc,-3\nd, 1e-2 \n", Format::csv) ==
        std::vector<float>{0.5f, -3, 1e-2f});
  CHECK(numbers("{\"text\":\"a\",\"label\":2.5}\n{\"text\":\"a\",\"label\":-1}\n"
                "{\"text\":\"a\",\"label\":\"0.25\"}\n",
                Format::json_lines) == std::vector<float>{2.5f, -1, 0.25f});
  for (const char* bad : {"good", "0,5", "nan", "inf", "1e99", "1 2"})
    CHECK(numbers(std::string("a\t1\nb\t") + bad + "\nc\t2\n", Format::tsv, true) ==
          std::vector<float>{1, 2});
  CHECK(message_of([&] { numbers("a\t1\nb\tgood\n", Format::tsv); })
            .ends_with("labelled \"good\", wanted a number that a float holds, such as 0.5 "
                       "[text.row_label]"));
}

TEST_CASE("UTF-8 is what its definition says", "[unit][text]") {
  using text::find_invalid_utf8;
  for (const std::string_view good :
       {"", "a", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
    CHECK(find_invalid_utf8(good) == std::string_view::npos);
  for (const std::string_view bad :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2\x41", "\xE0\x9F\xBF", "\xE0\xA0",
        "\xED\xA0\x80", "\xEF\xBF\x41", "\xF0\x8F\xBF\xBF", "\xF0\x90\x80", "\xF4\x90\x80\x80",
        "\xF5\x80\x80\x80", "\xFF"}) {
    CHECK(find_invalid_utf8(bad) == 0);
    CHECK(find_invalid_utf8("\xE2\x82\xAC" + std::string(bad)) == 3);
  }
}

TEST_CASE("bad rows are counted by reason", "[unit][text]") {
  const std::string content =
      "a,1\nb\n\"c\" d,1\ne,2\n,1\nf,\n" + std::string(200, 'x') + ",1\ng,\xFF\nh\ni,1\n";
  text::RowReader reader = text::RowReader::of_memory(
      content, {.format = Format::csv, .max_row_bytes = 100, .skip_bad_rows = true});
  text::Row row;
  std::string texts;
  while (reader.next(row)) texts += row.text;
  CHECK(texts == "aei");
  std::string skipped;
  for (const text::SkippedRows& entry : reader.skipped())
    skipped += std::string(entry.reason.name) + " " + std::to_string(entry.rows) + " @" +
               std::to_string(entry.line) + " ";
  CHECK(skipped ==
        "text.row_columns 2 @2 text.row_quote 1 @3 text.row_empty 1 @5 text.row_label 1 @6 "
        "text.row_too_long 1 @7 text.row_encoding 1 @8 ");
  CHECK(refusal(
            "a\n",
            {.format = Format::csv, .text_column = "1", .label_column = "2", .skip_bad_rows = true})
            .ends_with("[text.column]"));
  CHECK(refusal(" ,1\n", {.format = Format::csv, .skip_bad_rows = true}) ==
        "RowReader: file is \"memory\", all rows of it bad, wanted at least one row with text and "
        "label [text.file_empty]");
}
