// Lengths rounded up: what a batch holds, that the source is followed, and what is refused.

#include <soma/data/bucketed_source.hpp>
#include <soma/data/part.hpp>
#include <soma/data/token_source.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "data/batches.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;
using data::BucketedSource;
using data::TokenSource;

namespace {

constexpr data::BatchOptions by_four{.batch_sequences = 4, .shuffle = false, .seed = 3};

data::TokenLists with_types(std::size_t count) {
  data::TokenLists lists = token_lists(count);
  for (std::size_t i = 0; i < lists.ids.size(); ++i)
    lists.types.push_back(static_cast<std::int32_t>(1 + i % 2));
  return lists;
}

}  // namespace

TEST_CASE("sequences of a batch become as long as the first length that holds them all",
          "[unit][data]") {
  auto context = make_context();
  TokenSource plain(context, with_types(18), by_four), source(context, with_types(18), by_four);
  BucketedSource bucketed(context, source, {4, 8, 13});
  CHECK(bucketed.batches(0) == 5);
  CHECK(bucketed.largest_sequences() == 4);
  CHECK(bucketed.largest_rows() == 4 * 13);
  data::Batch wanted, given;
  while (plain.next(wanted)) {
    REQUIRE(bucketed.next(given));
    CHECK(bucketed.position() == plain.position());
    const Sequences &before = wanted.inputs.sequences, &after = given.inputs.sequences;
    REQUIRE(after.count() == before.count());
    const std::size_t length = before.longest() <= 4 ? 4 : before.longest() <= 8 ? 8 : 13;
    CHECK(after.shards() == before.shards());
    CHECK(after.padded());
    CHECK(given.inputs.rows.shape() == Shape{after.count() * length});
    for (std::size_t i = 0; i < after.count(); ++i) {
      CHECK(after.length(i) == length);
      REQUIRE(after.used(i) == before.length(i));
      CHECK(after.ordinal(i) == before.ordinal(i));
      for (const auto& [from, to] : {std::pair(wanted.inputs.rows, given.inputs.rows),
                                     std::pair(wanted.types, given.types)}) {
        const auto own = from.span<std::int32_t>().subspan(before.begin(i), before.length(i));
        const auto all = to.span<std::int32_t>().subspan(after.begin(i), length);
        CHECK(std::ranges::equal(own, all.first(own.size())));
        for (const std::int32_t zero : all.subspan(own.size())) CHECK(zero == 0);
      }
    }
    CHECK(given.labels.span<std::int64_t>()[0] == wanted.labels.span<std::int64_t>()[0]);
    CHECK(given.items == wanted.items);
    CHECK(given.index == wanted.index);
    // A rank's part has the padding of its sequences.
    const data::Batch part = data::part_of(context, given, 4, 4);
    const std::size_t first = after.sequence_bounds()[4];
    for (std::size_t i = 0; i < part.inputs.sequences.count(); ++i)
      CHECK(part.inputs.sequences.used(i) == after.used(first + i));
  }
  CHECK_FALSE(bucketed.next(given));
  CHECK(bucketed.position() == data::Position{1, 0});
  bucketed.seek({0, 2});
  REQUIRE(bucketed.next(given));
  CHECK(given.index == 2);
}

TEST_CASE("lengths are part of what a run is resumed with", "[unit][data]") {
  auto context = make_context();
  TokenSource source(context, token_lists(9), by_four);
  const BucketedSource one(context, source, {16}), same(context, source, {16}),
      other(context, source, {8, 16});
  CHECK(one.hash() == same.hash());
  CHECK(one.hash() != other.hash());
  CHECK(one.hash() != source.hash());
  Record record("test");
  other.describe(record);
  CHECK(record.text("data.buckets") == "8, 16");
  CHECK(record.find("data.batch_sequences") != nullptr);
}

TEST_CASE("lengths that hold nothing are refused", "[unit][data]") {
  auto context = make_context();
  TokenSource source(context, token_lists(9), by_four);
  const auto says = [&](const std::vector<std::size_t>& lengths) {
    return message_of([&] { BucketedSource(context, source, lengths); });
  };
  CHECK(says({}) ==
        "BucketedSource: lengths is none, wanted lengths that ascend from 1 on [data.buckets]");
  CHECK(says({0, 4}) ==
        "BucketedSource: lengths is 0, 4, wanted lengths that ascend from 1 on [data.buckets]");
  CHECK(id_of([&] { BucketedSource(context, source, {4, 4}); }) == "data.buckets");
  BucketedSource small(context, source, {4});
  data::Batch batch;
  CHECK(
      message_of([&] { small.next(batch); }) ==
      "BucketedSource: longest sequence of the batch is 9 rows, wanted at most 4, the last length "
      "[data.too_long]");
}
