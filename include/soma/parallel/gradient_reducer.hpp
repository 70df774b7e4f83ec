#pragma once
// GradientReducer: adds the gradients of all ranks up while backward goes on.
//
// Each rank differentiates its own shards of a batch. What its tape would add to the gradient of a
// parameter comes here instead (TapeOptions::receiver), addend by addend, in the same order on all
// ranks. An addend is summed over the ranks in the fixed tree of the shards, rounded to its type
// once, and only then added to the parameter: exactly what one rank does that has all shards, also
// where a parameter is used several times or a step gathers several batches.
//
// Dense addends are collected into buckets, in the order in which backward makes them. A full
// bucket leaves at once and moves on whenever the next addend comes; nothing waits before finish().
// Once a bucket is summed its gradients are rounded and given to their parameters, and its memory
// is free again: of gradients that are stored narrower only those on their way take fp32.
// Sparse ones (embeddings, the last that backward makes) are summed in finish(): row lists first,
// then values on the union of all ranks' rows.

#include <soma/autograd/var.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/parallel/collectives.hpp>
#include <soma/runtime/clock.hpp>
#include <soma/runtime/float_environment.hpp>
#include <soma/runtime/heap_vector.hpp>
#include <soma/runtime/shared.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

namespace soma {

struct GradientReducerOptions {
  std::size_t bucket_bytes = std::size_t{4} << 20;
  bool overlap = true;  // buckets leave while backward goes on; false: all in finish()
};

// Seconds, of all steps so far.
struct ReductionTimes {
  double total = 0;   // in which sums were on their way
  double waited = 0;  // of these in finish(), when there was nothing else to do
};

class GradientReducer final : public GradientReceiver {
 public:
  // Error parallel.ranks.
  GradientReducer(Context& context, Communicator& communicator,
                  const GradientReducerOptions& options = {})
      : context_(context),
        communicator_(communicator),
        options_(options),
        items_(context.heap()),
        buckets_(context.heap()),
        addends_(context.heap()) {
    check_ranks(communicator.size(), detail::any_number_of_shards);
  }
  ~GradientReducer() override = default;

  // Errors parallel.gradient (an addend that was rounded before the ranks' sums have met), and
  // those of Communicator.
  void receive(const Var& parameter, Gradient addend) override {
    if (addend.values.dtype() != DType::fp32)
      fail(error_id::parallel_gradient, "GradientReducer", "gradient of a parameter",
           addend.values.describe(), "fp32: it is rounded once, after the sum over all ranks");
    Item item{.parameter = parameter,
              .shape = addend.values.shape(),
              .factor = addend.factor,
              .stored = addend.stored.value_or(DType::fp32),
              .bucket = buckets_.size(),
              .begin = gathered_};
    if (addend.sparse()) {
      item.values = std::move(addend.values);
      item.rows = std::move(addend.rows);
    } else {
      gathered_ += addend.values.elements();
      addends_.push_back(std::move(addend.values));
    }
    items_.push_back(std::move(item));
    if (gathered_ * sizeof(float) >= options_.bucket_bytes) close_bucket();
    if (options_.overlap) advance();
  }

  // Waits for what is on its way and adds all to the parameters. Every rank calls it after the same
  // addends. Errors as Communicator.
  void finish() {
    if (items_.empty()) return;
    const FloatEnvironment environment;
    close_bucket();
    const std::int64_t start = monotonic_nanoseconds();
    if (under_way_since_ == 0) under_way_since_ = start;
    for (; finished_ < buckets_.size(); ++finished_) {  // every rank waits for the same one
      if (!options_.overlap) buckets_[finished_].start();
      buckets_[finished_].finish();
      give_summed(finished_ + 1);
    }
    reduce_sparse();
    const std::int64_t end = monotonic_nanoseconds();
    times_.waited += static_cast<double>(end - start) * 1e-9;
    count_time(end);
    for (; given_ < items_.size(); ++given_) give(items_[given_]);
    items_.clear();
    buckets_.clear();
    finished_ = given_ = released_ = 0;
  }

  const ReductionTimes& times() const { return times_; }

 private:
  struct Item {
    Var parameter;
    Shape shape;
    float factor = 1;
    DType stored = DType::fp32;
    std::size_t bucket = 0, begin = 0;
    Tensor values{}, rows{};  // of a sparse one
    bool sparse() const { return rows.defined(); }
  };

  // An all-reduce that is advanced now and then.
  class Bucket {
   public:
    Bucket(Context& context, Communicator& communicator, int tag, Tensor values)
        : values_(std::move(values)),
          state_(Shared<State>::make(context.heap(), communicator, tag)) {}
    void start() { state_->sums.start(values_.mutable_span<float>()); }
    // Whether it is done; never waits.
    bool advance() {
      if (!state_->sums.advance()) return false;
      gather();
      return state_->whole.advance();
    }
    void finish() {
      state_->sums.finish();
      gather();
      state_->whole.finish();
    }
    const Tensor& values() const { return values_; }
    void release() { values_ = Tensor(); }

   private:
    struct State : Counted {  // stays where it is: messages on their way belong to it
      State(Heap& heap, Communicator& communicator, int tag)
          : Counted(heap), sums(communicator, heap, tag), whole(communicator, tag) {}
      ReduceScatter sums;
      AllGather whole;
      bool gathering = false;
    };
    void gather() {
      if (std::exchange(state_->gathering, true)) return;
      state_->whole.start(values_.mutable_span<float>());
    }
    Tensor values_;  // outlives the messages
    Shared<State> state_;
  };

