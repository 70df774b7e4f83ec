// These tests check that what takes long with text ends when the host's flag is set.

#include <soma/data/batch.hpp>
#include <soma/soma.hpp>
#include <soma/text/labelled_text.hpp>
#include <soma/text/stream_source.hpp>
#include <soma/text/tokenizer.hpp>
#include <soma/text/train_vocabulary.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"

#include <string>
#include <string_view>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

// More than a reader keeps in memory at once.
std::string many_rows() {
  std::string rows;
  for (int i = 0; rows.size() < 3 * text::ByteSource::buffer_bytes; ++i)
    rows += "row number " + std::to_string(i) + "\t" + std::to_string(i % 2) + "\n";
  return rows;
}

}  // namespace

TEST_CASE("readers stop within a buffer", "[unit]") {
  const TemporaryFolder folder;
  const std::string file = folder / "rows.tsv";
  write_text(file, many_rows());
  StopFlag stop;
  const text::RowOptions options{.stop = &stop};
  text::RowReader reader(file, options);
  text::Row row;
  REQUIRE(reader.next(row));
  stop.request();
  std::size_t rows = 0;
  REQUIRE(id_of([&] {
            while (reader.next(row)) ++rows;
          }) == "runtime.stopped");
  REQUIRE(rows * 15 < text::ByteSource::buffer_bytes);
  REQUIRE(id_of([&] { text::read_labelled(file, {.rows = options}); }) == "runtime.stopped");
  stop.clear();
  REQUIRE(text::read_labelled(file, {.rows = options}).train().size() > rows);
}

TEST_CASE("a stream stops where it reads, and where it is hashed", "[unit]") {
  const TemporaryFolder folder;
  const std::string file = folder / "rows.tsv";
  write_text(file, many_rows());
  auto context = make_context();
  StopFlag stop;
  const auto encode = [](std::string_view, std::vector<std::int32_t>& ids) { ids.push_back(1); };
  text::StreamSource source(
      context, file, {"0", "1"}, encode,
      {.rows = {.stop = &stop}, .batches = {.batch_sequences = 4}, .buffer_rows = 1'000'000});
  stop.request();
  data::Batch batch;
  REQUIRE(id_of([&] { source.next(batch); }) == "runtime.stopped");
  REQUIRE(id_of([&] { source.hash(); }) == "runtime.stopped");
  REQUIRE(source.position() == data::Position{});
  stop.clear();
  REQUIRE(source.next(batch));
}

TEST_CASE("learning a vocabulary and tokenizing stop", "[unit]") {
  auto context = make_context();
  text::VocabularyTrainer trainer;
  for (int i = 0; i < 100; ++i) trainer.add("some words, one of them " + std::to_string(i));
  StopFlag stop;
  const text::TrainingOptions options{.size = 200, .stop = &stop};
  const text::Tokenizer tokenizer(trainer.train(options), {});
  const std::vector<std::string_view> texts(1000, "some words");
  REQUIRE(tokenizer.encode_all(context, std::span(texts), 16, &stop).offsets.size() == 1001);
  stop.request();
  REQUIRE(id_of([&] { trainer.train(options); }) == "runtime.stopped");
  REQUIRE(id_of([&] { tokenizer.encode_all(context, std::span(texts), 16, &stop); }) ==
          "runtime.stopped");
}
