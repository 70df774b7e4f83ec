#pragma once
// The functions of gradient_reducer.hpp.

#include <soma/parallel/gradient_reducer.hpp>

#include <soma/autograd/var.hpp>
#include <soma/ops/records.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/parallel/collectives.hpp>
#include <soma/parallel/gradient_bucket.hpp>
#include <soma/runtime/float_environment.hpp>
#include <soma/runtime/heap_vector.hpp>
#include <soma/runtime/shared.hpp>
#include <soma/system/clock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

namespace SOMA_NAMESPACE {

SOMA_INLINE GradientReducer::GradientReducer(Context& context, Communicator& communicator,
                                             const GradientReducerOptions& options)
    : context_(context),
      communicator_(communicator),
      options_(options),
      items_(context.heap()),
      buckets_(context.heap()) {
  check_ranks(communicator.size(), detail::any_number_of_shards);
}

SOMA_INLINE void GradientReducer::receive(const Var& parameter, Gradient addend) {
  if (addend.rounded)
    fail(error_id::parallel_gradient, "GradientReducer", "gradient of a parameter",
         addend.values.describe() + ", rounded by each rank",
         "fp32 sums, which are rounded once, after the sum over all ranks");
  if (addend.values.dtype() != DType::fp32)
    addend.values = run(context_, *context_.built_in().cast, CastSetting{.dtype = DType::fp32},
                        {addend.values})[0];
  Item item{.parameter = parameter,
            .rows = RowPartition(parameter.shape()),
            .factor = addend.factor,
            .bucket = buckets_.size()};
  if (addend.sparse()) {
    item.sparse = std::move(addend);
  } else {
    if (filling_ == nullptr) filling_ = new_bucket(static_cast<int>(buckets_.size() % at_once));
    const std::size_t elements = addend.values.elements();
    item.begin = filling_->add(std::move(addend.values), item.rows, reduced_);
    reduced_ += elements;
  }
  items_.push_back(std::move(item));
  if (filling_ != nullptr && filling_->elements() * sizeof(float) >= options_.bucket_bytes)
    close_bucket();
  if (options_.overlap) advance();
}

SOMA_INLINE void GradientReducer::complete(const Var& parameter, DType type) {
  for (std::size_t i = items_.size(); i-- > given_;)
    if (items_[i].parameter.is(parameter)) {
      items_[i].complete = type;
      return;
    }
  round_gradient(context_, parameter, type);  // all addends have been given
}

SOMA_INLINE void GradientReducer::begin_step(std::uint64_t step, DrawMapping mapping) {
  step_ = static_cast<std::uint32_t>(step);
  mapping_ = mapping;
  reduced_ = 0;
}

SOMA_INLINE void GradientReducer::finish() {
  if (items_.empty()) return;
  const FloatEnvironment environment;
  close_bucket();
  const std::int64_t start = monotonic_nanoseconds();
  if (under_way_since_ == 0) under_way_since_ = start;
  for (; finished_ < buckets_.size(); ++finished_) {  // every rank waits for the same one
    start_next();
    buckets_[finished_]->finish();
    give_summed(finished_ + 1);
  }
  reduce_sparse();
  const std::int64_t end = monotonic_nanoseconds();
  times_.waited += static_cast<double>(end - start) * 1e-9;
  count_time(end);
  for (; given_ < items_.size(); ++given_) give(items_[given_]);
  items_.clear();
  buckets_.clear();
  started_ = finished_ = given_ = released_ = 0;
}

SOMA_INLINE Shared<GradientBucket> GradientReducer::new_bucket(int tag) {
  ReductionSetting setting{.keep_own_rows = options_.keep_own_rows,
                           .format = options_.format,
                           .draw = {.seed = options_.seed, .step = step_}};
  setting.format.rounding = setting.format.rounding.drawn_by(mapping_);
  return Shared<GradientBucket>::make(context_.heap(), context_, communicator_, tag, setting);
}

SOMA_INLINE void GradientReducer::close_bucket() {
  if (filling_ == nullptr) return;
  filling_->close();
  buckets_.push_back(std::exchange(filling_, nullptr));
}

SOMA_INLINE void GradientReducer::start_next() {
  const std::size_t end = finished_ + (options_.overlap ? at_once : 1);
  for (; started_ < buckets_.size() && started_ < end; ++started_) {
    if (under_way_since_ == 0) under_way_since_ = monotonic_nanoseconds();
    buckets_[started_]->start();
  }
}

SOMA_INLINE void GradientReducer::advance() {
  start_next();
  bool all = true;
  for (std::size_t i = finished_; i < started_; ++i) {
    const bool done = buckets_[i]->advance();
    if (done && all) finished_ = i + 1;
    all = all && done;
  }
  if (finished_ == buckets_.size()) count_time(monotonic_nanoseconds());
  give_summed(finished_);
}

SOMA_INLINE void GradientReducer::give_summed(std::size_t summed) {
  for (; given_ < items_.size(); ++given_) {
    Item& item = items_[given_];
    if (item.sparse.defined() || item.bucket >= summed) break;
    give(item);
  }
  const std::size_t held = given_ < items_.size() ? items_[given_].bucket : summed;
  for (; released_ < held && released_ < summed; ++released_) buckets_[released_] = nullptr;
}

SOMA_INLINE void GradientReducer::count_time(std::int64_t end) {
  if (under_way_since_ == 0) return;
  times_.total += static_cast<double>(end - std::exchange(under_way_since_, 0)) * 1e-9;
}

SOMA_INLINE Tensor GradientReducer::all_rows(std::span<const std::int64_t> mine) {
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  const auto own = static_cast<std::size_t>(communicator_.rank());
  HeapVector<std::uint64_t> counts(ranks, context_.heap());
  counts[own] = mine.size();
  all_reduce_sum(communicator_, context_.heap(), counts);
  std::size_t total = 0, before = 0;
  for (std::size_t i = 0; i < ranks; ++i) {
    if (i == own) before = total;
    total += counts[i];
  }
  // Each rank has its part of the list at its position among zeros: the sum is the whole list.
  HeapVector<std::uint64_t> rows(total, context_.heap());
  for (std::size_t i = 0; i < mine.size(); ++i)
    rows[before + i] = static_cast<std::uint64_t>(mine[i]);
  all_reduce_sum(communicator_, context_.heap(), rows);
  std::sort(rows.begin(), rows.end());
  const auto count = static_cast<std::size_t>(std::unique(rows.begin(), rows.end()) - rows.begin());
  const Tensor numbers = Tensor::empty(context_, Shape{count}, DType::int64);
  std::int64_t* number = numbers.mutable_data<std::int64_t>();
  for (std::size_t i = 0; i < count; ++i) number[i] = static_cast<std::int64_t>(rows[i]);
  return numbers;
}

SOMA_INLINE void GradientReducer::reduce_sparse() {
  for (Item& item : items_) {
    if (!item.sparse.defined()) continue;
    const std::span<const std::int64_t> mine = item.sparse.rows.span<std::int64_t>();
    Tensor numbers = all_rows(mine);
    const std::span<const std::int64_t> all = numbers.span<std::int64_t>();
    // A rank that lacks a row adds zeros, as a shard without the row does.
    const Tensor values = Tensor::zeros(context_, item.parameter.shape().with(0, all.size()));
    const Tensor source = contiguous(context_, item.sparse.values);
    const std::size_t width = item.rows.row_elements() * sizeof(float);
    std::byte* target = values.mutable_raw();
    for (std::size_t i = 0, at = 0; i < mine.size(); ++i) {
      while (all[at] != mine[i]) ++at;
      std::memcpy(target + at * width, source.raw() + i * width, width);
    }
    const Shared<GradientBucket> bucket = new_bucket(collective_tag);
    const RowPartition partition = item.rows.only(all);
    bucket->add(values, partition, reduced_);
    reduced_ += values.elements();
    bucket->close();
    bucket->start();
    bucket->finish();
    item.sparse.values = bucket->values();
    item.sparse.rows = options_.keep_own_rows ? own_rows(item, partition, all) : numbers;
  }
}

SOMA_INLINE Tensor GradientReducer::own_rows(const Item& item, const RowPartition& partition,
                                             std::span<const std::int64_t> all) {
  const Part own = partition.part(communicator_.rank(), communicator_.size());
  const auto first = static_cast<std::int64_t>(own_part(item).begin);
  const Tensor rows = Tensor::empty(context_, Shape{own.count}, DType::int64);
  for (std::size_t i = 0; i < own.count; ++i)
    rows.mutable_data<std::int64_t>()[i] = all[own.begin + i] - first;
  return rows;
}

SOMA_INLINE Part GradientReducer::own_part(const Item& item) const {
  return item.rows.part(communicator_.rank(), communicator_.size());
}

SOMA_INLINE void GradientReducer::give(Item& item) {
  Shape shape = item.parameter.shape();
  Gradient sum;
  if (options_.keep_own_rows) {
    const Part own = own_part(item);
    shape = shape.rank() == 0 ? Shape{own.count} : shape.with(0, own.count);
    sum.first_row = own.begin;
  }
  if (item.sparse.defined()) {
    sum.rows = item.sparse.rows;
    sum.values = item.sparse.values.reshape(shape.with(0, sum.rows.size(0)));
  } else {
    sum.values = buckets_[item.bucket]
                     ->values()
                     .slice(0, item.begin, item.begin + shape.elements())
                     .reshape(shape);
  }
  item.sparse = {};
  if (item.factor != 1)
    for (float& value : sum.values.mutable_span<float>()) value *= item.factor;
  Gradient total = item.parameter.gradient();
  item.parameter.clear_gradient();  // so that the sum may be made in place
  context_.built_in().accumulate(context_, total, std::move(sum));
  item.parameter.set_gradient(std::move(total));
  if (item.complete) round_gradient(context_, item.parameter, *item.complete);
}

}  // namespace SOMA_NAMESPACE
