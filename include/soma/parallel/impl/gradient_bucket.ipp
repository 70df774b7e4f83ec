#pragma once
// The functions of gradient_bucket.hpp.

#include <soma/parallel/gradient_bucket.hpp>

#include <soma/ops/run.hpp>
#include <soma/parallel/gradient_rounding.hpp>
#include <soma/parallel/reduce_scatter.hpp>
#include <soma/parallel/row_partition.hpp>
#include <soma/runtime/shared.hpp>
#include <soma/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

namespace SOMA_NAMESPACE {

SOMA_INLINE GradientBucket::GradientBucket(Heap& heap, Context& context, Communicator& communicator,
                                           int tag, const ReductionSetting& setting)
    : Counted(heap),
      context_(context),
      communicator_(communicator),
      setting_(setting),
      addends_(heap),
      runs_(heap),
      rounding_(context, setting.format, setting.draw, communicator.rank(), runs_),
      sums_(communicator, heap, tag, rounds() ? &rounding_ : nullptr),
      gather_(communicator, tag) {}

SOMA_INLINE std::size_t GradientBucket::add(Tensor values, const RowPartition& rows,
                                            std::uint64_t index) {
  const std::size_t begin = own_elements_;
  elements_ += values.elements();
  own_elements_ +=
      setting_.keep_own_rows
          ? rows.part(communicator_.rank(), communicator_.size()).count * rows.row_elements()
          : values.elements();
  addends_.push_back({std::move(values), rows, index});
  return begin;
}

SOMA_INLINE void GradientBucket::close() {
  values_ = Tensor::empty(context_, Shape{elements_});
  std::size_t next = 0;
  const auto copy = [&](const Addend& addend, std::size_t begin, std::size_t count) {
    if (count == 0) return;
    runs_.push_back({next, addend.index + begin});
    std::memcpy(values_.mutable_data<float>() + next, addend.values.data<float>() + begin,
                count * sizeof(float));
    next += count;
  };
  for (Addend& addend : addends_) addend.values = contiguous(context_, addend.values);
  const int ranks = setting_.keep_own_rows ? communicator_.size() : 1;
  for (int index = 0; index < ranks; ++index) {
    const auto rank = static_cast<int>(index_of_part(index, ranks));  // and the other way round
    for (const Addend& addend : addends_) {
      const Part rows = addend.rows.part(rank, ranks);
      copy(addend, rows.begin * addend.rows.row_elements(),
           rows.count * addend.rows.row_elements());
    }
  }
  for (Addend& addend : addends_) addend.values = Tensor();
}

SOMA_INLINE void GradientBucket::start() {
  if (setting_.keep_own_rows)
    sums_.start(values_.mutable_span<float>(), *this);
  else
    sums_.start(values_.mutable_span<float>());
}

SOMA_INLINE bool GradientBucket::advance() {
  if (!sums_.advance()) return false;
  if (!std::exchange(summed_, true)) distribute();
  if (!gather_.advance()) return false;
  if (!std::exchange(done_, true)) widen();
  return true;
}

SOMA_INLINE void GradientBucket::finish() {
  sums_.finish();
  if (!std::exchange(summed_, true)) distribute();
  gather_.finish();
  if (!std::exchange(done_, true)) widen();
}

SOMA_INLINE bool GradientBucket::rounds() const {
  return communicator_.size() > 1 && setting_.format.format != formats::fp32;
}

SOMA_INLINE Part GradientBucket::part(int rank, int ranks) const {
  Part all;
  for (const Addend& addend : addends_) {
    const Part rows = addend.rows.part(rank, ranks);
    all.begin += rows.begin * addend.rows.row_elements();
    all.count += rows.count * addend.rows.row_elements();
  }
  return all;
}

SOMA_INLINE void GradientBucket::distribute() {
  const int rank = communicator_.rank(), ranks = communicator_.size();
  const bool own_only = setting_.keep_own_rows;
  const Part own = own_only ? part(rank, ranks) : owned_range(elements_, rank, ranks);
  if (rounds()) {
    const std::size_t bytes = rounding_.bytes();
    codes_ =
        Tensor::empty(context_, Shape{(own_only ? own.count : elements_) * bytes}, DType::uint8);
    rounding_.round(own.begin, values_.mutable_span<float>().subspan(own.begin, own.count), ranks,
                    code_bytes().subspan(own_only ? 0 : own.begin * bytes, own.count * bytes));
  }
  if (own_only)
    values_ = clone(context_, values_.slice(0, own.begin, own.end()));
  else if (rounds())
    gather_.start(code_bytes(), rounding_.bytes());
  else
    gather_.start(values_.mutable_span<float>());
}

SOMA_INLINE void GradientBucket::widen() {
  if (rounds() && !setting_.keep_own_rows)
    rounding_.widen(code_bytes(), values_.mutable_span<float>());
  codes_ = Tensor();
}

SOMA_INLINE std::span<std::byte> GradientBucket::code_bytes() {
  return {codes_.mutable_raw(), codes_.bytes()};
}

}  // namespace SOMA_NAMESPACE
