// Sparse points from text: what is read, and what is refused with the line that is to blame.

#include <soma/data/part.hpp>
#include <soma/soma.hpp>
#include <soma/text/xmc_reader.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "text/files.hpp"

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

using namespace soma;
using soma_test::contains;
using soma_test::id_of;
using soma_test::message_of;
using text::read_xmc_text;

namespace {

std::string id_of_text(std::string_view content, const text::XmcOptions& options = {}) {
  return id_of([&] { read_xmc_text(content, "memory", options); });
}

}  // namespace

TEST_CASE("points of a sparse file with and without a first line", "[unit]") {
  const std::string rows = "2,0 1:0.5 3:-2e1\n 0:1\n1\n3:1 0:2\n";
  for (const bool header : {true, false})
    for (const std::string_view end : {"\n", "\r\n"}) {
      std::string content = (header ? "4 10 5\n" : "") + rows;
      if (end == "\r\n")
        for (std::size_t at = 0; (at = content.find('\n', at)) != content.npos; at += 2)
          content.replace(at, 1, end);
      const data::SparsePoints points = read_xmc_text(content);
      CHECK(points.features == (header ? 10 : 4));
      CHECK(points.classes == (header ? 5 : 3));
      CHECK(points.offsets == std::vector<std::size_t>{0, 2, 3, 3, 5});
      CHECK(points.ids == std::vector<std::int32_t>{1, 3, 0, 3, 0});
      CHECK(points.values == std::vector<float>{0.5f, -20.0f, 1, 1, 2});
      CHECK(points.labels.offsets == std::vector<std::size_t>{0, 2, 2, 3, 3});
      CHECK(points.labels.ids == std::vector<std::int32_t>{0, 2, 1});  // in order
    }
  const std::string file =
      (std::filesystem::temp_directory_path() / ("soma_xmc_" + std::to_string(::getpid())))
          .string();
  soma_test::write_gzip(file, "3 4 5\n" + rows.substr(0, rows.rfind("3:1")));
  CHECK(text::read_xmc(file).ids == std::vector<std::int32_t>{1, 3, 0});
  std::filesystem::remove(file);
  const data::SparsePoints counted_from_one =
      read_xmc_text("0 1:1 5:2", "memory", {.first_feature = 1});
  CHECK(counted_from_one.ids == std::vector<std::int32_t>{0, 4});
  CHECK(counted_from_one.features == 5);
  CHECK(read_xmc_text("1 0:1", "memory", {.features = 7, .classes = 9}).classes == 9);
}

TEST_CASE("signs, query numbers, comments and blank lines of sparse files", "[unit]") {
  const std::string content =
      "# by a program\n\n3 6 5\n+1,2 qid:7 1:+0.5 3:-2 # 9:9\n\n2 qid:8 0:+.25#\n \n#\n";
  std::vector<std::string> notes;
  const data::SparsePoints points = read_xmc_text(content, "points.txt", {.notes = &notes});
  CHECK(points.offsets == std::vector<std::size_t>{0, 2, 3, 3});
  CHECK(points.ids == std::vector<std::int32_t>{1, 3, 0});
  CHECK(points.values == std::vector<float>{0.5f, -2, 0.25f});
  CHECK(points.labels.ids == std::vector<std::int32_t>{1, 2, 2});
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], contains("2 points of \"points.txt\""));
  // Each line has an answer, but the first line's count is still that of the points.
  const data::SparsePoints lines =
      read_xmc_text("2 6 5\n0:1\n\n 2:1\n\n", "memory", {.blank_points = true});
  CHECK(lines.offsets == std::vector<std::size_t>{0, 1, 1, 2, 2});
  CHECK(lines.labels.count() == 4);
  CHECK(id_of_text("3 6 5\n0:1\n\n 2:1\n", {.blank_points = true}) == "text.xmc_header");
  for (const char* const row : {"++1 1:1", "+-1 1:1", "+ 1:1", "1 1:++1", "1 1:+-1", "1 1:+",
                                "1 1:+inf", "1 1:1 qid:3", "1 qid", "1 +1:1"}) {
    INFO(row);
    CHECK(id_of_text(row) == "text.xmc_row");
  }
  CHECK_THAT(message_of([] { read_xmc_text("1 0:1 1:1\n", "memory", {.max_line_bytes = 8}); }),
             contains("max_line_bytes"));
}

