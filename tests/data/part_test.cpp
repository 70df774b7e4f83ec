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
