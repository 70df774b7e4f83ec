// These tests check tables: what columns hold, what is wrong with a file and where, that the
// numbers a net gets are the standardised ones, and that they come back from what was saved.

#include <soma/soma.hpp>
#include <soma/tables.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

using namespace soma;
using namespace soma_test;
using text::ColumnKind;
using text::read_table_text;
using text::Table;
using text::TableEncoder;

namespace {

constexpr std::string_view houses =
    "area, rooms,kind,note,price\r\n"
    "100,3,flat,\"a, \"\"b\"\"\",10\n"
    "\n"
    "50, 2 ,house,NA,5.5\n"
    ",4,flat,c,+2e1\n"
    "150,?,,c,30\n";

std::vector<std::uint32_t> first_rows(std::size_t count) {
  std::vector<std::uint32_t> rows(count);
  std::iota(rows.begin(), rows.end(), 0u);
  return rows;
}
std::string refusal(std::string_view content, const text::TableOptions& options = {}) {
  try {
    read_table_text(content, options);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("columns are numbers or categories, and know what is missing", "[unit]") {
  const Table table = read_table_text(houses);
  REQUIRE(table.rows == 4);
  REQUIRE(table.columns.size() == 5);
  const text::TableColumn& area = table.column("area");
  CHECK(area.kind == ColumnKind::number);
  CHECK(area.numbers[1] == 50);
  CHECK(std::isnan(area.numbers[2]));
  CHECK(area.missing() == 1);
  CHECK(table.column("price").numbers == std::vector<double>{10, 5.5, 20, 30});
  CHECK(table.column("rooms").missing() == 1);
  const text::TableColumn& kind = table.column("kind");
  CHECK(kind.kind == ColumnKind::category);
  CHECK(kind.categories == std::vector<std::string>{"flat", "house"});
  CHECK(kind.codes == std::vector<std::int32_t>{0, 1, 0, -1});
  CHECK(table.column("note").categories == std::vector<std::string>{"a, \"b\"", "c"});
  CHECK(id_of([&] { table.column("cost"); }) == "table.column");

  // Options override the detected kinds.
  const Table said = read_table_text(houses, {.categories = {"rooms"}, .left_out = {"note"}});
  CHECK(said.find("note") == nullptr);
  CHECK(said.column("rooms").categories == std::vector<std::string>{"2", "3", "4"});
  const Table semicolons = read_table_text("a;b\n1;2\n", {.separator = ';'});
  CHECK(semicolons.column("b").numbers == std::vector<double>{2});
}

TEST_CASE("what is wrong with a table is said with its line", "[unit]") {
  CHECK(refusal("a,b\n1,2\n3\n") ==
        "read_table: line 3 of \"memory\" is 1 columns, wanted 2, as the header has "
        "[text.row_columns]");
  CHECK(refusal("a,b\n1,2\n\n3,x\n", {.numbers = {"b"}}) ==
        "read_table: column \"b\" in line 4 of \"memory\" is \"x\", wanted a finite number, or a "
        "missing value [table.cell]");
  CHECK(refusal("a\nx\ny\nz\n", {.max_categories = 2})
            .find("first cell that is no number is "
                  "\"x\" in line 2") != std::string::npos);
  for (const auto& [content, id] : std::vector<std::pair<std::string, std::string>>{
           {"", "text.file_empty"},
           {"a,b\n", "text.file_empty"},
           {"1,2\n3,4\n", "table.column"},
           {"a,a\n1,2\n", "table.column"},
           {"a,\n1,2\n", "table.column"},
           {"a,b\n1,\"2\n", "text.row_quote"},
           {"a,b\n1,2\"\n", "text.row_quote"},
           {"a,b\n1,\xff\n", "text.row_encoding"},
           {std::string("a\n1\0\n", 5), "text.row_encoding"}})
    CHECK(id_of([&] { read_table_text(content); }) == id);
  CHECK(id_of([] { read_table_text("a\n1\n", {.numbers = {"b"}}); }) == "table.column");
  CHECK(id_of([] { read_table_text("a,b\n1,2\n", {.max_columns = 1}); }) == "table.size");
  CHECK(id_of([] { read_table_text("a\n1\n2\n", {.max_rows = 1}); }) == "table.size");
  CHECK(id_of([] { read_table_text("a\n11111111\n", {.max_row_bytes = 4}); }) ==
        "text.row_too_long");
  for (const char* cell : {"inf", "nan(1)", "1e999", "0x10", "1,5", "--1", "+-1"})
    CHECK(id_of([&] {
            read_table_text("a\n\"" + std::string(cell) + "\"\n", {.numbers = {"a"}});
          }) == "table.cell");
  CHECK(id_of([] { text::read_table("/nowhere/a.csv"); }) == "file.read");
}

TEST_CASE("whatever bytes a table has, it is read or refused by id", "[unit]") {
  const auto check = [](const std::string& content) {
    std::string id;
    try {
      const Table table = read_table_text(content);
      for (const text::TableColumn& column : table.columns)
        CHECK(column.numbers.size() + column.codes.size() == table.rows);
      return;
    } catch (const Error& error) {
      id = error.id().name;
    }
    CHECK((id.starts_with("text.") || id.starts_with("table.")));
  };
  const std::string whole(houses);
  for (std::size_t length = 0; length < whole.size(); ++length) check(whole.substr(0, length));
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const char letter : {'\0', '"', ',', '\n', '\r', '9', '\xff'}) {
      std::string damaged = whole;
      damaged[at] = letter;
      check(damaged);
    }
}

TEST_CASE("a net gets standardised numbers, ones for categories, and zeros for what is missing",
          "[unit]") {
  auto context = make_context({.threads = 1});
  const Table table = read_table_text(houses, {.left_out = {"note"}});
  // Fitted on the first three rows: area 100 and 50, rooms 3, 2, 4.
  const TableEncoder encoder = TableEncoder::fit(table, "price", first_rows(3));
  REQUIRE(encoder.width() == 2 + 1 + 2);
  const Tensor x = encoder.encode(context, table);
  REQUIRE(x.shape() == Shape{4, 5});
  const float root = std::sqrt(2.0f / 3);
  const std::vector<float> wanted{1,  0, 0,         1, 0,  // area, missing, rooms, flat, house
                                  -1, 0, -1 / root, 0, 1,  //
                                  0,  1, 1 / root,  1, 0,  //
                                  3,  0, 0,         0, 0};
  // Two roundings, of the deviation and of the quotient.
  for (std::size_t i = 0; i < wanted.size(); ++i)
    CHECK(std::fabs(x.span<float>()[i] - wanted[i]) <= 2 * 0x1p-23f);
  const Tensor y = encoder.targets(context, table, first_rows(4));
  const double mean = 35.5 / 3;
  const double deviation = std::sqrt((10 * 10 + 5.5 * 5.5 + 20 * 20) / 3 - mean * mean);
  for (std::size_t i = 0; i < 4; ++i) {
    const double price = table.column("price").numbers[i];
    CHECK(std::fabs(double{y.span<float>()[i]} - (price - mean) / deviation) < 1e-6);
    CHECK(std::fabs(encoder.in_units(double{y.span<float>()[i]}) - price) < 1e-5);
  }
  // Rows that are predicted: other columns and order, no target, a category nobody has seen.
  const Table more = read_table_text("kind,rooms,extra,area\ncastle,NA,1,NA\n", encoder.reading());
  const Tensor z = encoder.encode(context, more);
  CHECK(std::vector<float>(z.span<float>().begin(), z.span<float>().end()) ==
        std::vector<float>{0, 1, 0, 0, 0});
  // Without reading(), cells of a small file may look like another kind.
  const Table other = read_table_text("kind,rooms,area\n1,2,3\n");
  CHECK(id_of([&] { encoder.encode(context, other); }) == "table.column");
  CHECK(id_of([&] { encoder.encode(context, table, std::vector<std::uint32_t>{4}); }) ==
        "table.rows");
  CHECK(TableEncoder::fit(table, "kind", first_rows(3)).classes().size() == 2);
  CHECK(id_of([&] { TableEncoder::fit(table, "area", first_rows(3)); }) == "table.cell");
  CHECK(id_of([&] { TableEncoder::fit(table, "price", {}); }) == "table.rows");
  // A column of one value, and one whose squares are beyond a double.
  const Table flat = read_table_text("a,b\n7,1\n7,2\n");
  CHECK(TableEncoder::fit(flat, "b", first_rows(2)).encode(context, flat).span<float>()[1] == 0);
  const Table huge = read_table_text("a,b\n1e300,1\n-1e300,2\n");
  CHECK(id_of([&] { TableEncoder::fit(huge, "b", first_rows(2)); }) == "table.cell");
}

TEST_CASE("an encoder comes back from its JSON to the last bit, and nothing else does", "[unit]") {
  auto context = make_context({.threads = 1});
  std::string content = "x,kind,y\n";
  for (int i = 0; i < 50; ++i)
    content += std::to_string(i * 0.1 / 3) + ",\"k" + std::to_string(i % 3) + " \xC3\xA4\"," +
               std::to_string(i * i) + "\n";
  const Table table = read_table_text(content);
  const TableEncoder encoder = TableEncoder::fit(table, "y", first_rows(40));
  const std::string json = encoder.to_json();
  const TableEncoder again = TableEncoder::from_json(json, "test");
  CHECK(again == encoder);
  CHECK(again.target().mean == encoder.target().mean);
  const Tensor a = encoder.encode(context, table), b = again.encode(context, table);
  CHECK(std::equal(a.span<float>().begin(), a.span<float>().end(), b.span<float>().begin()));

  const auto load = [](std::string_view text) { TableEncoder::from_json(text, "test"); };
  for (std::size_t length = 0; length + 1 < json.size(); ++length)
    CHECK(id_of([&] { load(std::string_view(json).substr(0, length)); }) == "table.json");
  std::size_t refused = 0;
  for (std::size_t at = 0; at < json.size(); ++at)
    for (const char letter : {'\0', '"', '{', '-', '9'}) {
      std::string damaged = json;
      damaged[at] = letter;
      const std::string id = id_of([&] { load(damaged); });
      refused += id == "table.json" ? 1u : 0u;
      CHECK((id == "no error" || id == "table.json"));
    }
  CHECK(refused > json.size());
  CHECK(id_of([&] { load("[1]"); }) == "table.json");
  CHECK(id_of([&] { load(std::string(100000, '[')); }) == "table.json");
}

TEST_CASE("a split is a function of count and seed, of the size that was asked for", "[unit]") {
  const data::RowSplit split = data::split_rows(1000, 0.25, 7);
  CHECK(split.validation.size() == 250);
  std::vector<std::uint32_t> all = split.train;
  all.insert(all.end(), split.validation.begin(), split.validation.end());
  std::sort(all.begin(), all.end());
  CHECK(all == first_rows(1000));
  CHECK(std::is_sorted(split.train.begin(), split.train.end()));
  CHECK(data::split_rows(1000, 0.25, 7).validation == split.validation);
  CHECK(data::split_rows(1000, 0.25, 8).validation != split.validation);
  // Known answers: the mapping is the same on every machine.
  CHECK(data::split_rows(10, 0.3, 1).validation == std::vector<std::uint32_t>{4, 5, 8});
  // Rows of each tenth are held out as often as others: 4 deviations of a binomial of 25 %.
  for (std::uint32_t tenth = 0; tenth < 10; ++tenth) {
    int count = 0;
    for (const std::uint32_t row : split.validation) count += row / 100 == tenth ? 1 : 0;
    CHECK(std::abs(count - 25) <= 17);
  }
  CHECK(data::split_rows(2, 0.01, 0).validation.size() == 1);
  CHECK(data::split_rows(2, 0.99, 0).train.size() == 1);
  for (const double share : {0.0, 1.0, -0.5, std::nan("")})
    CHECK(id_of([&] { data::split_rows(10, share, 0); }) == "data.split");
  CHECK(id_of([] { data::split_rows(1, 0.5, 0); }) == "data.split");
}

namespace {

constexpr std::string_view series =
    "series,day,place,wind,state\n"
    "a,1,north,3,calm\n"
    "a,2,south,5,storm\n"
    "b,1,,7,calm\n"
    "b,2,east,9,calm\n"
    "b,3,north,1,storm\n"
    "a,1,south,2,calm\n";

}  // namespace

TEST_CASE("categories are ids of one table, and a target of categories gives classes", "[unit]") {
  auto context = make_context();
  const Table table = read_table_text(series);
  const TableEncoder encoder =
      TableEncoder::fit(table, "state", first_rows(3), {.left_out = {"series"}, .codes = true});
  CHECK(encoder.classes() == std::vector<std::string>{"calm", "storm"});
  CHECK(encoder.width() == 2);      // day and wind
  CHECK(encoder.code_rows() == 3);  // unknown, north, south
  const std::vector<std::uint32_t> rows = first_rows(6);
  const Tensor codes = encoder.codes(context, table, rows);
  REQUIRE(codes.shape() == Shape{6, 1});
  const std::vector<std::int32_t> ids(codes.span<std::int32_t>().begin(),
                                      codes.span<std::int32_t>().end());
  CHECK(ids == std::vector<std::int32_t>{1, 2, 0, 0, 1, 2});
  CHECK(encoder.encode(context, table, rows).shape() == Shape{6, 2});
  const Tensor states = encoder.targets(context, table, rows);
  REQUIRE(states.dtype() == DType::int64);
  CHECK(states.span<std::int64_t>()[4] == 1);
  CHECK(states.span<std::int64_t>()[5] == 0);
  CHECK(TableEncoder::from_json(encoder.to_json(), "test") == encoder);
  CHECK(TableEncoder::from_json(encoder.to_json(), "test").code_rows() == 3);
  // Ids of two columns do not meet.
  const TableEncoder both = TableEncoder::fit(table, "wind", rows, {.codes = true});
  const Tensor three = both.codes(context, table, rows);
  REQUIRE(three.shape() == Shape{6, 3});
  CHECK(three.span<std::int32_t>()[0] == 1);      // series: 0 to 2
  CHECK(three.span<std::int32_t>()[1] == 3 + 2);  // place: 3 to 6; north behind east
  CHECK(three.span<std::int32_t>()[2] == 7 + 1);  // state: 7 to 9
  CHECK(both.code_rows() == 10);
}

TEST_CASE("what an encoder cannot give is refused", "[unit]") {
  auto context = make_context();
  const Table table = read_table_text(series);
  const std::vector<std::uint32_t> calm{0, 2, 3}, rows = first_rows(6);
  const TableEncoder encoder = TableEncoder::fit(table, "state", calm);
  CHECK(message_of([&] { encoder.targets(context, table, rows); }) ==
        "TableEncoder::targets: target \"state\" in row 2 of \"" + table.source +
            "\" is \"storm\", wanted a class that a fitted row has [table.cell]");
  CHECK(id_of([&] { encoder.codes(context, table, rows); }) == "table.column");
  CHECK(id_of([&] { TableEncoder::fit(table, "state", calm, {.left_out = {"nobody"}}); }) ==
        "table.column");
  const std::string json = encoder.to_json();
  REQUIRE(json.find("\"version\": 2") != std::string::npos);
  std::string first = json;
  first.replace(first.find("\"version\": 2"), 12, "\"version\": 1");
  CHECK(id_of([&] { TableEncoder::from_json(first, "test"); }) == "table.json");
  CHECK(TableEncoder::fit(table, "wind", rows).to_json().find("\"version\": 1") !=
        std::string::npos);
}

TEST_CASE("neighbouring rows of one cell are a sequence", "[unit]") {
  const Table table = read_table_text(series);
  const text::RowGroups groups(table, "series");
  CHECK(groups.lengths == std::vector<std::size_t>{2, 3, 1});
  CHECK(groups.first_rows == std::vector<std::uint32_t>{0, 2, 5});
  CHECK(groups.rows == first_rows(6));
  CHECK(groups.groups == std::vector<std::int64_t>{0, 0, 1, 1, 1, 2});
  const std::vector<std::uint32_t> some{5, 0, 1, 4};
  const text::RowGroups chosen(table, "series", some);
  CHECK(chosen.lengths == std::vector<std::size_t>{3, 1});
  CHECK(chosen.first_rows == std::vector<std::uint32_t>{5, 4});
  CHECK(text::RowGroups(table, "day").lengths.size() == 6);
  CHECK(message_of([&] { text::RowGroups(table, "place"); }) ==
        "RowGroups: column \"place\" in row 3 of \"" + table.source +
            "\" is missing, wanted a cell [table.cell]");
}
