#pragma once
// GradientBucket: gradients that travel together. It is filled, closed, and then in transit until
// the sums over all ranks are complete.

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

// The common settings of all buckets of a step.
struct ReductionSetting {
  bool keep_own_rows = false;  // each rank gets the sums of its rows (RowPartition) only
  Quantizer format{};          // the format in transit; fp32 or a format with fewer bits
  Draw draw{};                 // for the rounding: seed and step
};

// Not movable: messages in transit refer to it.
class GradientBucket final : public Counted, private Partition {
 public:
  GradientBucket(Heap& heap, Context& context, Communicator& communicator, int tag,
                 const ReductionSetting& setting);

  // Adds fp32 values, with the rows that `rows` describes. `index`: the number of their first
  // element among all elements that a step reduces. Returns the begin of their sums among values().
  std::size_t add(Tensor values, const RowPartition& rows, std::uint64_t index);
  std::size_t elements() const { return elements_; }

  // Lays out the addends: in the order of arrival, or, if each rank keeps its rows, with the rows
  // of each rank side by side.
  void close();
  void start();
  // True if it is done; never waits.
  bool advance();
  void finish();
  // The sums, once it is done: of all addends, or of this rank's rows of them.
  const Tensor& values() const { return values_; }

 private:
  struct Addend {
    Tensor values;
    RowPartition rows;
    std::uint64_t index;
  };

  bool rounds() const;
  // A rank's part of the buffer, if each rank keeps its rows.
  SOMA_INLINE Part part(int rank, int ranks) const override;
  // Passes on sums that have their last addend.
  void distribute();
  // Widens numbers that arrived in a narrow format.
  void widen();
  std::span<std::byte> code_bytes();

  Context& context_;
  Communicator& communicator_;
  ReductionSetting setting_;
  HeapVector<Addend> addends_;
  HeapVector<GradientRounding::Run> runs_;
  std::size_t elements_ = 0, own_elements_ = 0;
  bool summed_ = false, done_ = false;
  Tensor values_, codes_;  // outlive the messages
  GradientRounding rounding_;
  ReduceScatter sums_;
  AllGather gather_;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/parallel/impl/gradient_bucket.ipp>
#endif
