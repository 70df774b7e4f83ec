#pragma once
// GradientReducer: adds the gradients of all ranks while backward continues.
//
// Each rank differentiates its own shards of a batch. The tape passes the terms of parameters'
// gradients to this object (TapeOptions::receiver), addend by addend, in the same order on all
// ranks. An addend is summed over the ranks in the fixed tree of the shards, in fp32, and only then
// added to the parameter. The parameter's sum is rounded once, after its last addend (complete()).
// One rank with all shards does exactly the same, even if a parameter is used several times or a
// step gathers several batches.
//
// Dense addends are collected in buckets, in the order in which backward makes them. A full bucket
// starts as soon as few enough are in transit, and advances whenever the next addend comes; nothing
// waits before finish(). Once a bucket is summed, its gradients are passed to their parameters, and
// its memory is free again: gradients with a narrower storage type take fp32 memory only until
// their last addend. Sparse addends (embeddings, the last that backward makes) are summed in
// finish(): first the lists of rows, then the values on the union of all ranks' rows. Sparse
// addends, and later ones, stay until then: so call finish() after each batch.
//
// If ranks share the rows of all parameters (ZeRO), each rank gets the sums of its own rows only
// (Gradient::first_row): a bucket is reduce-scattered along these rows and nothing is sent back.

#include <soma/autograd/var.hpp>
#include <soma/ops/built_in.hpp>
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

struct GradientReducerOptions {
  std::size_t bucket_bytes = std::size_t{4} << 20;  // a bucket with that many fp32 bytes is full
  bool overlap = true;         // buckets leave while backward goes on; false: all in finish()
  bool keep_own_rows = false;  // each rank gets the sums of its rows only (RowPartition)
  // The format in transit: fp32, or numbers rounded to another format. Then the bits of sums depend
  // on the number of ranks.
  Quantizer format{};
  std::uint64_t seed = 0;  // for stochastic rounding to that format
};

// Seconds over all steps so far.
struct ReductionTimes {
  double total = 0;   // in which sums were on their way
  double waited = 0;  // the part in finish(), when there was nothing else to do
};

class GradientReducer final : public GradientReceiver {
 public:
  // Error parallel.ranks.
  GradientReducer(Context& context, Communicator& communicator,
                  const GradientReducerOptions& options = {});
  SOMA_INLINE ~GradientReducer() override = default;

  // Errors parallel.gradient (an addend that was rounded before the ranks' sums were added), and
  // those of Communicator.
  SOMA_INLINE void receive(const Var& parameter, Gradient addend) override;
  SOMA_INLINE void complete(const Var& parameter, DType type) override;
  // Rounding uses new draws for each step: by `mapping` where the format's draws are automatic.
  void begin_step(std::uint64_t step, DrawMapping mapping = DrawMapping::automatic);

  // Waits for all sums in transit and adds them to the parameters. Every rank calls it after the
  // same addends. Errors as of Communicator.
  void finish();

  const ReductionTimes& times() const { return times_; }

 private:
  // The most buckets in transit, each with a tag of its own. The next bucket starts when the first
  // of them is done: two buckets with one tag would take each other's messages, and an addend would
  // cost as much as all buckets before it.
  static constexpr std::size_t at_once = 64;

  struct Item {
    Var parameter;
    RowPartition rows;
    float factor = 1;
    std::optional<DType> complete{};    // the last addend: the sum is rounded to this type
    std::size_t bucket = 0, begin = 0;  // where the gradient's sums are
    Gradient sparse{};
  };

  Shared<GradientBucket> new_bucket(int tag);
  void close_bucket();
  void start_next();

  void advance();
  // Passes the sums of the first `summed` buckets to their parameters, in the order of arrival. A
  // sparse addend, and all later ones, wait for finish().
  void give_summed(std::size_t summed);
  void count_time(std::int64_t end);

  // The rows of all ranks, ascending, each once.
  Tensor all_rows(std::span<const std::int64_t> mine);

  void reduce_sparse();
  // Counted from the first row that this rank keeps.
  Tensor own_rows(const Item& item, const RowPartition& partition,
                  std::span<const std::int64_t> all);
  Part own_part(const Item& item) const;

  // The remaining steps for a sum of all ranks.
  void give(Item& item);

  Context& context_;
  Communicator& communicator_;
  GradientReducerOptions options_;
  HeapVector<Item> items_;
  HeapVector<Shared<GradientBucket>> buckets_;
  Shared<GradientBucket> filling_;
  std::uint32_t step_ = 0;
  DrawMapping mapping_ = DrawMapping::automatic;
  std::uint64_t reduced_ = 0;  // elements of this step so far
  std::size_t started_ = 0;    // buckets at the front that have left
  std::size_t finished_ = 0;   // buckets that are done
  std::size_t released_ = 0;   // buckets whose memory is free
  std::size_t given_ = 0;      // items at the front that their parameters have
  std::int64_t under_way_since_ = 0;
  ReductionTimes times_{};
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/parallel/impl/gradient_reducer.ipp>
#endif
