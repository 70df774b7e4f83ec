#pragma once
// MicrobatchSums: gradients of the micro-batches of a batch, summed in the order of the shard tree.
// Micro-batches are runs of shards, so their sums are subtrees; they combine as the digits of a
// binary counter: 0 + 1, then (0 + 1) + (2 + 3). With four or more micro-batches, a running sum
// would have other bits.

#include <soma/autograd/var.hpp>
#include <soma/ops/built_in.hpp>
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

// Each addend of a parameter is summed by itself and goes to the next receiver when the last
// micro-batch's addend has come; that receiver adds replicas, passes the sum to the parameter, and
// rounds it. Every micro-batch must have the same addends in the same order. Memory: for each
// addend at most log2 of the micro-batches.
class MicrobatchSums final : public GradientReceiver {
 public:
  MicrobatchSums(Context& context, GradientReceiver& next)
      : context_(context), next_(next), entries_(context.heap()) {}

  // Called before the backward of each micro-batch, in ascending order; `count`: a power of two.
  void begin(std::size_t microbatch, std::size_t count);
  // Called after the backward. Error parallel.gradient: fewer addends than the first micro-batch
  // had.
  void end();

  // Errors parallel.gradient, and those of the next receiver.
  SOMA_INLINE void receive(const Var& parameter, Gradient addend) override;
  SOMA_INLINE void complete(const Var& parameter, DType type) override;

 private:
  struct Entry {
    explicit Entry(Heap& heap) : waiting(heap) {}
    Var parameter;
    HeapVector<Gradient> waiting;  // at each level, the left one of two sums
  };

  [[noreturn]] void refuse(const std::string& given) const;

  Gradient sum(Gradient a, Gradient b) const;
  // The union of the rows. A side that lacks a row adds zeros, as a shard without the row does.
  Gradient sum_of_rows(const Gradient& a, const Gradient& b) const;
  // -0 becomes 0, as in a sum with zeros.
  static void add_zero(std::span<float> values);

  Context& context_;
  GradientReceiver& next_;
  HeapVector<Entry> entries_;
  std::size_t index_ = 0, count_ = 1, arrived_ = 0;
};

// A sum of numbers by the same counter.
class TreeSum {
 public:
  // Called in ascending order, from index 0 on.
  void add(std::size_t index, float value);
  // The sum; valid once the count is a power of two.
  float value() const { return top_; }

 private:
  float waiting_[64]{};
  float top_ = 0;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/parallel/impl/microbatch_sums.ipp>
#endif
