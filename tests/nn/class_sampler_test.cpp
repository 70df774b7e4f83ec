// Sets of classes: what is in them, that they are a function of seed and step, and that the index
// of hashes holds what a plain computation finds.

#include <soma/nn/class_sampler.hpp>
#include <soma/sparse.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <vector>

using namespace soma;
using soma_test::id_of;
using soma_test::random_tensor;

namespace {

using Tables = std::vector<std::vector<std::uint32_t>>;

Tables tables_of(const nn::ClassIndex& index) {
  Tables all;
  for (std::size_t table = 0; table < index.tables(); ++table)
    for (std::size_t bucket = 0; bucket < index.bucket_count(); ++bucket) {
      const auto ids = index.bucket(table, bucket);
      all.emplace_back(ids.begin(), ids.end());
    }
  return all;
}

// The buckets of a row, table by table, plainly.
std::vector<std::size_t> plain_buckets(const float* row, std::size_t columns, std::size_t tables,
                                       std::size_t codes, std::uint64_t seed) {
  std::vector<std::size_t> order;
  for (std::uint64_t round = 0; order.size() < tables * codes * 8; ++round)
    for (const std::uint32_t column : data::shuffled_order(columns, seed, round))
      order.push_back(column);
  std::vector<int> digits;
  for (std::size_t code = 0; code < tables * codes; ++code) {
    int best = 0;
    bool any = false;
    for (int i = 0; i < 8; ++i) {
      const auto at = [&](int place) {
        return row[order[code * 8 + static_cast<std::size_t>(place)]];
      };
      any = any || at(i) != 0;
      if (at(i) > at(best)) best = i;
    }
    digits.push_back(any ? best : -1);
  }
  std::vector<std::size_t> buckets;
  for (std::size_t table = 0; table < tables; ++table) {
    std::size_t bucket = 0;
    for (std::size_t k = 0; k < codes; ++k) {
      int digit = 0;
      for (std::size_t probe = 0; probe < digits.size(); ++probe)
        if (const int found = digits[(table * codes + k + probe) % digits.size()]; found >= 0) {
          digit = found;
          break;
        }
      bucket = bucket * 8 + static_cast<std::size_t>(digit);
    }
    buckets.push_back(bucket);
  }
  return buckets;
}

data::LabelLists lists(Context& context, const std::vector<std::vector<std::int32_t>>& labels) {
  data::IdLists all;
  for (const std::vector<std::int32_t>& list : labels) all.add(list);
  const std::vector<std::int64_t> offsets(all.offsets.begin(), all.offsets.end());
  return {Tensor::from(context, std::span<const std::int64_t>(offsets), Shape{offsets.size()}),
          Tensor::from(context, std::span<const std::int32_t>(all.ids), Shape{all.ids.size()})};
}
std::vector<std::int64_t> ids_of(const ClassSet& set) {
  const auto ids = set.classes.span<std::int64_t>();
  return {ids.begin(), ids.end()};
}

}  // namespace

TEST_CASE("an index holds the buckets that a plain computation finds", "[unit]") {
  auto context = make_context({.threads = 2});
  add_sparse(context);
  const std::size_t classes = 517, columns = 45;
  Tensor weight = random_tensor(context, Shape{classes, columns}, "rows");
  float* numbers = weight.mutable_data<float>();
  std::fill(numbers, numbers + columns, 0.0f);  // a row of zeros
  for (std::size_t c = 0; c < columns; ++c)     // one with few numbers
    if (c % 9 != 0) numbers[3 * columns + c] = 0;
  for (std::size_t c = 0; c < columns; ++c) numbers[4 * columns + c] = 1;  // all are equal
  nn::ClassIndex index(context, classes, columns, {.tables = 6, .codes = 2, .seed = 9});
  index.rebuild(weight);
  Tables wanted(6 * 64);
  for (std::size_t row = 0; row < classes; ++row) {
    const auto buckets = plain_buckets(numbers + row * columns, columns, 6, 2, 9);
    for (std::size_t table = 0; table < 6; ++table)
      wanted[table * 64 + buckets[table]].push_back(static_cast<std::uint32_t>(row));
  }
  CHECK(tables_of(index) == wanted);
  const std::vector<std::uint16_t> queried = index.buckets_of(weight.slice(0, 0, 20));
  for (std::size_t row = 0; row < 20; ++row) {
    const auto buckets = plain_buckets(numbers + row * columns, columns, 6, 2, 9);
    for (std::size_t table = 0; table < 6; ++table)
      CHECK(queried[table * 20 + row] == buckets[table]);
  }

  // Rows that changed are hashed anew: the tables are those of a full rebuild.
  std::vector<std::int64_t> changed;
  for (std::size_t row = 1; row < classes; row += 5) {
    changed.push_back(static_cast<std::int64_t>(row));
    for (std::size_t c = 0; c < columns; ++c) numbers[row * columns + c] *= -1;
  }
  index.refresh(weight, changed);
  nn::ClassIndex whole(context, classes, columns, {.tables = 6, .codes = 2, .seed = 9});
  whole.rebuild(weight);
  CHECK(tables_of(index) == tables_of(whole));
}

