// Columns that are known from rows that were read before.

#include <soma/text/row_reader.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <string>
#include <string_view>
#include <vector>

using namespace soma::text;
using namespace soma_test;

namespace {

KnownColumns columns_of(std::string_view content, RowOptions options = {}) {
  if (options.format == Format::detect) options.format = Format::csv;
  RowReader reader = RowReader::of_memory(content, options);
  Row row;
  while (reader.next(row)) {
  }
  return reader.columns();
}

// Texts, pairs and labels of all rows.
std::vector<std::string> read(std::string_view content, RowOptions options) {
  if (options.format == Format::detect) options.format = Format::csv;
  RowReader reader = RowReader::of_memory(content, options);
  std::vector<std::string> rows;
  for (Row row; reader.next(row);) rows.push_back(row.text + "/" + row.pair + "/" + row.label);
  return rows;
}

}  // namespace

TEST_CASE("a reader says which columns it reads", "[unit][text]") {
  const RowOptions pairs{.text_column = "a", .label_column = "l", .pair_column = "b"};
  CHECK(columns_of("i,a, b,l\n1,x,y,0\n", pairs) ==
        KnownColumns{.texts = {"a"}, .pair = "b", .label = "l", .named = true, .count = 4});
  CHECK(columns_of("text,label\nx,0\n") ==
        KnownColumns{.texts = {"text"}, .label = "label", .named = true, .count = 2});
  CHECK(columns_of("x,0\ny,1\nz,0\nz,1\n") ==
        KnownColumns{.texts = {"1"}, .label = "2", .count = 2});
  CHECK(columns_of("0,x,y\n1,z,y\n", {.label_column = "1", .text_columns = {"3", "2"}}) ==
        KnownColumns{.texts = {"3", "2"}, .label = "1", .count = 3});
  CHECK(columns_of(R"({"text": "x", "label": 1})", {.format = Format::json_lines}) ==
        KnownColumns{.texts = {"text"}, .label = "label", .named = true});
  CHECK(columns_of("__label__a x\n", {.format = Format::fasttext}) == KnownColumns{});
  // Names that find no column, or another one.
  for (const char* header : {"text,2", "text,", "l,l", "text,\xff"})
    CHECK(columns_of(std::string(header) + "\nx,0\n",
                     {.header = Header::present, .text_column = "1", .label_column = "2"}) ==
          KnownColumns{});
}

TEST_CASE("known columns are those of rows of the same form", "[unit][text]") {
  RowOptions known;
  known.known_columns = {.texts = {"b", "a"}, .pair = "c", .label = "d", .named = true, .count = 4};
  const std::vector<std::string> wanted{"y x/z/1"};
  CHECK(read("a,b,c,d\nx,y,z,1\n", known) == wanted);
  CHECK(read("d,e,c,b,a\n1,,z,y,x\n", known) == wanted);
  known.format = Format::json_lines;
  CHECK(read(R"({"a": "x", "b": "y", "c": "z", "d": 1})", known) == wanted);
  CHECK(read(R"({"text": "x", "label": 1})", known) == std::vector<std::string>{"x//1"});
  known.format = Format::csv;
  // Options win; the others are known.
  RowOptions given = known;
  given.label_column = "a";
  given.text_column = "b";
  CHECK(read("a,b,c,d\nx,y,z,1\n", given) == std::vector<std::string>{"y/z/x"});
  // Another form: the usual rules.
  CHECK(read("text,label\nx,1\n", known) == std::vector<std::string>{"x//1"});
  CHECK(id_of([&] { read("a,b,c\nx,y,z\n", known); }) == "text.column");
  known.header = Header::absent;
  CHECK(id_of([&] { read("a,b,c,d\nx,y,z,1\n", known); }) == "text.column");

  known = {};
  known.known_columns = {.texts = {"3"}, .label = "1", .count = 3};
  CHECK(read("1,x,y\n0,x,z\n", known) == std::vector<std::string>{"y//1", "z//0"});
  CHECK(read("y,1\nz,0\n", known) == std::vector<std::string>{"y//1", "z//0"});
  CHECK(read("id,text,label\n1,y,0\n", known) == std::vector<std::string>{"y//0"});
}
