// Documents as batches for models that predict the next token.

#include <soma/soma.hpp>

#include <soma/data/document_source.hpp>
#include <soma/data/part.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

using namespace soma;
using data::DocumentLists;
using data::DocumentSource;
using soma_test::id_of;

namespace {

constexpr std::int32_t end_of_text = 7;

// Documents of these many tokens, each token with an id of its own but the last, which is
// end_of_text.
DocumentLists documents_of(std::initializer_list<std::size_t> lengths) {
  DocumentLists documents;
  std::int32_t next = 100;
  for (const std::size_t length : lengths) {
    std::vector<std::int32_t> ids;
    for (std::size_t i = 0; i + 1 < length; ++i) ids.push_back(next++);
    ids.push_back(end_of_text);
    documents.add(ids);
  }
  return documents;
}

std::vector<data::Batch> batches_of(DocumentSource& source) {
  std::vector<data::Batch> all;
  source.seek({});
  for (data::Batch batch; source.next(batch);) all.push_back(batch);
  return all;
}

std::span<const std::int32_t> targets_of(const data::Batch& batch) {
  return batch.at(data::targets_field).span<std::int32_t>();
}

}  // namespace

TEST_CASE("a row's target is the token behind it, of its own document", "[unit][data]") {
  auto context = make_context({.threads = 1});
  const DocumentLists documents = documents_of({5, 2, 4});
  DocumentSource source(context, documents, {}, {.batch_sequences = 3, .shuffle = false});
  const std::vector<data::Batch> all = batches_of(source);
  REQUIRE(all.size() == 1);
  const Sequences& sequences = all[0].inputs.sequences;
  REQUIRE(sequences.count() == 3);
  const auto ids = all[0].inputs.rows.span<std::int32_t>();
  // The last token of a document is a target and no row, so nothing predicts the next document.
  CHECK(std::vector<std::int32_t>(ids.begin(), ids.end()) ==
        std::vector<std::int32_t>{100, 101, 102, 103, 104, 105, 106, 107});
  const auto targets = targets_of(all[0]);
  CHECK(std::vector<std::int32_t>(targets.begin(), targets.end()) ==
        std::vector<std::int32_t>{101, 102, 103, 7, 7, 106, 107, 7});
  CHECK(source.targets() == 8);
  CHECK(data::count_targets(all[0].at(data::targets_field)) == 8);
}

TEST_CASE("windows of a long document have each token as a target once", "[unit][data]") {
  auto context = make_context({.threads = 1});
  for (const std::size_t tokens : {2, 4, 5, 6, 9, 10, 11, 30})
    for (const std::size_t overlap : {0, 1, 3}) {
      INFO(tokens << " tokens, overlap " << overlap);
      constexpr std::size_t length = 4;
      DocumentSource source(context, documents_of({tokens, 3}), {length, overlap},
                            {.batch_sequences = 2, .shuffle = false});
      std::map<std::int32_t, std::size_t> times;
      std::size_t seen_ends = 0;
      for (const data::Batch& batch : batches_of(source)) {
        const Sequences& sequences = batch.inputs.sequences;
        const auto ids = batch.inputs.rows.span<std::int32_t>();
        const auto targets = targets_of(batch);
        for (std::size_t i = 0; i < sequences.count(); ++i) {
          CHECK(sequences.length(i) <= length);
          // Nothing is padded, and the end is no row: no window but the last ends with it.
          for (std::size_t row = sequences.begin(i); row < sequences.end(i); ++row) {
            CHECK(ids[row] != end_of_text);
            if (targets[row] == data::no_target) continue;
            ++times[targets[row]];
            if (targets[row] == end_of_text) ++seen_ends;
            if (row + 1 < sequences.end(i)) CHECK(targets[row] == ids[row + 1]);
          }
          CHECK(targets[sequences.end(i) - 1] != data::no_target);
        }
      }
      CHECK(seen_ends == 2);
      std::size_t all = 0;
      for (const auto& [id, count] : times) {
        if (id != end_of_text) CHECK(count == 1);
        all += count;
      }
      CHECK(all == tokens - 1 + 2);
      CHECK(source.targets() == all);
    }
}