TEST_CASE("sets hold the labels, each class once, and are a function of seed and step", "[unit]") {
  for (const nn::Sampler kind : {nn::Sampler::uniform, nn::Sampler::lsh_shared}) {
    std::vector<std::vector<std::int64_t>> first;
    for (const int threads : {1, 8}) {
      auto context = make_context({.threads = threads});
      add_sparse(context);
      const Tensor weight = random_tensor(context, Shape{2000, 32}, "rows");
      const Tensor queries = random_tensor(context, Shape{3, 32}, "queries");
      nn::ClassSampler sampler(context, 2000, 32,
                               {.kind = kind,
                                .set = 64,
                                .seed = 5,
                                .refresh_every = 2,
                                .index = {.tables = 8, .seed = 5}});
      const std::vector<std::vector<std::int32_t>> labels = {{7, 1999}, {}, {0, 7, 300}};
      std::vector<std::vector<std::int64_t>> sets;
      for (std::uint32_t step = 0; step < 4; ++step) {
        const ClassSet set = sampler.sample(lists(context, labels), queries, weight, step);
        const std::vector<std::int64_t> ids = ids_of(set);
        CHECK(ids.size() == 64);
        CHECK(std::set<std::int64_t>(ids.begin(), ids.end()).size() == 64);
        CHECK(std::is_sorted(ids.begin(), ids.end()));
        for (std::size_t i = 0; i < labels.size(); ++i) {
          const auto places = set.labels.list(i);
          REQUIRE(places.size() == labels[i].size());
          for (std::size_t k = 0; k < places.size(); ++k)
            CHECK(ids[static_cast<std::size_t>(places[k])] == labels[i][k]);
        }
        sets.push_back(ids);
      }
      CHECK(sets[0] != sets[1]);
      if (threads == 1) first = sets;
      CHECK(sets == first);
    }
  }
}

TEST_CASE("each point has a set of its own, a function of its query, its labels and the step",
          "[unit]") {
  std::vector<std::vector<std::int32_t>> first;
  for (const int threads : {1, 8}) {
    auto context = make_context({.threads = threads});
    add_sparse(context);
    const Tensor weight = random_tensor(context, Shape{2000, 32}, "rows");
    // The last query is row 1234, which is no label: its set has to find it.
    const Tensor queries = random_tensor(context, Shape{3, 32}, "queries");
    copy(weight.slice(0, 1234, 1235), queries.slice(0, 2, 3));
    nn::ClassSampler sampler(context, 2000, 32,
                             {.kind = nn::Sampler::lsh_per_sample,
                              .set = 64,
                              .seed = 5,
                              .refresh_every = 2,
                              .index = {.tables = 8, .codes = 2, .seed = 5}});
    const std::vector<std::vector<std::int32_t>> labels = {{7, 1999}, {}, {0, 7, 300}};
    std::vector<std::vector<std::int32_t>> sets;
    for (std::uint32_t step = 0; step < 4; ++step) {
      const ClassSets all = sampler.sample_each(lists(context, labels), queries, weight, step);
      REQUIRE(all.classes.sequences.count() == 3);
      for (std::size_t i = 0; i < labels.size(); ++i) {
        const auto ids = all.classes.rows.span<std::int32_t>().subspan(64 * i, 64);
        CHECK(std::set<std::int32_t>(ids.begin(), ids.end()).size() == 64);
        CHECK(std::is_sorted(ids.begin(), ids.end()));
        const auto places = all.labels.list(i);
        REQUIRE(places.size() == labels[i].size());
        for (std::size_t k = 0; k < places.size(); ++k)
          CHECK(ids[static_cast<std::size_t>(places[k])] == labels[i][k]);
        if (i == 2 && step >= 2) CHECK(std::binary_search(ids.begin(), ids.end(), 1234));
        sets.emplace_back(ids.begin(), ids.end());
      }
    }
    for (std::size_t i = 1; i < sets.size(); ++i) CHECK(sets[i] != sets[i - 1]);
    if (threads == 1) first = sets;
    CHECK(sets == first);
    // A sample with more labels than the set: all of them, and half as many others as the set.
    std::vector<std::int32_t> many(65);
    std::iota(many.begin(), many.end(), 7);
    const ClassSets wide = sampler.sample_each(lists(context, {{3}, many, {}}), queries, weight, 0);
    CHECK(wide.classes.sequences.length(0) == 64);
    CHECK(wide.classes.sequences.length(1) == 65 + 32);
    CHECK(wide.classes.sequences.length(2) == 64);
    const auto ids = wide.classes.rows.span<std::int32_t>().subspan(64, 97);
    CHECK(std::set<std::int32_t>(ids.begin(), ids.end()).size() == 97);
    for (std::size_t k = 0; k < many.size(); ++k)
      CHECK(ids[static_cast<std::size_t>(wide.labels.list(1)[k])] == many[k]);
    CHECK(id_of([&] { sampler.sample_each(lists(context, {{2000}}), queries, weight, 0); }) ==
          "data.labels");
  }
}

