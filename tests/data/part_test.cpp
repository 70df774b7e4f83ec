// Parts of a batch: together they are the batch.

#include <soma/data/array_source.hpp>
#include <soma/data/part.hpp>
#include <soma/data/token_source.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"

#include <vector>

using namespace soma;

namespace {

template <class T>
void append(std::vector<T>& list, const Tensor& tensor) {
  const std::span<const T> values = tensor.span<T>();
  list.insert(list.end(), values.begin(), values.end());
}
template <class T>
std::vector<T> all_of(const Tensor& tensor) {
  std::vector<T> list;
  append(list, tensor);
  return list;
}

}  // namespace

TEST_CASE("rows, types and labels of a batch's parts are those of the batch", "[unit][data]") {
  auto context = make_context();
  data::TokenLists lists;
  for (std::int32_t i = 0; i < 5; ++i) {
    const std::vector<std::int32_t> ids(static_cast<std::size_t>(2 + i), i);
    lists.add(ids, i);
    lists.types.insert(lists.types.end(), ids.size(), i % 2);
  }
  data::TokenSource source(context, lists, {.batch_sequences = 5, .shuffle = false});
  data::Batch batch;
  REQUIRE(source.next(batch));
  CHECK_FALSE(batch.part);
  for (const std::size_t count : {1u, 2u, 8u}) {
    std::vector<std::int32_t> ids, types;
    std::vector<std::int64_t> labels;
    for (std::size_t first = 0; first < 8; first += count) {
      const data::Batch part = data::part_of(context, batch, first, count);
      CHECK(part.part);
      CHECK(part.inputs.sequences.shards() == count);
      CHECK(part.inputs.rows.size(0) == part.inputs.sequences.rows());
      CHECK(part.labels.size(0) == part.inputs.sequences.count());
      append(ids, part.inputs.rows);
      append(types, part.types);
      append(labels, part.labels);
    }
    CHECK(ids == all_of<std::int32_t>(batch.inputs.rows));
    CHECK(types == all_of<std::int32_t>(batch.types));
    CHECK(labels == all_of<std::int64_t>(batch.labels));
  }
}

TEST_CASE("lists of labels and numbers are cut where the batch's sequences are", "[unit][data]") {
  auto context = make_context();
  const std::vector<std::vector<std::int32_t>> given{{1, 4}, {}, {0}, {}, {2, 3, 4}};
  data::TokenLists lists, numbered;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::vector<std::int32_t> ids(1 + 3 * i, 7);
    for (data::TokenLists* all : {&lists, &numbered}) {
      all->ids.insert(all->ids.end(), ids.begin(), ids.end());
      all->offsets.push_back(all->ids.size());
    }
    lists.label_lists.add(given[i]);
    numbered.numbers.push_back(0.25f * static_cast<float>(i));
  }
  data::TokenSource source(context, lists, {.batch_sequences = 5, .shuffle = false});
  data::TokenSource number_source(context, numbered, {.batch_sequences = 5, .shuffle = false});
  CHECK(source.hash() != number_source.hash());
  data::Batch batch, number_batch;
  REQUIRE((source.next(batch) && number_source.next(number_batch)));
  CHECK_FALSE(batch.labels.defined());
  CHECK_FALSE(number_batch.label_lists.defined());
  for (const std::size_t count : {1u, 2u, 8u}) {
    std::vector<std::vector<std::int32_t>> found;
    std::vector<float> numbers;
    for (std::size_t first = 0; first < 8; first += count) {
      const data::Batch part = data::part_of(context, batch, first, count);
      REQUIRE(part.label_lists.count() == part.inputs.sequences.count());
      for (std::size_t i = 0; i < part.label_lists.count(); ++i) {
        const auto list = part.label_lists.list(i);
        found.emplace_back(list.begin(), list.end());
      }
      append(numbers, data::part_of(context, number_batch, first, count).labels);
    }
    CHECK(found == given);
    CHECK(numbers == numbered.numbers);
  }
  const Tensor dense = batch.label_lists.dense(context, 5);
  CHECK(all_of<float>(dense) == std::vector<float>{0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0,
                                                   0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1});
  CHECK_THROWS_AS(batch.label_lists.dense(context, 4), Error);
}

TEST_CASE("parts of features without labels", "[unit][data]") {
  auto context = make_context();
  const Tensor features = Tensor::full(context, Shape{3, 2, 2}, 1.0f);
  data::ArraySource source(context, features, {}, {.batch_sequences = 3, .shuffle = false});
  data::Batch batch;
  REQUIRE(source.next(batch));
  std::size_t rows = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    const data::Batch part = data::part_of(context, batch, i, 1);
    CHECK_FALSE(part.labels.defined());
    CHECK(part.inputs.rows.shape().with(0, 0) == Shape{0, 2, 2});
    rows += part.inputs.rows.size(0);
  }
  CHECK(rows == 3);
}
