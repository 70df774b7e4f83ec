#pragma once
// IndexedSource: the common base of sources whose items lie in memory and can be visited in any
// order. A subclass gives the number of items and their lengths, and makes a batch of some of them.

#include <soma/data/batch.hpp>
#include <soma/data/batch_options.hpp>
#include <soma/data/order.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::data {

// Seeking costs one permutation, and so does the first batch of an epoch. Beside the data, a source
// holds 4 bytes for each item and 8 for each batch.
class IndexedSource : public BatchSource {
 public:
  SOMA_INLINE bool next(Batch& batch) final;

  Position position() const final { return position_; }
  SOMA_INLINE void seek(Position position) final;

  // Always known. For an epoch other than the current one it takes O(items) if batch_tokens limits
  // batches.
  SOMA_INLINE std::uint64_t batches(std::uint64_t epoch) const final;

  // Takes a pass over the data.
  SOMA_INLINE std::uint64_t hash() const final;
  SOMA_INLINE void describe(Record& record) const final;

  std::size_t largest_rows() const final { return largest_rows_; }
  std::size_t largest_sequences() const final { return largest_sequences_; }

 protected:
  // `operation` names the subclass in messages. Errors data.batch_size, ragged.shards.
  IndexedSource(std::string_view operation, Context& context, const BatchOptions& options);

  // Called once, when the data are there. Errors data.empty (no items, or so few that drop_last
  // leaves no batch), random.index_range (2^32 items).
  void start(std::size_t count);

  const BatchOptions& options() const { return options_; }

 private:
  // The items of one epoch in order, and the ends of its batches.
  struct Plan {
    std::vector<std::uint32_t> order;
    std::vector<std::size_t> bounds{0};
    std::size_t batches() const;
    std::span<const std::uint32_t> items(std::size_t batch) const;
  };

  virtual std::size_t length(std::size_t item) const = 0;
  // Hashes all data that batches are made of.
  virtual void add_content(ContentHash& hash) const = 0;
  virtual Batch make(std::span<const std::uint32_t> items) const = 0;

  Plan make_plan(std::uint64_t epoch) const;
  void prepare();

  // The most rows are those of the longest sequences together; the most sequences are the shortest
  // ones.
  void find_bounds(std::vector<std::size_t> lengths);

  std::string_view operation_;
  BatchOptions options_;
  std::size_t count_ = 0, rows_ = 0, largest_rows_ = 0, largest_sequences_ = 0;
  Position position_;
  Plan plan_;
  std::uint64_t planned_epoch_ = 0;
  bool planned_ = false;
};

}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/indexed_source.ipp>
#endif