TEST_CASE("colliding classes point where the queries point", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  const Tensor weight = random_tensor(context, Shape{3000, 64}, "rows");
  // Queries are rows with some noise: their own classes have to be found without being labels.
  const Tensor queries = clone(context, weight.slice(0, 100, 104));
  float* numbers = queries.mutable_data<float>();
  const std::vector<float> noise =
      soma_test::values(context, random_tensor(context, Shape{4, 64}, "noise", 0.2f));
  for (std::size_t i = 0; i < noise.size(); ++i) numbers[i] += noise[i];
  nn::ClassSampler sampler(context, 3000, 64,
                           {.kind = nn::Sampler::lsh_shared,
                            .set = 200,
                            .refresh_every = 1,
                            .index = {.tables = 32, .codes = 2}});
  const auto none = lists(context, {{}, {}, {}, {}});
  const std::vector<std::int64_t> ids = ids_of(sampler.sample(none, queries, weight, 1));
  for (const std::int64_t id : {100, 101, 102, 103})
    CHECK(std::binary_search(ids.begin(), ids.end(), id));
}

TEST_CASE("sets that cannot be are refused", "[unit]") {
  auto context = make_context({.threads = 1});
  CHECK(id_of([&] { nn::ClassIndex made(context, 10, 8, {}); }) == "context.no_sparse");
  add_sparse(context);
  const auto id_with = [&](const nn::SamplerOptions& options) {
    return id_of([&] { nn::ClassSampler made(context, 100, 8, options); });
  };
  CHECK(id_with({.set = 0}) == "train.options");
  CHECK(id_with({.set = 101}) == "train.options");
  CHECK(id_with({.kind = nn::Sampler::lsh_shared, .set = 10, .refresh_every = 0}) ==
        "train.options");
  CHECK(id_with({.kind = nn::Sampler::lsh_shared, .set = 10, .index = {.tables = 0}}) ==
        "operator.value");
  CHECK(id_with({.kind = nn::Sampler::lsh_shared, .set = 10, .index = {.codes = 6}}) ==
        "operator.value");
  nn::ClassSampler sampler(context, 100, 8, {.set = 2});
  const Tensor weight = random_tensor(context, Shape{100, 8}, "rows");
  CHECK(id_of([&] { sampler.sample(lists(context, {{100}}), weight, weight, 0); }) ==
        "data.labels");
}

TEST_CASE("sets grow with the labels of a batch", "[unit]") {
  auto context = make_context({.threads = 1});
  nn::ClassSampler sampler(context, 100, 8, {.set = 10});
  const Tensor weight = random_tensor(context, Shape{100, 8}, "rows");
  const auto set_of = [&](std::size_t labels) {
    std::vector<std::int32_t> own(labels);
    std::iota(own.begin(), own.end(), 0);
    const std::vector<std::int64_t> set =
        ids_of(sampler.sample(lists(context, {own}), weight, weight, 0));
    for (const std::int32_t label : own)
      CHECK(std::binary_search(set.begin(), set.end(), std::int64_t{label}));
    return set.size();
  };
  CHECK(set_of(2) == 10);
  CHECK(set_of(10) == 10);
  CHECK(set_of(11) == 16);  // half of the set is others
  CHECK(set_of(97) == 100);
}

TEST_CASE("the rules choose codes and tables from classes and memory", "[unit]") {
  CHECK(nn::class_index_codes(670091) == 4);
  CHECK(nn::class_index_codes(50000) == 3);
  CHECK(nn::class_index_codes(10) == 1);
  const auto options =
      nn::sampler_options_for(670091, 128, std::size_t{64} << 20, nn::Sampler::lsh_shared, 1);
  CHECK(nn::class_index_bytes(670091, options.index.tables, options.index.codes) <= std::size_t{64}
                                                                                        << 20);
  CHECK(nn::sampler_for(2048) == nn::Sampler::full);
  CHECK(nn::sampler_for(2049) == nn::Sampler::uniform);
  CHECK(nn::sampler_for(670091) == nn::Sampler::uniform);
}
