#pragma once
// The parts of head_loss: the rows that have labels, and the logits of a panel of classes at a
// time.

#include <soma/kernels/gemm/multiply.hpp>
#include <soma/numeric/portable_math.hpp>
#include <soma/ops/rows/embedding.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>

namespace SOMA_NAMESPACE::detail {

// Only this many columns of the logits [rows, classes] exist at a time.
inline constexpr std::size_t panel_classes = 4096;

// Inputs of head_loss. Backward has two more before `bias`.
struct HeadInputs {
  HeadInputs(std::span<const Tensor> inputs, std::size_t bias_index)
      : x(inputs[0]),
        weight(inputs[1]),
        labels(inputs[2]),
        bias(input_or_none(inputs, bias_index)),
        offsets(input_or_none(inputs, bias_index + 1)) {}

  const Tensor &x, &weight, &labels;
  Tensor bias, offsets;
};

// The rows of x that have a label. The others count nothing: they are left out of all products, and
// x itself is read where there are none of them.
class LabelledRows {
 public:
  // Errors operator.value: a label that is no class, or lists that do not ascend.
  LabelledRows(Context& context, const HeadInputs& inputs, const CrossEntropySetting& setting,
               const Sequences& batch)
      : kept_(context.heap()),
        begins_(context.heap()),
        labels_(context.heap()),
        bounds_(context.heap()),
        all_(inputs.x.size(0)) {
    const Tensor labels = contiguous(context, inputs.labels);
    if (inputs.offsets.defined())
      take_lists(labels, contiguous(context, inputs.offsets), inputs.weight.size(0));
    else
      take_labels(labels, setting.ignore_index, inputs.weight.size(0));
    begins_.push_back(labels_.size());
    const RowSegments segments(batch, all_);
    for (std::size_t i = 0; i <= segments.get().count; ++i)
      bounds_.push_back(static_cast<std::size_t>(
          std::lower_bound(kept_.begin(), kept_.end(), segments.get().bounds[i]) - kept_.begin()));
    x_ = rows_of(context, complete() ? inputs.x : gathered(context, inputs.x));
  }

  std::size_t count() const { return kept_.size(); }
  bool complete() const { return count() == all_; }
  // The row's number in x.
  std::size_t operator[](std::size_t i) const { return kept_[i]; }
  // Ascending.
  std::span<const std::int64_t> labels(std::size_t i) const {
    return {labels_.data() + begins_[i], begins_[i + 1] - begins_[i]};
  }
  // Those of a row that are in a panel.
  std::span<const std::int64_t> labels(std::size_t i, std::size_t first,
                                       std::size_t classes) const {
    const std::span<const std::int64_t> own = labels(i);
    const auto at = [&](std::size_t label) {
      return static_cast<std::size_t>(
          std::lower_bound(own.begin(), own.end(), static_cast<std::int64_t>(label)) - own.begin());
    };
    const std::size_t begin = at(first);
    return own.subspan(begin, at(first + classes) - begin);
  }
  const TensorRows& x() const { return x_; }
  // The shards of the batch.
  Segments segments() const { return {bounds_.data(), bounds_.size() - 1}; }

 private:
  void take_labels(const Tensor& labels, std::int64_t ignored, std::size_t classes) {
    kept_.reserve(all_);
    for (std::size_t i = 0; i < all_; ++i) {
      const std::int64_t label = index_at(labels, i);
      if (label == ignored) continue;
      if (label < 0 || static_cast<std::uint64_t>(label) >= classes)
        fail(error_id::operator_value, "head_loss", "labels[" + std::to_string(i) + "]",
             std::to_string(label), "0 to " + std::to_string(classes) + " - 1, or ignore_index");
      add(i);
      labels_.push_back(label);
    }
  }
  void take_lists(const Tensor& labels, const Tensor& offsets, std::size_t classes) {
    const std::span<const std::int64_t> at = offsets.span<std::int64_t>();
    const auto refuse = [&](std::int64_t given) {
      fail(
          error_id::operator_value, "head_loss", "offsets", std::to_string(given),
          "ascending numbers from 0 to the number of labels, " + std::to_string(labels.elements()));
    };
    if (at.front() != 0 || static_cast<std::uint64_t>(at.back()) != labels.elements())
      refuse(at.back());
    for (std::size_t i = 0; i < all_; ++i) {
      if (at[i + 1] < at[i] || at[i + 1] > at.back()) refuse(at[i + 1]);
      if (at[i + 1] != at[i]) add(i);
      std::int64_t before = -1;
      for (std::int64_t k = at[i]; k < at[i + 1]; ++k) {
        const std::int64_t label = index_at(labels, static_cast<std::size_t>(k));
        if (label <= before || static_cast<std::uint64_t>(label) >= classes)
          fail(error_id::operator_value, "head_loss", "labels[" + std::to_string(k) + "]",
               std::to_string(label),
               "ascending numbers of a row, below the " + std::to_string(classes) + " classes");
        before = label;
        labels_.push_back(label);
      }
    }
  }
  void add(std::size_t row) {
    kept_.push_back(row);
    begins_.push_back(labels_.size());
  }
  Tensor gathered(Context& context, const Tensor& x) const {
    const Tensor all = contiguous(context, x);
    const Tensor some = Tensor::empty(context, Shape{count(), x.size(1)}, x.dtype());
    if (some.elements() == 0) return some;
    const std::size_t bytes = x.size(1) * size_of(x.dtype());
    const std::byte* const from = all.raw();
    std::byte* const to = some.mutable_raw();
    for_ranges(context, count(), x.size(1) / 4, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i)
        std::memcpy(to + i * bytes, from + kept_[i] * bytes, bytes);
    });
    return some;
  }

  HeapVector<std::size_t> kept_, begins_;
  HeapVector<std::int64_t> labels_;
  HeapVector<std::size_t> bounds_;
  std::size_t all_;
  TensorRows x_;
};