TEST_CASE("a document of exactly the length is one window", "[unit][data]") {
  const auto count = [](std::size_t tokens) {
    return data::windows_of(documents_of({tokens}), {.length = 8}).size();
  };
  CHECK(count(8) == 1);
  CHECK(count(9) == 1);  // 8 rows, one fewer than tokens
  CHECK(count(10) == 2);
  // The first window is whole; with an overlap the others see that many rows before theirs.
  const auto windows = data::windows_of(documents_of({22}), {.length = 8, .overlap = 6});
  REQUIRE(windows.size() == 8);
  CHECK(windows[0].end - windows[0].first == 8);
  CHECK(windows[1].begin == 2);
  CHECK(windows[1].first == 8);
  CHECK(windows[1].end == 10);
  CHECK(windows[7].end == 21);
}

TEST_CASE("the first token of an answer is a target, and none of its prompt", "[unit][data]") {
  auto context = make_context({.threads = 1});
  DocumentLists documents;
  documents.add(std::vector<std::int32_t>{10, 11, 12, 13, 14, 7}, 3);  // the answer: 13, 14, 7
  documents.add(std::vector<std::int32_t>{20, 21, 7});
  DocumentSource source(context, documents, {}, {.batch_sequences = 2, .shuffle = false});
  const std::vector<data::Batch> all = batches_of(source);
  const auto targets = targets_of(all.at(0));
  CHECK(std::vector<std::int32_t>(targets.begin(), targets.end()) ==
        std::vector<std::int32_t>{-100, -100, 13, 14, 7, 21, 7});
  // Windows of a prompt alone teach nothing.
  const auto windows = data::windows_of(documents, {.length = 2});
  REQUIRE(windows.size() == 3);
  CHECK(windows[0].begin == 2);
  CHECK(windows[0].first == 2);
}

TEST_CASE("documents without a target are left out and counted", "[unit][data]") {
  auto context = make_context({.threads = 1});
  DocumentLists documents = documents_of({1, 5, 1});
  documents.add(std::vector<std::int32_t>{});
  DocumentSource source(context, documents, {}, {});
  CHECK(source.left_out() == 3);
  CHECK(source.windows().size() == 1);
  CHECK(id_of([&] { DocumentSource(context, documents_of({1, 1}), {}, {}); }) == "data.empty");
  CHECK(id_of([&] { DocumentSource(context, documents, {.length = 0}, {}); }) == "train.options");
  CHECK(id_of([&] { DocumentSource(context, documents, {.length = 3, .overlap = 3}, {}); }) ==
        "train.options");
  documents.first_targets = {1};
  CHECK(id_of([&] { DocumentSource(context, documents, {}, {}); }) == "data.labels");
  documents.first_targets = {1, 0, 1, 1};
  CHECK(id_of([&] { DocumentSource(context, documents, {}, {}); }) == "data.labels");
  documents.offsets.back() += 1;
  CHECK(id_of([&] { DocumentSource(context, documents, {}, {}); }) == "data.offsets");
}

TEST_CASE("targets follow the parts and the limits of batches of documents", "[unit][data]") {
  auto context = make_context({.threads = 1});
  DocumentSource source(context, documents_of({5, 9, 3, 7}), {},
                        {.batch_sequences = 0, .batch_tokens = 12, .seed = 3});
  std::size_t targets = 0;
  for (const data::Batch& batch : batches_of(source)) {
    CHECK(batch.inputs.sequences.rows() <= 12);
    const std::size_t whole = data::count_targets(batch.at(data::targets_field));
    std::size_t parts = 0;
    for (std::size_t shard = 0; shard < batch.inputs.sequences.shards(); ++shard)
      parts += data::count_targets(data::part_of(context, batch, shard, 1).at(data::targets_field));
    CHECK(parts == whole);
    targets += whole;
  }
  CHECK(targets == source.targets());
  // Other windows or targets are other data.
  DocumentLists answers = documents_of({5, 9, 3, 7});
  answers.first_targets = {1, 2, 1, 1};
  CHECK(DocumentSource(context, answers, {}, {}).hash() !=
        DocumentSource(context, documents_of({5, 9, 3, 7}), {}, {}).hash());
}
