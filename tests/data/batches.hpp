// Token lists that can be told apart, and what batches looked like.
#pragma once

#include <soma/data/content_hash.hpp>
#include <soma/data/token_source.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace soma_test {

inline std::size_t list_length(std::size_t k) { return 1 + k * 7 % 13; }

// List k is k, k + 1000, k + 2000 ..., its label k % 3.
inline soma::data::TokenLists token_lists(std::size_t count) {
  soma::data::TokenLists lists;
  for (std::size_t k = 0; k < count; ++k) {
    std::vector<std::int32_t> list;
    for (std::size_t j = 0; j < list_length(k); ++j)
      list.push_back(static_cast<std::int32_t>(k + 1000 * j));
    lists.add(list, static_cast<std::int64_t>(k % 3));
  }
  return lists;
}

// A hash of the whole batch.
inline std::uint64_t hash_of(const soma::data::Batch& batch) {
  soma::data::ContentHash hash;
  for (const soma::Tensor& tensor : {batch.inputs.rows, batch.types, batch.labels}) {
    if (!tensor.defined()) continue;
    hash.add_text(tensor.describe());
    hash.add_bytes({tensor.raw(), tensor.bytes()});
  }
  hash.add_list(batch.inputs.sequences.offsets());
  hash.add_list(batch.inputs.sequences.row_indices());
  hash.add_list(batch.inputs.sequences.row_bounds());
  hash.add(batch.epoch);
  hash.add(batch.index);
  return hash.value();
}

// Where a source was, and what it said then.
struct Recorded {
  soma::data::Position position;
  bool is_batch;
  std::uint64_t hash;
};

inline std::vector<Recorded> record(soma::data::BatchSource& source, std::uint64_t epochs) {
  std::vector<Recorded> all;
  while (source.position().epoch < epochs) {
    const soma::data::Position position = source.position();
    soma::data::Batch batch;
    const bool is_batch = source.next(batch);
    all.push_back({position, is_batch, is_batch ? hash_of(batch) : 0});
  }
  return all;
}

// The lengths of an epoch's sequences: "3+4 9 ".
inline std::string shape_of(soma::data::BatchSource& source) {
  std::string text;
  soma::data::Batch batch;
  while (source.next(batch)) {
    for (std::size_t i = 0; i < batch.inputs.sequences.count(); ++i)
      text += (i == 0 ? "" : "+") + std::to_string(batch.inputs.sequences.length(i));
    text += " ";
  }
  return text;
}
inline std::string shape_of(soma::data::BatchSource&& source) { return shape_of(source); }

}  // namespace soma_test
