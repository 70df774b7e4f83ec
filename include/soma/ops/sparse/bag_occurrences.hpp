#pragma once
// The occurrences of each id in the bags of a batch, in time that grows with the ids alone.

#include <soma/ops/ranges.hpp>
#include <soma/ops/rows/embedding.hpp>
#include <soma/runtime/heap_vector.hpp>
#include <soma/runtime/parallel.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace SOMA_NAMESPACE::detail {

// The bags of id number k, in ascending order, are bags[starts[k]] to bags[starts[k + 1]],
// ascending, once for each occurrence.
struct BagOccurrences {
  Tensor bags;     // int32, as many as ids
  Tensor weights;  // fp32 of each; not defined: all are 1
  Tensor starts;   // int64, one more than ids
  Tensor ids;      // int64
};

// Sorts numbers by their upper 32 bits, which are below 2^bits; equal ones keep their order. Digits
// have at most 11 bits, so that their 2048 counters stay in the first-level cache.
inline void sort_by_upper_half(HeapVector<std::uint64_t>& numbers, int bits, Heap& heap) {
  constexpr int most_bits = 11;
  const int passes = (bits + most_bits - 1) / most_bits;
  if (passes == 0) return;
  const int width = (bits + passes - 1) / passes;
  const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
  HeapVector<std::uint64_t> other(numbers.size(), heap);
  HeapVector<std::uint32_t> positions(heap);
  for (int pass = 0; pass < passes; ++pass) {
    const int shift = 32 + pass * width;
    positions.clear();
    positions.resize(static_cast<std::size_t>(mask) + 1);
    std::fill(positions.begin(), positions.end(), 0u);
    for (const std::uint64_t number : numbers)
      ++positions[static_cast<std::size_t>(number >> shift & mask)];
    std::uint32_t before = 0;
    for (std::uint32_t& position : positions) before += std::exchange(position, before);
    for (const std::uint64_t number : numbers)
      other[positions[static_cast<std::size_t>(number >> shift & mask)]++] = number;
    std::swap(numbers, other);
  }
}

// `ids` have been checked: they are below `rows`, which is at most 2^32. Error operator.value (2^31
// ids).
inline BagOccurrences bag_occurrences(Context& context, const Tensor& ids, const Tensor& weights,
                                      const Sequences& bags, std::size_t rows) {
  const std::size_t count = ids.elements();
  if (count > 0x7FFFFFFFu)
    fail(error_id::operator_value, "embedding bag backward", "ids", std::to_string(count),
         "fewer than 2^31");
  HeapVector<std::int32_t> bag_of(count, context.heap());
  for (std::size_t bag = 0; bag < bags.count(); ++bag)
    std::fill(bag_of.begin() + bags.begin(bag), bag_of.begin() + bags.end(bag),
              static_cast<std::int32_t>(bag));
  // Each task sorts the ids of a range of rows.
  struct Part {
    explicit Part(Heap& heap) : keys(heap) {}
    HeapVector<std::uint64_t> keys;  // id, and position in the batch
    std::size_t distinct = 0;
  };
  const std::size_t tasks = worthwhile_tasks(context, count, count * 8, operations_worth_a_task);
  HeapVector<Part> parts(context.heap());
  for (std::size_t task = 0; task < tasks; ++task) parts.push_back(Part(context.heap()));
  const int bits = rows <= 1 ? 0 : static_cast<int>(std::bit_width(rows - 1));
  parallel(context, static_cast<int>(tasks), [&](int number) {
    const auto task = static_cast<std::size_t>(number);
    Part& part = parts[task];
    // The part of an id is unpredictable, so no branch depends on it.
    part.keys.resize(count + 1);
    const std::uint64_t least = even_border(rows, tasks, task),
                        width = even_border(rows, tasks, task + 1) - least;
    std::size_t own = 0;
    const auto take = [&](const auto* values) {
      for (std::size_t i = 0; i < count; ++i) {
        const auto id = static_cast<std::uint64_t>(values[i]);
        part.keys[own] = id << 32 | i;
        own += id - least < width ? 1u : 0u;
      }
    };
    if (ids.dtype() == DType::int32)
      take(ids.data<std::int32_t>());
    else
      take(ids.data<std::int64_t>());
    part.keys.resize(own);
    sort_by_upper_half(part.keys, bits, context.heap());
    for (std::size_t i = 0; i < part.keys.size(); ++i)
      part.distinct += i == 0 || part.keys[i] >> 32 != part.keys[i - 1] >> 32 ? 1u : 0u;
  });

  std::size_t distinct = 0;
  for (const Part& part : parts) distinct += part.distinct;
  BagOccurrences result;
  result.bags = Tensor::empty(context, Shape{count}, DType::int32);
  if (weights.defined()) result.weights = Tensor::empty(context, Shape{count});
  result.ids = Tensor::empty(context, Shape{distinct}, DType::int64);
  result.starts = Tensor::empty(context, Shape{distinct + 1}, DType::int64);
  auto* list = result.bags.mutable_data<std::int32_t>();
  float* factors = weights.defined() ? result.weights.mutable_data<float>() : nullptr;
  const float* given = weights.defined() ? weights.data<float>() : nullptr;
  auto* id = result.ids.mutable_data<std::int64_t>();
  auto* start = result.starts.mutable_data<std::int64_t>();
  start[distinct] = static_cast<std::int64_t>(count);
  parallel(context, static_cast<int>(tasks), [&](int number) {
    const auto task = static_cast<std::size_t>(number);
    std::size_t at = 0, row = 0;  // totals of the parts before
    for (std::size_t before = 0; before < task; ++before) {
      at += parts[before].keys.size();
      row += parts[before].distinct;
    }
    const HeapVector<std::uint64_t>& keys = parts[task].keys;
    for (std::size_t i = 0; i < keys.size(); ++i, ++at) {
      const auto position = static_cast<std::size_t>(keys[i] & 0xFFFFFFFFu);
      list[at] = bag_of[position];
      if (factors != nullptr) factors[at] = given[position];
      if (i != 0 && keys[i] >> 32 == keys[i - 1] >> 32) continue;
      id[row] = static_cast<std::int64_t>(keys[i] >> 32);
      start[row++] = static_cast<std::int64_t>(at);
    }
  });
  return result;
}

}  // namespace SOMA_NAMESPACE::detail
