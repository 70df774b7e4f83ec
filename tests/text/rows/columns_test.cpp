// Which columns of a table hold texts and labels, whether its first row names them, and rows with
// several of either.

#include <soma/text/labelled_text.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "text/rows.hpp"

#include <string>
#include <string_view>
#include <vector>

using namespace soma;
using namespace soma_test;
using text::Format;
using text::Header;
using text::RowOptions;

TEST_CASE("headers are found by their names, by options, or by labels that are numbers",
          "[unit][text]") {
  CHECK(rows_of("sentence\tlabel\na\t1\n", Format::tsv) == "1: a @2|");
  CHECK(rows_of("Label,Text\ngood,a\n", Format::csv) == "good: a @2|");
  CHECK(rows_of("id,review,sentiment\n7,a,good\n", Format::csv) == "good: a @2|");
  CHECK(rows_of("comment,stars\na,1\n", Format::csv) == "1: a @2|");
  CHECK(rows_of("text,labels\na,x\nb,y\n", Format::csv) == "x: a @2|y: b @3|");
  CHECK(rows_of("tweet,airline_sentiment\na,x\nb,y\n", Format::csv) == "x: a @2|y: b @3|");
  CHECK(rows_of("reviewText,mood\na,x\nb,y\nc,x\nd,y\n", Format::csv) ==
        "x: a @2|y: b @3|x: c @4|y: d @5|");
  CHECK(rows_of("foo,gold_label\na,x\nb,x\n", Format::csv) == "x: a @2|x: b @3|");
  // The other way round.
  CHECK(rows_of("Category,Message\nham,a\nspam,b\nham,c\nspam,d\n", Format::csv) ==
        "ham: a @2|spam: b @3|ham: c @4|spam: d @5|");
  CHECK(rows_of("remark,verdict\na,good\n", Format::csv) == "verdict: remark @1|good: a @2|");
  CHECK(rows_of("remark,verdict\na,good\n", {.format = Format::csv, .header = Header::present}) ==
        "good: a @2|");
  CHECK(rows_of("remark,verdict\na,good\n", {.format = Format::csv, .label_column = "verdict"}) ==
        "good: a @2|");
  CHECK(rows_of("text,label\na,good\n", {.format = Format::csv, .header = Header::absent}) ==
        "label: text @1|good: a @2|");
  CHECK(rows_of("1,a\n2,b\n", {.format = Format::csv, .text_column = "2"}) == "1: a @1|2: b @2|");
  CHECK(
      rows_of("x,1,a\ny,2,b\n", {.format = Format::csv, .text_column = "3", .label_column = "2"}) ==
      "1: a @1|2: b @2|");

  // Labels as behind a header, and no name that tells.
  CHECK(refusal("foo,bar\na,x\nb,y\nc,x\nd,y\n", Format::csv) ==
        "RowReader: line 1 of \"memory\" is \"foo\", \"bar\", whose label is in no other row, "
        "wanted to be told whether it is a header (--header yes) or a row (--header no) "
        "[text.header]");
  for (const std::string_view rest : {"a,1\nb,2\n", "a,1.5\nb,x\nc,x\n", "a,x\nb,x\n"})
    CHECK(refusal("foo,bar\n" + std::string(rest), Format::csv).ends_with("[text.header]"));
  // Rows of data: their label comes again, or others come once, too, or all are numbers.
  for (const std::string_view rows :
       {"text,x\na,y\nb,y\nc,x\n", "title,x\na,y\nb,z\n", "a,7\nb,1\nc,1\nd,2\n",
        "a,label\nb,label\n", "text,sentence\n"})
    CHECK(rows_of(rows, Format::csv).find(" @1|") != std::string::npos);
  CHECK(rows_of("foo,bar\na,x\nb,x\n", {.format = Format::csv, .header = Header::absent}) ==
        "bar: foo @1|x: a @2|x: b @3|");
  const std::vector<std::string> known{"x", "bar"};
  CHECK(rows_of("foo,bar\na,x\nb,x\n", {.format = Format::csv, .known_labels = known}) ==
        "bar: foo @1|x: a @2|x: b @3|");
  // A file behind another one has brought its header, too; and a class may not be called as one.
  CHECK(refusal("text,label\na,x\ntext,label\nb,y\n", Format::csv) ==
        "RowReader: line 3 of \"memory\" is the header once more, wanted a row [text.header]");
  CHECK(rows_of("text,label\na,x\ntext,label\nb,y\n",
                {.format = Format::csv, .skip_bad_rows = true}) == "x: a @2|y: b @4|");
  CHECK(refusal("text,label\na,x\nb,label\n", Format::csv) ==
        "RowReader: line 3 of \"memory\" is labelled \"label\", as line 1, which looks like a "
        "header, wanted another label, or to be told whether it is one (--header yes or no) "
        "[text.header]");
  CHECK(rows_of("text,label\na,x\nb,label\n", {.format = Format::csv, .header = Header::present}) ==
        "x: a @2|label: b @3|");

  CHECK(refusal("x,1,a\n", Format::csv) ==
        "RowReader: table of \"memory\" is 3 columns wide, wanted 2 columns, or text_column and "
        "label_column to say which (--text-column, --label-column) [text.column]");
  CHECK(
      refusal("a,b\nx,1\n", {.format = Format::csv, .label_column = "class"}) ==
      "RowReader: label_column is \"class\", wanted a name of the header of \"memory\" or a number "
      "from 1 to 2 [text.column]");
  CHECK(refusal("x,1\n", {.format = Format::csv, .text_column = "3"}) ==
        "RowReader: text_column is \"3\", wanted a column of \"memory\" or a number from 1 to 2 "
        "[text.column]");
  CHECK(refusal("x,1\n", {.format = Format::csv, .text_column = "0"}).ends_with("[text.column]"));
  CHECK(refusal("x,1\n", {.format = Format::csv, .text_column = "2", .label_column = "2"}) ==
        "RowReader: text_column and label_column is the same, 2, wanted two columns [text.column]");
}