TEST_CASE("sparse files that cannot be are refused", "[unit]") {
  CHECK(id_of_text("") == "text.file_empty");
  CHECK(id_of_text("0 5 5\n") == "text.file_empty");
  for (const char* const row :
       {"1 a:1", "1 1:", "1 1:x", "1 1:nan", "1 1:inf", "1 1:1e39", "1 -1:1", "1 1:1:1", "1 7",
        "x 1:1", "1, 1:1", ",1 1:1", "1,1 0:1", "1 2:1 2:3", "1 3:1 2:3 3:1", "1 2147483648:1",
        "99999999999999999999 1:1", "1.5 1:1", "-1 1:1"}) {
    INFO(row);
    CHECK(id_of_text(std::string("0 0:1\n") + row + "\n") == "text.xmc_row");
    CHECK_THAT(message_of([&] { read_xmc_text(std::string("0 0:1\n") + row, "points.txt"); }),
               contains("line 2 of \"points.txt\""));
  }
  CHECK(id_of_text("1 3 2\n2 0:1\n") == "text.xmc_row");     // a label beyond the first line's
  CHECK(id_of_text("1 3 2\n1 3:1\n") == "text.xmc_row");     // a feature
  CHECK(id_of_text("2 3 2\n1 0:1\n") == "text.xmc_header");  // one point
  CHECK(id_of_text("1 0 2\n1 0:1\n") == "text.xmc_header");
  CHECK(id_of_text("1 9999999999 2\n1 0:1\n") == "text.xmc_header");
  CHECK(id_of_text("1 9 2\n1 0:1\n", {.features = 8}) == "text.xmc_header");
  CHECK(id_of_text("1 8:1\n", {.features = 8}) == "text.xmc_row");
  CHECK(id_of_text("1 0:1\n", {.first_feature = 1}) == "text.xmc_row");
  CHECK(id_of_text("1 0:1 1:1 2:1\n", {.max_line_bytes = 8}) == "text.xmc_row");
  CHECK(id_of([] { text::read_xmc("no/such/file"); }) == "file.read");
}

TEST_CASE("batches of sparse points have values and lists of labels", "[unit]") {
  auto context = make_context({.threads = 1});
  const auto read = [] { return read_xmc_text("2,0 1:0.5 3:-2\n 0:1\n1\n0 3:1 0:2\n2 2:4\n"); };
  data::PointSource source(context, read(), {.batch_sequences = 4, .shuffle = false, .shards = 2});
  CHECK(source.batches(0) == 2);
  data::Batch batch;
  REQUIRE(source.next(batch));
  CHECK(batch.inputs.sequences.count() == 4);
  CHECK(batch.inputs.sequences.length(2) == 0);
  CHECK(batch.inputs.rows.span<std::int32_t>()[3] == 3);
  CHECK(batch.values.span<float>()[1] == -2);
  CHECK(batch.label_lists.count() == 4);
  CHECK(batch.label_lists.list(0).size() == 2);
  CHECK(batch.label_lists.list(1).empty());
  const data::Batch part = data::part_of(context, batch, 1, 1);
  CHECK(part.values.elements() == part.inputs.rows.elements());
  CHECK(part.label_lists.count() == part.inputs.sequences.count());
  const std::uint64_t hash = source.hash();
  data::SparsePoints other = read();
  other.values[0] = 0.25f;
  CHECK(data::PointSource(context, other, {.batch_sequences = 4, .shuffle = false, .shards = 2})
            .hash() != hash);

  const auto id_with = [&](const auto& change) {
    data::SparsePoints points = read();
    change(points);
    return id_of([&] { data::PointSource made(context, points, {}); });
  };
  CHECK(id_with([](auto& points) { points.ids[0] = 4; }) == "data.feature");
  CHECK(id_with([](auto& points) { points.ids[0] = -1; }) == "data.feature");
  CHECK(id_with([](auto& points) { points.values[2] = INFINITY; }) == "data.feature");
  CHECK(id_with([](auto& points) { points.values.pop_back(); }) == "data.offsets");
  CHECK(id_with([](auto& points) { points.offsets[1] = 99; }) == "data.offsets");
  CHECK(id_with([](auto& points) { points.labels.ids[0] = 3; }) == "data.labels");
  CHECK(id_with([](auto& points) { points.labels.offsets.pop_back(); }) == "data.labels");
  CHECK(id_with([](auto& points) { points = {}; }) == "data.empty");
}

TEST_CASE("the sparse files of a benchmark are read whole", "[unit]") {
  const std::string file = SOMA_TEST_SHARED "/data/bibtex/test.xmc.gz";
  if (!std::filesystem::exists(file)) SOMA_TEST_SKIP("there is no " + file);
  const data::SparsePoints points = text::read_xmc(file);
  CHECK(points.features == 1836);
  CHECK(points.classes == 159);
  CHECK(points.count() == 2515);
}