// The logits of a panel of classes: x weight^T + bias, in fp32.
class ClassPanels {
 public:
  ClassPanels(Context& context, const TensorRows& x, const Tensor& weight, const Tensor& bias)
      : context_(context),
        x_(x),
        weight_(rows_of(context, weight)),
        bias_(plain_fp32(context, bias)),
        classes_(weight.size(0)),
        stride_((std::min)(panel_classes, classes_) + apart),
        logits_(Tensor::empty(context, Shape{x.rows(), stride_})) {}

  std::size_t classes() const { return classes_; }
  // Elements from row to row.
  std::size_t stride() const { return stride_; }
  // Rows of the weight, from a class on.
  MatrixOperand weight(std::size_t first) const { return part(operand(weight_), first, 0); }

  // Calls each(first class, classes, logits [rows, classes]), which may overwrite the logits.
  template <class Each>
  void for_each(const Each& each) {
    if (x_.rows() == 0) return;
    for (std::size_t first = 0; first < classes_; first += panel_classes) {
      const std::size_t classes = (std::min)(panel_classes, classes_ - first);
      GemmArgs args{.m = x_.rows(), .n = classes, .k = x_.columns()};
      args.a = operand(x_);
      args.b = transposed(weight(first));
      args.c = {.data = logits_.mutable_data<float>(), .row_stride = stride_};
      if (bias_.defined()) args.epilogue.bias = bias_.data<float>() + first;
      multiply(context_, args);
      each(first, classes, logits_.mutable_data<float>());
    }
  }

 private:
  // Rows that lie a power of two apart would share few sets of a cache.
  static constexpr std::size_t apart = 16;

  Context& context_;
  const TensorRows& x_;
  TensorRows weight_;
  Tensor bias_;
  std::size_t classes_, stride_;
  Tensor logits_;
};

// The sums over the classes of a row so far, relative to the largest logit of these. Their
// logarithm in two terms is that of CrossEntropyArgs: the largest logit itself is left out of the
// sum of exponentials, so a loss near 0 keeps its digits.
class RowSums {
 public:
  void add(const ClassSums& panel, std::size_t classes) {
    const auto own = static_cast<double>(panel.largest);
    const double others =
        static_cast<double>(panel.below) + static_cast<double>(panel.at_largest) - 1;
    auto differences = static_cast<double>(panel.differences);
    if (classes_ == 0 || own == largest_) {
      others_ = classes_ == 0 ? others : others_ + others + 1;
      differences_ += differences;
    } else if (own > largest_) {
      others_ = others + (others_ + 1) * portable_exp(largest_ - own);
      differences_ += differences + static_cast<double>(classes_) * (largest_ - own);
    } else {
      others_ += (others + 1) * portable_exp(own - largest_);
      differences_ += differences + static_cast<double>(classes) * (own - largest_);
    }
    if (classes_ == 0 || own > largest_) largest_ = own;
    classes_ += classes;
  }
  void add_label(float logit) { labels_ += static_cast<double>(logit); }

  double largest() const { return largest_; }
  // log(sum of exp(x - largest)). With one infinite logit it is 0, because all other exponentials
  // vanish beside it. NaN if several logits are infinite, or if all are -infinity.
  double log_sum() const {
    if (std::isinf(largest_) && !(largest_ > 0 && others_ == 0))
      return std::numeric_limits<double>::quiet_NaN();
    // log(1 + others), to full precision: the error of 1 + others cancels.
    const double sum = 1 + others_;
    return sum == 1 ? others_ : portable_log(sum) * (others_ / (sum - 1));
  }
  // The loss of a row with so many labels, of which each has the same share.
  double loss(std::size_t labels, double smoothing) const {
    const double own = labels_ / static_cast<double>(labels), log_sum = this->log_sum();
    const double from_label = log_sum - (own == largest_ ? 0 : own - largest_);
    if (smoothing == 0) return from_label;
    const double from_mean = log_sum - differences_ / static_cast<double>(classes_);
    // A share of zero does not multiply an infinity.
    return (smoothing == 1 ? 0 : (1 - smoothing) * from_label) + smoothing * from_mean;
  }

 private:
  double largest_ = 0, others_ = 0, differences_ = 0, labels_ = 0;
  std::size_t classes_ = 0;
};

}  // namespace SOMA_NAMESPACE::detail
