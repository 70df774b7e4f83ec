// Batches streamed from a file: every row once an epoch, exact positions, and errors that stay.

#include <soma/data/prefetch.hpp>
#include <soma/soma.hpp>
#include <soma/text/stream_source.hpp>

#include "catch.hpp"
#include "data/batches.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "text/files.hpp"

#include <cstddef>
#include <cstdint>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

using namespace soma;
using namespace soma_test;
using text::StreamOptions;
using text::StreamSource;

namespace {

constexpr std::size_t row_count = 100;

// Row k is the text "k" of label k % 2.
std::string numbered_rows() {
  std::string content;
  for (std::size_t k = 0; k < row_count; ++k)
    content += std::to_string(k) + (k % 2 == 0 ? "\teven\n" : "\todd\n");
  return content;
}
const std::vector<std::string> labels = {"even", "odd"};

// The number, as often as list_length says.
void repeat_number(std::string_view text, std::vector<std::int32_t>& ids) {
  const std::size_t k = std::stoul(std::string(text));
  ids.insert(ids.end(), list_length(k), static_cast<std::int32_t>(k));
}

// The numbers of an epoch in their order. Checks labels and lengths.
std::vector<std::size_t> epoch_of(StreamSource& source) {
  std::vector<std::size_t> order;
  data::Batch batch;
  while (source.next(batch)) {
    const Sequences& sequences = batch.inputs.sequences;
    CHECK(sequences.rows() <= source.largest_rows());
    CHECK(sequences.count() <= source.largest_sequences());
    for (std::size_t i = 0; i < sequences.count(); ++i) {
      const auto k =
          static_cast<std::size_t>(batch.inputs.rows.span<std::int32_t>()[sequences.begin(i)]);
      CHECK(sequences.length(i) == list_length(k));
      CHECK(batch.labels.span<std::int64_t>()[i] == static_cast<std::int64_t>(k % 2));
      order.push_back(k);
    }
  }
  return order;
}

}  // namespace

TEST_CASE("a stream holds every row once an epoch, in an order of its own", "[unit][text]") {
  auto context = make_context();
  const TemporaryFolder folder;
  write_text(folder / "a.tsv", numbered_rows());
  write_gzip(folder / "b.tsv.gz", numbered_rows());
  const std::size_t buffer = GENERATE(1u, 10u, 1000u), tokens = GENERATE(0u, 30u);
  const StreamOptions options{
      .batches = {.batch_tokens = tokens, .seed = 5}, .buffer_rows = buffer, .max_tokens = 13};
  StreamSource source(context, folder / "a.tsv", labels, repeat_number, options);
  CHECK(source.batches(0) == 0);
  const auto first = epoch_of(source), second = epoch_of(source);
  CHECK(first.size() == row_count);
  CHECK(std::set(first.begin(), first.end()).size() == row_count);
  CHECK(std::set(second.begin(), second.end()).size() == row_count);
  CHECK((first != second) == (buffer > 1));
  for (std::size_t place = 0; place < row_count; ++place) CHECK(first[place] < place + buffer);
  StreamSource packed(context, folder / "b.tsv.gz", labels, repeat_number, options);
  CHECK(epoch_of(packed) == first);
}

TEST_CASE("after a seek a stream goes on as before", "[unit][text]") {
  auto context = make_context();
  const TemporaryFolder folder;
  write_text(folder / "a.tsv", numbered_rows());
  const std::size_t tokens = GENERATE(0u, 30u);
  const StreamOptions options{.batches = {.batch_sequences = 7, .batch_tokens = tokens, .seed = 5},
                              .buffer_rows = 10};
  StreamSource source(context, folder / "a.tsv", labels, repeat_number, options);
  const auto recorded = record(source, 2);
  StreamSource other(context, folder / "a.tsv", labels, repeat_number, options);
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    const std::size_t at = (i * 7) % recorded.size();
    other.seek(recorded[at].position);
    CHECK(other.position() == recorded[at].position);
    data::Batch batch;
    CHECK(other.next(batch) == recorded[at].is_batch);
    if (recorded[at].is_batch) CHECK(hash_of(batch) == recorded[at].hash);
  }
  CHECK(id_of([&] { other.seek({1, 1000}); }) == "data.position");
  CHECK(other.hash() == source.hash());

  StreamSource behind(context, folder / "a.tsv", labels, repeat_number, options);
  data::Prefetch prefetch(behind);
  const auto ahead = record(prefetch, 2);
  REQUIRE(ahead.size() == recorded.size());
  for (std::size_t i = 0; i < ahead.size(); ++i) CHECK(ahead[i].hash == recorded[i].hash);
}

TEST_CASE("a stream's hash depends on content and settings", "[unit][text]") {
  auto context = make_context();
  const TemporaryFolder folder;
  const auto hash = [&](const std::string& content, const StreamOptions& options = {}) {
    write_text(folder / "a.tsv", content);
    return StreamSource(context, folder / "a.tsv", labels, repeat_number, options).hash();
  };
  const std::uint64_t first = hash(numbered_rows());
  CHECK(first == hash(numbered_rows()));
  std::set<std::uint64_t> hashes{first};
  hashes.insert(hash(numbered_rows() + "7\teven\n"));
  hashes.insert(hash(numbered_rows(), {.batches = {.seed = 1}}));
  hashes.insert(hash(numbered_rows(), {.buffer_rows = 1}));
  hashes.insert(hash(numbered_rows(), {.settings = 1}));
  hashes.insert(hash(numbered_rows(), {.rows = {.label_column = "2"}}));
  CHECK(hashes.size() == 6);
}

