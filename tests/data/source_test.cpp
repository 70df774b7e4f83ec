// Batches of token lists and of tensors: every item once an epoch, limits kept, positions exact.

#include <soma/data/array_source.hpp>
#include <soma/data/token_source.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "data/batches.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;
using data::ArraySource;
using data::BatchOptions;
using data::TokenSource;

TEST_CASE("an epoch holds every list once, with its label", "[unit][data]") {
  auto context = make_context();
  const auto [sequences, tokens] = GENERATE(table<std::size_t, std::size_t>(
      {{1, 0}, {7, 0}, {32, 0}, {200, 0}, {0, 1}, {0, 20}, {0, 5000}, {5, 30}}));
  const bool shuffle = GENERATE(true, false);
  CAPTURE(sequences, tokens, shuffle);
  TokenSource source(
      context, token_lists(100),
      {.batch_sequences = sequences, .batch_tokens = tokens, .shuffle = shuffle, .seed = 3});
  std::vector<std::string> orders;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::multiset<std::int32_t> seen;
    std::string order;
    data::Batch batch;
    std::uint64_t index = 0;
    while (source.next(batch)) {
      CHECK(batch.epoch == epoch);
      CHECK(batch.index == index++);
      CHECK(source.position() == data::Position{epoch, index});
      const Sequences& lists = batch.inputs.sequences;
      CHECK(batch.inputs.rows.describe() == "[" + std::to_string(lists.rows()) + "] int32");
      CHECK(batch.labels.shape() == Shape{lists.count()});
      CHECK_FALSE(batch.types.defined());
      CHECK(lists.shards() == default_shards);
      CHECK((sequences == 0 || lists.count() <= sequences));
      CHECK((tokens == 0 || lists.count() == 1 || lists.rows() <= tokens));
      CHECK(lists.rows() <= source.largest_rows());
      CHECK(lists.count() <= source.largest_sequences());
      for (std::size_t i = 0; i < lists.count(); ++i) {
        CHECK(lists.ordinal(i) == i);
        const auto ids =
            batch.inputs.rows.span<std::int32_t>().subspan(lists.begin(i), lists.length(i));
        // token_lists: list k is k, k + 1000, ... of a length and a label that follow from k.
        const auto k = static_cast<std::size_t>(ids[0]);
        CHECK(ids.size() == list_length(k));
        for (std::size_t j = 0; j < ids.size(); ++j)
          CHECK(ids[j] == static_cast<std::int32_t>(k + 1000 * j));
        CHECK(batch.labels.span<std::int64_t>()[i] == static_cast<std::int64_t>(k % 3));
        seen.insert(ids[0]);
        order += std::to_string(k) + " ";
      }
    }
    CHECK(index == source.batches(epoch));
    CHECK(seen.size() == 100);
    CHECK(std::set(seen.begin(), seen.end()).size() == 100);
    CHECK(source.position() == data::Position{epoch + 1, 0});
    orders.push_back(order);
  }
  CHECK((orders[0] == orders[1]) == !shuffle);
  CHECK((orders[1] == orders[2]) == !shuffle);
}

TEST_CASE("batches by tokens take lists while they fit", "[unit][data]") {
  auto context = make_context();
  data::TokenLists lists;
  for (const std::size_t length : {3u, 3u, 4u, 9u, 1u, 12u, 2u, 10u, 5u})
    lists.add(std::vector<std::int32_t>(length, 1), 0);
  const BatchOptions options{.batch_sequences = 0, .batch_tokens = 10, .shuffle = false};
  CHECK(shape_of(TokenSource(context, lists, options)) == "3+3+4 9+1 12 2 10 5 ");
  BatchOptions both = options;
  both.batch_sequences = 2;
  CHECK(shape_of(TokenSource(context, lists, both)) == "3+3 4 9+1 12 2 10 5 ");
  // The last batch reaches no limit; a last one of 10 tokens would stay.
  BatchOptions dropping = options;
  dropping.drop_last = true;
  TokenSource source(context, lists, dropping);
  CHECK(source.batches(0) == 5);
  CHECK(shape_of(source) == "3+3+4 9+1 12 2 10 ");
  CHECK(source.largest_rows() == 12);
  CHECK(source.largest_sequences() == 4);  // 1 + 2 + 3 + 3
}

TEST_CASE("an incomplete last batch is dropped where that is asked for", "[unit][data]") {
  auto context = make_context();
  const BatchOptions options{.batch_sequences = 32, .drop_last = true};
  TokenSource source(context, token_lists(100), options);
  CHECK(source.batches(0) == 3);
  data::Batch batch;
  for (int i = 0; i < 3; ++i) CHECK(source.next(batch));
  CHECK_FALSE(source.next(batch));
  CHECK(source.next(batch));
  CHECK(batch.epoch == 1);
  TokenSource exact(context, token_lists(96), options);
  CHECK(exact.batches(0) == 3);
  CHECK(id_of([&] { TokenSource(context, token_lists(31), options); }) == "data.empty");
}