TEST_CASE("several columns of text, and pairs of texts", "[unit][text]") {
  const std::string_view table = "id,title,body,kind\n1,A,b c,x\n2,,d,y\n3,E,,x\n";
  RowOptions joined{.format = Format::csv, .label_column = "kind"};
  joined.text_columns = {"title", "body"};
  CHECK(rows_of(table, joined) == "x: A b c @2|y: d @3|x: E @4|");
  joined.text_columns = {"3", "2"};
  CHECK(rows_of(table, joined) == "x: b c A @2|y: d @3|x: E @4|");
  joined.text_columns = {"body", "3"};
  CHECK(refusal(table, joined)
            .ends_with("two of text_columns, pair_column and label_columns is the same, 3, wanted "
                       "two columns "
                       "[text.column]"));
  joined.text_columns = {"body", "kind"};
  CHECK(refusal(table, joined).ends_with("[text.column]"));
  joined.text_columns = {"body", "words"};
  CHECK(refusal(table, joined) ==
        "RowReader: text_columns is \"words\", wanted a name of the header of \"memory\" or a "
        "number from 1 to 4 [text.column]");
  RowOptions keys{.format = Format::json_lines};
  keys.text_columns = {"a", "b"};
  CHECK(rows_of("{\"b\": \"B\", \"label\": 1, \"a\": \"A\"}", keys) == "1: A B @1|");
  CHECK(refusal("{\"b\": \"B\", \"label\": 1}", keys) ==
        "RowReader: line 1 of \"memory\" is an object without \"a\", wanted an object with \"a\", "
        "\"b\", texts, and \"label\", a text or a number [text.row_json]");

  const auto pairs_of = [](std::string_view content, const RowOptions& options) {
    text::RowReader reader = text::RowReader::of_memory(content, options);
    std::string all;
    for (text::Row row; reader.next(row);)
      all += row.label + ": " + row.text + "/" + row.pair + "|";
    return all;
  };
  RowOptions pairs{.format = Format::csv, .text_column = "1"};
  pairs.pair_column = "2";
  CHECK(pairs_of("a,b,1\nc,d,0\n", pairs) == "1: a/b|0: c/d|");
  CHECK(refusal("a,b,1\nc, ,0\n", pairs)
            .ends_with("without its second text, wanted two texts "
                       "[text.row_empty]"));
  pairs = {.format = Format::json_lines, .text_column = "premise"};
  pairs.pair_column = "hypothesis";
  CHECK(pairs_of("{\"premise\": \"a\", \"hypothesis\": \"b\", \"label\": 2}", pairs) == "2: a/b|");
  CHECK(refusal("__label__1 a\n", {.format = Format::fasttext, .text_column = "text"})
            .ends_with("[text.column]"));
}

TEST_CASE("labels of one row: one, or several where that is said", "[unit][text]") {
  CHECK(refusal("__label__0 dull film __label__1 tail\n", Format::fasttext) ==
        "RowReader: line 1 of \"memory\" is a line with several labels, wanted one "
        "__label__<name> in front of the text [text.row_label]");
  CHECK(rows_of("__label__0 a  b\tc __labels__ \n", Format::fasttext) ==
        "0: a  b\tc __labels__ @1|");
  const auto labels_of = [](std::string_view content, Format format, char separator = ',') {
    RowOptions options{.format = format, .labels = data::LabelKind::several};
    options.label_separator = separator;
    text::RowReader reader = text::RowReader::of_memory(content, options);
    std::string all;
    for (text::Row row; reader.next(row);) {
      for (const std::string& label : row.labels) all += label + " ";
      all += ": " + row.text + "|";
    }
    return all;
  };
  CHECK(labels_of("__label__0 dull film __label__1 tail\n__label__0 __label__0 x\ny\n",
                  Format::fasttext) == "0 1 : dull film tail|0 : x|: y|");
  CHECK(labels_of("text\tlabel\na\tx, y\nb\t\nc\ty\n", Format::tsv) == "x y : a|: b|y : c|");
  CHECK(labels_of("text\tlabel\na\tx;y\n", Format::tsv, ';') == "x y : a|");
  // In a file with a header, the single labels repeat; whole cells need not.
  CHECK(labels_of("title\tgenres\na\tx,y\nb\ty\nc\tx\n", Format::tsv) == "x y : a|y : b|x : c|");
  CHECK(labels_of("{\"text\": \"a\", \"label\": [\"x\", 2, true]}\n"
                  "{\"text\": \"b\", \"label\": []}\n{\"text\": \"c\", \"label\": \"x,y\"}\n",
                  Format::json_lines) == "x 2 true : a|: b|x y : c|");
  for (const std::string_view line :
       {"{\"text\": \"a\", \"label\": [[]]}", "{\"text\": \"a\", \"label\": [{}]}",
        "{\"text\": \"a\", \"label\": [null]}"})
    CHECK(message_of([&] { labels_of(line, Format::json_lines); }).ends_with("[text.row_json]"));
  CHECK(message_of([&] {
          labels_of("text\tlabel\na\tx,,y\n", Format::tsv);
        }).ends_with("[text.row_label]"));
}
