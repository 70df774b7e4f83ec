#pragma once
// The functions of microbatch_sums.hpp.

#include <soma/parallel/microbatch_sums.hpp>

#include <soma/autograd/var.hpp>
#include <soma/ops/records.hpp>
#include <soma/parallel/reduce_scatter.hpp>
#include <soma/runtime/context.hpp>
#include <soma/runtime/heap_vector.hpp>
#include <soma/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

namespace SOMA_NAMESPACE {

SOMA_INLINE void MicrobatchSums::begin(std::size_t microbatch, std::size_t count) {
  index_ = microbatch;
  count_ = count;
  arrived_ = 0;
  if (microbatch == 0) entries_.clear();
}

SOMA_INLINE void MicrobatchSums::end() {
  if (count_ > 1 && arrived_ != entries_.size()) refuse(std::to_string(arrived_));
  if (index_ + 1 == count_) entries_.clear();
}

SOMA_INLINE void MicrobatchSums::receive(const Var& parameter, Gradient addend) {
  if (count_ <= 1 || addend.rounded)  // the latter is refused there
    return next_.receive(parameter, std::move(addend));
  if (index_ == 0) {
    Entry entry(context_.heap());
    entry.parameter = parameter;
    entries_.push_back(std::move(entry));
  }
  if (arrived_ >= entries_.size() || !entries_[arrived_].parameter.is(parameter))
    refuse("more, or of other parameters");
  Entry& entry = entries_[arrived_++];
  std::size_t level = 0;
  for (; (index_ >> level & 1) != 0; ++level)
    addend = sum(std::exchange(entry.waiting[level], Gradient{}), std::move(addend));
  if (index_ + 1 == count_) return next_.receive(parameter, std::move(addend));
  if (entry.waiting.size() <= level) entry.waiting.resize(level + 1);
  entry.waiting[level] = std::move(addend);
}

SOMA_INLINE void MicrobatchSums::complete(const Var& parameter, DType type) {
  if (index_ + 1 == count_) next_.complete(parameter, type);
}

SOMA_INLINE void MicrobatchSums::refuse(const std::string& given) const {
  fail(error_id::parallel_gradient, "MicrobatchSums",
       "gradients of micro-batch " + std::to_string(index_), given,
       "the gradients of micro-batch 0, " + std::to_string(entries_.size()) + " in its order");
}

SOMA_INLINE Gradient MicrobatchSums::sum(Gradient a, Gradient b) const {
  if (a.sparse() && b.sparse()) return sum_of_rows(a, b);
  context_.built_in().accumulate(context_, a, std::move(b));
  return a;
}

SOMA_INLINE Gradient MicrobatchSums::sum_of_rows(const Gradient& a, const Gradient& b) const {
  const std::span<const std::int64_t> x = a.rows.span<std::int64_t>(),
                                      y = b.rows.span<std::int64_t>();
  const Tensor left = contiguous(context_, a.values), right = contiguous(context_, b.values);
  HeapVector<std::int64_t> rows(context_.heap());
  rows.reserve(x.size() + y.size());
  for (std::size_t i = 0, j = 0; i < x.size() || j < y.size();) {
    const bool first = j == y.size() || (i < x.size() && x[i] <= y[j]);
    const std::int64_t row = first ? x[i] : y[j];
    rows.push_back(row);
    if (i < x.size() && x[i] == row) ++i;
    if (j < y.size() && y[j] == row) ++j;
  }
  Gradient result = a;
  result.values = Tensor::zeros(context_, left.shape().with(0, rows.size()));
  result.rows = Tensor::empty(context_, Shape{rows.size()}, DType::int64);
  std::int64_t* numbers = result.rows.mutable_data<std::int64_t>();
  float* target = result.values.mutable_data<float>();
  const std::size_t width = rows.size() == 0 ? 0 : result.values.elements() / rows.size();
  for (std::size_t k = 0, i = 0, j = 0; k < rows.size(); ++k, target += width) {
    numbers[k] = rows[k];
    if (i < x.size() && x[i] == rows[k])
      std::memcpy(target, left.data<float>() + i++ * width, width * sizeof(float));
    if (j < y.size() && y[j] == rows[k])
      detail::add(target, right.data<float>() + j++ * width, width);
    else
      add_zero({target, width});
  }
  return result;
}

SOMA_INLINE void MicrobatchSums::add_zero(std::span<float> values) {
  for (float& value : values) value += 0.0f;
}

SOMA_INLINE void TreeSum::add(std::size_t index, float value) {
  const FloatEnvironment environment;
  std::size_t level = 0;
  for (; (index >> level & 1) != 0; ++level) value = waiting_[level] + value;
  waiting_[level] = value;
  top_ = value;
}

}  // namespace SOMA_NAMESPACE