TEST_CASE("after a seek come the batches that came before", "[unit][data]") {
  auto context = make_context();
  const std::size_t tokens = GENERATE(0u, 40u);
  const BatchOptions options{
      .batch_sequences = tokens == 0 ? 7u : 0u, .batch_tokens = tokens, .seed = 11};
  TokenSource source(context, token_lists(100), options), other(context, token_lists(100), options);
  const auto recorded = record(source, 3);
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    // Also backwards, and into another epoch.
    const std::size_t at = (i * 37) % recorded.size();
    other.seek(recorded[at].position);
    CHECK(other.position() == recorded[at].position);
    data::Batch batch;
    CHECK(other.next(batch) == recorded[at].is_batch);
    if (recorded[at].is_batch) CHECK(hash_of(batch) == recorded[at].hash);
  }
  const std::uint64_t count = source.batches(1);
  CHECK(message_of([&] {
          source.seek({1, count + 1});
        }) == "TokenSource: batch is " + std::to_string(count + 1) + ", wanted at most " +
                  std::to_string(count) + ", which epoch 1 has [data.position]");
}

TEST_CASE("batches keep their tensors", "[unit][data]") {
  auto context = make_context();
  TokenSource source(context, token_lists(20), {.batch_sequences = 4});
  data::Batch first, second;
  source.next(first);
  const std::uint64_t hash = hash_of(first);
  const data::Batch kept = first;
  source.next(first);
  source.next(second);
  CHECK(hash_of(kept) == hash);
  CHECK(hash_of(first) != hash);
}

TEST_CASE("types and missing labels are handed on", "[unit][data]") {
  auto context = make_context();
  const data::TokenLists lists{
      .ids = {5, 6, 7, 8, 9}, .types = {0, 1, 0, 1, 1}, .offsets = {0, 2, 5}, .labels = {}};
  TokenSource source(context, lists, {.batch_sequences = 2, .shuffle = false, .shards = 4});
  data::Batch batch;
  REQUIRE(source.next(batch));
  CHECK(std::ranges::equal(batch.types.span<std::int32_t>(), lists.types));
  CHECK(std::ranges::equal(batch.inputs.rows.span<std::int32_t>(), lists.ids));
  CHECK_FALSE(batch.labels.defined());
  CHECK(batch.inputs.sequences.shards() == 4);
}

TEST_CASE("the hash tells data and settings apart", "[unit][data]") {
  auto context = make_context();
  const auto hash = [&](const data::TokenLists& lists, const BatchOptions& options) {
    return TokenSource(context, lists, options).hash();
  };
  const data::TokenLists lists = token_lists(40);
  const std::uint64_t first = hash(lists, {});
  CHECK(first == hash(token_lists(40), {}));
  std::set<std::uint64_t> hashes{first};
  hashes.insert(hash(token_lists(41), {}));
  data::TokenLists changed = lists;
  changed.ids.back() ^= 1;
  hashes.insert(hash(changed, {}));
  changed = lists;
  changed.labels.front() ^= 1;
  hashes.insert(hash(changed, {}));
  changed = lists;
  ++changed.offsets[1];
  hashes.insert(hash(changed, {}));
  changed = lists;
  changed.types.assign(changed.ids.size(), 0);
  hashes.insert(hash(changed, {}));
  hashes.insert(hash(lists, {.batch_sequences = 31}));
  hashes.insert(hash(lists, {.batch_tokens = 100}));
  hashes.insert(hash(lists, {.shuffle = false}));
  hashes.insert(hash(lists, {.seed = 1}));
  hashes.insert(hash(lists, {.shards = 4}));
  hashes.insert(hash(lists, {.drop_last = true}));
  CHECK(hashes.size() == 12);
  // A seed that is not used makes no difference.
  CHECK(hash(lists, {.shuffle = false}) == hash(lists, {.shuffle = false, .seed = 9}));
}