  void close_bucket() {
    if (addends_.empty()) return;
    constexpr std::size_t tags = 16384;  // messages of one tag between two ranks keep their order
    Tensor values = Tensor::empty(context_, Shape{gathered_});
    float* next = values.mutable_data<float>();
    for (const Tensor& addend : addends_) {
      const Tensor whole = contiguous(context_, addend);
      if (whole.bytes() != 0) std::memcpy(next, whole.raw(), whole.bytes());
      next += whole.elements();
    }
    addends_.clear();
    gathered_ = 0;
    buckets_.push_back(Bucket(context_, communicator_, static_cast<int>(buckets_.size() % tags),
                              std::move(values)));
    if (!options_.overlap) return;
    if (under_way_since_ == 0) under_way_since_ = monotonic_nanoseconds();
    buckets_.back().start();
  }

  void advance() {
    bool all = true;
    for (std::size_t i = finished_; i < buckets_.size(); ++i) {
      const bool done = buckets_[i].advance();
      if (done && all) finished_ = i + 1;
      all = all && done;
    }
    if (all) count_time(monotonic_nanoseconds());
    give_summed(finished_);
  }
  // Gives what the first `summed` buckets hold to its parameters, in the order in which it came. A
  // sparse addend, and what came after it, waits for finish().
  void give_summed(std::size_t summed) {
    for (; given_ < items_.size(); ++given_) {
      Item& item = items_[given_];
      if (item.sparse() || item.bucket >= summed) break;
      give(item);
    }
    const std::size_t held = given_ < items_.size() ? items_[given_].bucket : summed;
    for (; released_ < held && released_ < summed; ++released_) buckets_[released_].release();
  }
  void count_time(std::int64_t end) {
    if (under_way_since_ == 0) return;
    times_.total += static_cast<double>(end - std::exchange(under_way_since_, 0)) * 1e-9;
  }

  // Each rank's part of a list, at its place among zeros: their sum is the list of all.
  void reduce_sparse() {
    const auto ranks = static_cast<std::size_t>(communicator_.size());
    const auto own = static_cast<std::size_t>(communicator_.rank());
    for (Item& item : items_) {
      if (!item.sparse()) continue;
      const std::span<const std::int64_t> mine = item.rows.span<std::int64_t>();
      HeapVector<std::uint64_t> counts(ranks, context_.heap());
      counts[own] = mine.size();
      all_reduce_sum(communicator_, context_.heap(), counts);
      std::size_t total = 0, before = 0;
      for (std::size_t i = 0; i < ranks; ++i) {
        if (i == own) before = total;
        total += counts[i];
      }
      HeapVector<std::uint64_t> rows(total, context_.heap());
      for (std::size_t i = 0; i < mine.size(); ++i)
        rows[before + i] = static_cast<std::uint64_t>(mine[i]);
      all_reduce_sum(communicator_, context_.heap(), rows);
      std::sort(rows.begin(), rows.end());
      const auto count =
          static_cast<std::size_t>(std::unique(rows.begin(), rows.end()) - rows.begin());

      const Tensor numbers = Tensor::empty(context_, Shape{count}, DType::int64);
      std::int64_t* number = numbers.mutable_data<std::int64_t>();
      for (std::size_t i = 0; i < count; ++i) number[i] = static_cast<std::int64_t>(rows[i]);
      // A rank that lacks a row adds zeros, as a shard without it does.
      const Tensor values = Tensor::zeros(context_, item.shape.with(0, count));
      const Tensor source = contiguous(context_, item.values);
      const std::size_t width = mine.empty() ? 0 : source.bytes() / mine.size();
      std::byte* target = values.mutable_raw();
      for (std::size_t i = 0, at = 0; i < mine.size(); ++i) {
        while (number[at] != mine[i]) ++at;
        std::memcpy(target + at * width, source.raw() + i * width, width);
      }
      all_reduce(communicator_, context_.heap(), values.mutable_span<float>());
      item.values = values;
      item.rows = numbers;
    }
  }

  // What is left to do with a sum of all ranks.
  void give(Item& item) {
    Tensor values = item.values;
    if (!item.sparse()) {
      const Tensor& all = buckets_[item.bucket].values();
      values = all.slice(0, item.begin, item.begin + item.shape.elements()).reshape(item.shape);
    }
    if (item.factor != 1)
      for (float& value : values.mutable_span<float>()) value *= item.factor;
    if (item.stored != DType::fp32)
      values =
          run(context_, *context_.built_in().cast, CastSetting{.dtype = item.stored}, {values})[0];
    Gradient total = item.parameter.gradient();
    item.parameter.clear_gradient();  // so that the sum may be made in place
    context_.built_in().accumulate(context_, total, {std::move(values), std::move(item.rows)});
    item.parameter.set_gradient(std::move(total));
  }

  Context& context_;
  Communicator& communicator_;
  GradientReducerOptions options_;
  HeapVector<Item> items_;
  HeapVector<Bucket> buckets_;
  HeapVector<Tensor> addends_;  // of the bucket that is being filled
  std::size_t gathered_ = 0;    // elements of them
  std::size_t finished_ = 0;    // buckets at the front that are done
  std::size_t released_ = 0;    // and those whose memory is free
  std::size_t given_ = 0;       // items at the front that their parameters have
  std::int64_t under_way_since_ = 0;
  ReductionTimes times_{};
};

}  // namespace soma
