#pragma once
// The functions of indexed_source.hpp.

#include <soma/data/indexed_source.hpp>

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

SOMA_INLINE bool IndexedSource::next(Batch& batch) {
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

SOMA_INLINE void IndexedSource::seek(Position position) {
  const std::uint64_t count = batches(position.epoch);
  if (position.batch > count)
    fail(error_id::data_position, operation_, "batch", std::to_string(position.batch),
         "at most " + std::to_string(count) + ", which epoch " + std::to_string(position.epoch) +
             " has");
  position_ = position;
}

SOMA_INLINE std::uint64_t IndexedSource::batches(std::uint64_t epoch) const {
  if (planned_ && epoch == planned_epoch_) return plan_.batches();
  if (options_.batch_tokens == 0) {
    const std::size_t size = options_.batch_sequences;
    return options_.drop_last ? count_ / size : count_ / size + (count_ % size != 0 ? 1 : 0);
  }
  return make_plan(epoch).batches();
}

SOMA_INLINE std::uint64_t IndexedSource::hash() const {
  ContentHash hash;
  add_content(hash);
  detail::add_options(hash, options_);
  return hash.value();
}

SOMA_INLINE void IndexedSource::describe(Record& record) const {
  ContentHash hash;
  add_content(hash);
  record.set("data.content", std::to_string(count_) + " sequences, " + std::to_string(rows_) +
                                 " rows, hash " + std::to_string(hash.value()));
  detail::describe_options(record, options_);
}

SOMA_INLINE IndexedSource::IndexedSource(std::string_view operation, Context& context,
                                         const BatchOptions& options)
    : operation_(operation), options_(options) {
  detail::check_batch_options(operation, context, options);
}

SOMA_INLINE void IndexedSource::start(std::size_t count) {
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
  if (std::uint64_t{count} >> 32 != 0)
    fail(error_id::index_range, operation_, "data", std::to_string(count) + " sequences",
         "below 2^32");
  find_bounds(std::move(lengths));
}

SOMA_INLINE std::size_t IndexedSource::Plan::batches() const { return bounds.size() - 1; }

SOMA_INLINE std::span<const std::uint32_t> IndexedSource::Plan::items(std::size_t batch) const {
  return std::span(order).subspan(bounds[batch], bounds[batch + 1] - bounds[batch]);
}

SOMA_INLINE auto IndexedSource::make_plan(std::uint64_t epoch) const -> Plan {
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

SOMA_INLINE void IndexedSource::prepare() {
  if (planned_ && planned_epoch_ == position_.epoch) return;
  plan_ = make_plan(position_.epoch);
  planned_epoch_ = position_.epoch;
  planned_ = true;
}

SOMA_INLINE void IndexedSource::find_bounds(std::vector<std::size_t> lengths) {
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

}  // namespace SOMA_NAMESPACE::data
