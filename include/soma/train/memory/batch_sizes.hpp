#pragma once
// BatchSizes: how large the batches of a run are, and their parts, from a pass over a source.

#include <soma/data/batch.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace SOMA_NAMESPACE {
class Context;  // runtime/context.hpp
}

namespace SOMA_NAMESPACE::train {

// A part of a batch that is cut into equal runs of its shards.
struct PartPosition {
  data::Position batch{};
  std::size_t index = 0, rows = 0, sequences = 0;
};

struct BatchSizes {
  std::size_t batches = 0;  // that were read
  std::size_t shards = 0;   // shards of a batch
  std::uint64_t bytes = 0;  // heap of the largest batch
  // Index k: the part with the most rows if batches have 2^k parts. As long as shards can be cut.
  std::vector<PartPosition> largest{};
  // most_rows[w]: the most rows in w neighbouring shards of any batch; w from 0 to `shards`.
  std::vector<std::size_t> most_rows{};

  // The most rows in `count` neighbouring parts, if batches have `parts` parts; parts of several
  // batches follow one another.
  std::size_t rows_of(std::size_t count, std::size_t parts) const;
  // Identifies the sizes: equal for equal rows in all windows.
  std::uint64_t hash() const;
};

// Reads `most` batches from the source's position on, of several epochs if need be, and seeks back.
// Stops early at a batch whose sequences have one length and which is as large as any can be.
// Errors as of the source.
BatchSizes read_batch_sizes(Context& context, data::BatchSource& source, std::size_t most);

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/memory/impl/batch_sizes.ipp>
#endif