TEST_CASE("lists that do not fit together are refused", "[unit][data]") {
  auto context = make_context();
  const auto message = [&](const data::TokenLists& lists, const BatchOptions& options = {}) {
    return message_of([&] { TokenSource(context, lists, options); });
  };
  CHECK(message({.ids = {1, 2}, .types = {}, .offsets = {0, 1}, .labels = {}}) ==
        "TokenSource: offsets is 0 to 1, wanted 0 to the number of ids, 2 [data.offsets]");
  CHECK(message({.ids = {1, 2}, .types = {}, .offsets = {}, .labels = {}})
            .ends_with("[data.offsets]"));
  CHECK(message({.ids = {1, 2}, .types = {}, .offsets = {1, 2}, .labels = {}})
            .ends_with("[data.offsets]"));
  CHECK(message({.ids = {1, 2}, .types = {}, .offsets = {0, 3, 2}, .labels = {}}) ==
        "TokenSource: offset 2 is 2, wanted at least 3 [data.offsets]");
  CHECK(message({.ids = {1, 2}, .types = {}, .offsets = {0, 1, 1, 2}, .labels = {}}) ==
        "TokenSource: list 1 is empty, wanted at least one token [ragged.empty_sequence]");
  CHECK(message({.ids = {1, 2}, .types = {0}, .offsets = {0, 2}, .labels = {}}) ==
        "TokenSource: types is 1, wanted none, or one for each id: 2 [data.offsets]");
  CHECK(message({.ids = {1, 2}, .types = {}, .offsets = {0, 2}, .labels = {1, 2}}) ==
        "TokenSource: labels is 2, wanted none, or one for each list: 1 [data.labels]");
  data::TokenLists lists{.ids = {1, 2}, .offsets = {0, 1, 2}, .labels = {1, 2}, .numbers = {1, 2}};
  CHECK(message(lists) ==
        "TokenSource: labels is of several kinds, wanted none, or one for each list: 2 "
        "[data.labels]");
  lists.labels = {};
  lists.numbers = {1};
  CHECK(message(lists).ends_with("[data.labels]"));
  lists.numbers = {};
  lists.label_lists = {.offsets = {0, 2, 1}, .ids = {0}};
  CHECK(message(lists) ==
        "TokenSource: offsets of label_lists is 0 to 1, wanted ascending from 0 to the number of "
        "its ids, 1 [data.offsets]");
  lists.label_lists.offsets = {0, 1};
  CHECK(message(lists).ends_with("[data.labels]"));
  lists.label_lists.offsets = {0, 0, 2};
  CHECK(message(lists).ends_with("[data.offsets]"));
  CHECK(message({}) == "TokenSource: data is 0 sequences, wanted at least one [data.empty]");
  CHECK(message(token_lists(3), {.batch_sequences = 0}) ==
        "TokenSource: batch_sequences and batch_tokens is 0, wanted at least one of them "
        "[data.batch_size]");
  CHECK(message(token_lists(3), {.shards = 3}).ends_with("[ragged.shards]"));
}

TEST_CASE("rows of a tensor come as batches, with their labels", "[unit][data]") {
  auto context = make_context();
  const Tensor features = Tensor::empty(context, {10, 2, 3});
  for (std::size_t i = 0; i < 60; ++i) features.mutable_span<float>()[i] = static_cast<float>(i);
  const Tensor targets = Tensor::empty(context, {10, 2});
  for (std::size_t i = 0; i < 20; ++i) targets.mutable_span<float>()[i] = static_cast<float>(i / 2);
  ArraySource source(context, features, targets, {.batch_sequences = 4, .seed = 2});
  CHECK(source.batches(0) == 3);
  CHECK(source.largest_rows() == 4);
  std::set<float> seen;
  data::Batch batch;
  while (source.next(batch)) {
    const std::size_t count = batch.inputs.sequences.count();
    CHECK(count == (batch.index < 2 ? 4u : 2u));
    CHECK(batch.inputs.sequences.rows() == count);
    CHECK(batch.inputs.rows.shape() == Shape{count, 2, 3});
    CHECK(batch.labels.shape() == Shape{count, 2});
    for (std::size_t i = 0; i < count; ++i) {
      const float row = batch.inputs.rows.select(0, i).span<float>()[0] / 6;
      for (std::size_t j = 0; j < 6; ++j)
        CHECK(batch.inputs.rows.select(0, i).span<float>()[j] == row * 6 + static_cast<float>(j));
      CHECK(batch.labels.select(0, i).span<float>()[1] == row);
      seen.insert(row);
    }
  }
  CHECK(seen.size() == 10);
  // Columns of a wider tensor are copied first; there need not be labels.
  ArraySource columns(context, features.slice(2, 0, 1), Tensor(), {.shuffle = false});
  REQUIRE(columns.next(batch));
  CHECK(batch.inputs.rows.shape() == Shape{10, 2, 1});
  CHECK(batch.inputs.rows.span<float>()[3] == 9);
  CHECK_FALSE(batch.labels.defined());
  CHECK(columns.hash() != source.hash());
}

TEST_CASE("tensors that are no rows are refused", "[unit][data]") {
  auto context = make_context();
  const Tensor features = Tensor::zeros(context, {3, 2});
  CHECK(id_of([&] { ArraySource(context, Tensor(), Tensor()); }) == "tensor.undefined");
  CHECK(id_of([&] { ArraySource(context, Tensor::zeros(context, {}), Tensor()); }) ==
        "tensor.rank");
  CHECK(message_of([&] { ArraySource(context, features, Tensor::zeros(context, {2})); }) ==
        "ArraySource: labels is [2] fp32, wanted one for each of 3 rows [data.labels]");
  CHECK(id_of([&] {
          ArraySource(context, Tensor::zeros(context, {0, 2}), Tensor());
        }) == "data.empty");
}
