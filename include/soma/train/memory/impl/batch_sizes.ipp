#pragma once
// The functions of batch_sizes.hpp.

#include <soma/train/memory/batch_sizes.hpp>

#include <soma/data/content_hash.hpp>
#include <soma/runtime/context.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace SOMA_NAMESPACE::train::detail {

SOMA_INLINE void add_batch(BatchSizes& sizes, const Sequences& sequences, data::Position position) {
  const std::span<const std::size_t> rows = sequences.row_bounds(),
                                     counts = sequences.sequence_bounds();
  const std::size_t shards = sequences.shards();
  if (sizes.shards != shards) {  // sources do not change it
    sizes.shards = shards;
    sizes.most_rows.assign(shards + 1, 0);
    sizes.largest.clear();
    for (std::size_t parts = 1; parts <= shards; parts *= 2) sizes.largest.emplace_back();
  }
  for (std::size_t width = 1; width <= shards; width *= 2) {
    std::size_t k = 0;
    while (shards >> k != width) ++k;
    PartPosition& largest = sizes.largest[k];
    for (std::size_t first = 0; first < shards; first += width)
      if (const std::size_t count = rows[first + width] - rows[first]; count > largest.rows)
        largest = {position, first / width, count, counts[first + width] - counts[first]};
  }
  // Windows of runs that are longer than a sixteenth of the batch begin anywhere in its grid.
  const std::size_t step = (std::max)(std::size_t{1}, shards / 16);
  for (std::size_t width = step; width <= shards; width += step)
    for (std::size_t first = 0; first + width <= shards; first += step)
      sizes.most_rows[width] =
          (std::max)(sizes.most_rows[width], rows[first + width] - rows[first]);
}

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

SOMA_INLINE std::size_t BatchSizes::rows_of(std::size_t count, std::size_t parts) const {
  const std::size_t whole = count / parts, rest = count % parts;
  const std::size_t width = rest * (shards / parts), step = (std::max)(std::size_t{1}, shards / 16);
  std::size_t rows = whole * most_rows[shards];
  if (width != 0) rows += most_rows[(std::min)(shards, (width + step - 1) / step * step)];
  return rows;
}

SOMA_INLINE std::uint64_t BatchSizes::hash() const {
  data::ContentHash hash;
  hash.add(shards);
  for (const std::size_t rows : most_rows) hash.add(rows);
  return hash.value();
}

SOMA_INLINE BatchSizes read_batch_sizes(Context& context, data::BatchSource& source,
                                        std::size_t most) {
  BatchSizes sizes;
  const data::Position begin = source.position();
  for (bool ended = false; sizes.batches < most;) {
    const data::Position position = source.position();
    const std::size_t before = context.heap().bytes_in_use();
    data::Batch batch;
    if (!source.next(batch)) {
      if (ended) break;  // an epoch without batches
      ended = true;
      continue;
    }
    ended = false;
    const std::size_t after = context.heap().bytes_in_use();
    sizes.bytes = (std::max)(sizes.bytes, std::uint64_t{after > before ? after - before : 0});
    const Sequences& sequences = batch.inputs.sequences;
    detail::add_batch(sizes, sequences, position);
    ++sizes.batches;
    // Sequences of one length, as many as ever.
    const std::size_t rows = sequences.rows(), count = sequences.count();
    if (count == source.largest_sequences() && rows == source.largest_rows()) {
      bool equal = true;
      for (std::size_t i = 0; i < count; ++i) equal = equal && sequences.length(i) * count == rows;
      if (equal) break;
    }
  }
  source.seek(begin);
  return sizes;
}

}  // namespace SOMA_NAMESPACE::train
