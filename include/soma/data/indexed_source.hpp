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

namespace soma::data {

// Seeking costs one permutation, and so does the first batch of an epoch. Beside the data, a source
// holds 4 bytes for each item and 8 for each batch.
class IndexedSource : public BatchSource {
 public:
  bool next(Batch& batch) final {
    prepare();
    const std::size_t index = static_cast<std::size_t>(position_.batch);
    if (index >= plan_.batches()) {
      position_ = {position_.epoch + 1, 0};
      return false;
    }
    const auto items = plan_.items(index);
    Batch made = make(items);
    made.items.assign(items.begin(), items.end());
    made.epoch = position_.epoch;
    made.index = position_.batch;
    batch = std::move(made);
    ++position_.batch;
    return true;
  }

  Position position() const final { return position_; }
  void seek(Position position) final {
    const std::uint64_t count = batches(position.epoch);
    if (position.batch > count)
      fail(error_id::data_position, operation_, "batch", std::to_string(position.batch),
           "at most " + std::to_string(count) + ", which epoch " + std::to_string(position.epoch) +
               " has");
    position_ = position;
  }

  // Always known. For an epoch other than the current one it takes O(items) if batch_tokens limits
  // batches.
  std::uint64_t batches(std::uint64_t epoch) const final {
    if (planned_ && epoch == planned_epoch_) return plan_.batches();
    if (options_.batch_tokens == 0) {
      const std::size_t size = options_.batch_sequences;
      return options_.drop_last ? count_ / size : count_ / size + (count_ % size != 0 ? 1 : 0);
    }
    return make_plan(epoch).batches();
  }

  // Takes a pass over the data.
  std::uint64_t hash() const final {
    ContentHash hash;
    add_content(hash);
    detail::add_options(hash, options_);
    return hash.value();
  }
  void describe(Record& record) const final {
    ContentHash hash;
    add_content(hash);
    record.set("data.content", std::to_string(count_) + " sequences, " + std::to_string(rows_) +
                                   " rows, hash " + std::to_string(hash.value()));
    detail::describe_options(record, options_);
  }

  std::size_t largest_rows() const final { return largest_rows_; }
  std::size_t largest_sequences() const final { return largest_sequences_; }

 protected:
  // `operation` names the subclass in messages. Errors data.batch_size, ragged.shards.
  IndexedSource(std::string_view operation, Context& context, const BatchOptions& options)
      : operation_(operation), options_(options) {
    detail::check_batch_options(operation, context, options);
  }

  // Called once, when the data are there. Errors data.empty (no items, or so few that drop_last
  // leaves no batch), random.index_range (2^32 items).
  void start(std::size_t count) {
    count_ = count;
    std::vector<std::size_t> lengths(count);
    std::size_t rows = 0;
    for (std::size_t i = 0; i < count; ++i)
      rows = checked_add(rows, lengths[i] = length(i), operation_);
    rows_ = rows;
    const bool one_batch = (options_.batch_sequences == 0 || count <= options_.batch_sequences) &&
                           (options_.batch_tokens == 0 || rows <= options_.batch_tokens);
    if (count == 0 ||
        (options_.drop_last && one_batch && !detail::batch_is_full(options_, count, rows)))
      fail(error_id::data_empty, operation_, "data", std::to_string(count) + " sequences",
           options_.drop_last ? "enough for a full batch, since drop_last is set" : "at least one");
    if (count >> 32 != 0)
      fail(error_id::index_range, operation_, "data", std::to_string(count) + " sequences",
           "below 2^32");
    find_bounds(std::move(lengths));
  }

  const BatchOptions& options() const { return options_; }

 private:
  // The items of one epoch in order, and the ends of its batches.
  struct Plan {
    std::vector<std::uint32_t> order;
    std::vector<std::size_t> bounds{0};
    std::size_t batches() const { return bounds.size() - 1; }
    std::span<const std::uint32_t> items(std::size_t batch) const {
      return std::span(order).subspan(bounds[batch], bounds[batch + 1] - bounds[batch]);
    }
  };

  virtual std::size_t length(std::size_t item) const = 0;
  // Hashes all data that batches are made of.
  virtual void add_content(ContentHash& hash) const = 0;
  virtual Batch make(std::span<const std::uint32_t> items) const = 0;

  Plan make_plan(std::uint64_t epoch) const {
    Plan plan;
    plan.order =
        options_.shuffle ? shuffled_order(count_, options_.seed, epoch) : identity_order(count_);
    std::size_t held = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      const std::size_t rows = length(plan.order[i]);
      if (detail::batch_is_closed(options_, i - plan.bounds.back(), held, rows)) {
        plan.bounds.push_back(i);
        held = 0;
      }
      held += rows;
    }
    if (!options_.drop_last || detail::batch_is_full(options_, count_ - plan.bounds.back(), held))
      plan.bounds.push_back(count_);
    return plan;
  }
  void prepare() {
    if (planned_ && planned_epoch_ == position_.epoch) return;
    plan_ = make_plan(position_.epoch);
    planned_epoch_ = position_.epoch;
    planned_ = true;
  }

  // The most rows are those of the longest sequences together; the most sequences are the shortest
  // ones.
  void find_bounds(std::vector<std::size_t> lengths) {
    std::sort(lengths.begin(), lengths.end(), [](std::size_t a, std::size_t b) { return a > b; });
    largest_sequences_ =
        options_.batch_sequences == 0 ? count_ : (std::min)(count_, options_.batch_sequences);
    largest_rows_ = 0;
    for (std::size_t i = 0; i < largest_sequences_; ++i) largest_rows_ += lengths[i];
    if (options_.batch_tokens == 0) return;
    largest_rows_ = (std::min)(largest_rows_, (std::max)(options_.batch_tokens, lengths.front()));
    std::size_t held = lengths.back(), most = 1;
    while (most < largest_sequences_ && lengths[count_ - 1 - most] <= options_.batch_tokens &&
           held <= options_.batch_tokens - lengths[count_ - 1 - most])
      held += lengths[count_ - 1 - most++];
    largest_sequences_ = most;
  }

  std::string_view operation_;
  BatchOptions options_;
  std::size_t count_ = 0, rows_ = 0, largest_rows_ = 0, largest_sequences_ = 0;
  Position position_;
  Plan plan_;
  std::uint64_t planned_epoch_ = 0;
  bool planned_ = false;
};

}  // namespace soma::data