TEST_CASE("a stream hands on numbers", "[unit][text]") {
  auto context = make_context();
  const TemporaryFolder folder;
  write_text(folder / "a.tsv", "1\t0.5\n2\t-2\n");
  StreamOptions options;
  options.rows.labels = data::LabelKind::number;
  options.batches.shuffle = false;
  StreamSource source(context, folder / "a.tsv", {}, repeat_number, options);
  data::Batch batch;
  REQUIRE(source.next(batch));
  CHECK(batch.labels.dtype() == DType::fp32);
  CHECK(batch.labels.span<float>()[0] == 0.5f);
  CHECK(batch.labels.span<float>()[1] == -2);
}

TEST_CASE("a pipe cannot be streamed, and merged labels can", "[unit][text]") {
  auto context = make_context();
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe.tsv";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);  // nobody writes: the answer must not wait
  for (const std::string& path : {pipe, std::string("-")})
    CHECK(message_of([&] { StreamSource(context, path, labels, repeat_number); }) ==
          "StreamSource: file is \"" + path +
              "\", a pipe, wanted a file, because each epoch reads it "
              "again [file.read]");
  write_text(folder / "a.tsv", "0\teven\n1\todd\n2\te\u00adven\n");
  StreamOptions options{.batches = {.batch_sequences = 3, .shuffle = false}};
  data::Batch batch;
  StreamSource apart(context, folder / "a.tsv", labels, repeat_number, options);
  CHECK(message_of([&] { apart.next(batch); })
            .ends_with("wanted \"even\", which is the same, or merge_labels (--merge-labels) "
                       "[text.label_unseen]"));
  options.rows.merge_labels = true;
  StreamSource merged(context, folder / "a.tsv", labels, repeat_number, options);
  CHECK(merged.hash() != apart.hash());
  REQUIRE(merged.next(batch));
  CHECK(batch.labels.span<std::int64_t>()[2] == 0);
}

TEST_CASE("a stream's errors name the line, and stay", "[unit][text]") {
  auto context = make_context();
  const TemporaryFolder folder;
  const auto start = [&](const std::string& content, const StreamOptions& options) {
    write_text(folder / "a.tsv", content);
    return StreamSource(context, folder / "a.tsv", labels, repeat_number, options);
  };
  const StreamOptions in_order{.batches = {.batch_sequences = 2, .shuffle = false},
                               .max_tokens = 8};
  const auto second_batch = [&](StreamSource&& source) {
    data::Batch batch;
    CHECK(source.next(batch));
    std::string message = message_of([&] { source.next(batch); });
    CHECK(source.position() == data::Position{0, 1});
    CHECK(message_of([&] { source.next(batch); }) == message);
    source.seek({0, 0});
    CHECK(source.next(batch));
    const std::size_t at = message.find(folder.path());
    if (at != std::string::npos) message.replace(at, folder.path().size(), "F");
    return message;
  };
  CHECK(second_batch(start("0\teven\n2\teven\n1\tother\n", in_order)) ==
        "StreamSource: label in line 3 of \"F/a.tsv\" is \"other\", wanted one of 2 that are "
        "known, such as "
        "\"even\" "
        "[text.label_unseen]");
  CHECK(
      second_batch(start("0\teven\n2\teven\n12\teven\n9\todd\n", in_order)) ==
      "StreamSource: line 4 of \"F/a.tsv\" is encoded as 12 tokens, wanted at most 8 (max_tokens) "
      "[data.too_long]");
  CHECK(second_batch(start("0\teven\n2\teven\n12\n", in_order)).ends_with("[text.row_columns]"));
  CHECK(id_of([&] { StreamSource(context, folder / "no.tsv", labels, repeat_number); }) ==
        "file.read");
  CHECK(id_of([&] { StreamSource(context, folder / "a.tsv", {}, repeat_number); }) == "data.empty");
  CHECK(id_of([&] {
          StreamSource(context, folder / "a.tsv", labels, repeat_number,
                       {.batches = {.batch_sequences = 0}});
        }) == "data.batch_size");

  // Room for tensors comes back.
  std::size_t left = 1;
  struct Limited {
    std::size_t& left;
    void* allocate(std::size_t bytes, std::size_t alignment) {
      if (left == 0) throw std::bad_alloc();
      --left;
      return ::operator new(bytes, std::align_val_t(alignment));
    }
    void deallocate(void* block, std::size_t, std::size_t alignment) {
      ::operator delete(block, std::align_val_t(alignment));
    }
  } limited{left};
  auto small = make_context({.memory = &limited, .threads = 1});
  write_text(folder / "a.tsv", numbered_rows());
  StreamSource starved(small, folder / "a.tsv", labels, repeat_number,
                       {.batches = {.batch_sequences = 2, .shuffle = false}, .max_tokens = 64});
  std::vector<std::byte*> taken;
  left = 0;
  const auto take_all = [&] {
    try {
      while (true) taken.push_back(static_cast<std::byte*>(small.heap().allocate(64)));
    } catch (const Error&) {
    }
  };
  take_all();
  data::Batch rest;
  CHECK(id_of([&] { starved.next(rest); }) == "memory.exhausted");
  CHECK(starved.position() == data::Position{0, 0});
  left = 100;
  CHECK(starved.next(rest));
  CHECK(rest.inputs.rows.span<std::int32_t>()[0] == 0);
  CHECK(starved.position() == data::Position{0, 1});
  for (std::byte* block : taken) small.heap().deallocate(block);

  StreamSource changing = start(numbered_rows(), in_order);
  write_text(folder / "a.tsv", numbered_rows() + numbered_rows());
  data::Batch batch;
  CHECK(id_of([&] { changing.next(batch); }) == "text.file_changed");
}
