#pragma once
// Connectionist temporal classification (Graves et al. 2006) of log probabilities whose rows form
// sequences, with labels that are ragged too. For each sequence: -log of the probability that its
// rows, with equal neighbours joined and blanks left out, are its labels.
//
// Inputs:  x [rows, classes] log probabilities; labels [labels] (int32 or int64), those of all
//          sequences one after another; begins [sequences + 1] (int64), where the labels of each
//          sequence begin in them
// Outputs: the losses [sequences], fp32; what the gradient needs [rows, classes], fp32: if
//          CtcSetting::record is not set, [0]
//
// Infinite where a sequence has too few rows for its labels, or 0 (CtcSetting::zero_infinity); such
// a sequence has no gradient. Errors tensor.rank, tensor.dtype, tensor.shape, operator.sequences,
// tensor.index (a label that is no class, or the blank).

#include <soma/ops/batch.hpp>
#include <soma/ops/loss/settings.hpp>
#include <soma/ops/plain_call.hpp>
#include <soma/ops/rows/embedding.hpp>
#include <soma/ops/support.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

namespace SOMA_NAMESPACE {

namespace detail {

inline void ctc_shape(const ShapeCall& call) {
  const auto& setting = call.attributes.as<CtcSetting>();
  const Tensor &x = call.inputs[0], &labels = call.inputs[1], &begins = call.inputs[2];
  check_rank("ctc_loss", "x", x, 2);
  check_floating("ctc_loss", "x", x);
  check_sequences("ctc_loss", x, call.sequences);
  check_no_padding("ctc_loss", call.sequences);
  check_rank("ctc_loss", "labels", labels, 1);
  check_index_type("ctc_loss", "labels", labels);
  check_index_type("ctc_loss", "begins", begins);
  check_shape("ctc_loss", "begins", begins, Shape{call.sequences.count() + 1});
  if (setting.blank >= x.size(1))
    fail(error_id::operator_value, "ctc_loss", "blank", std::to_string(setting.blank),
         "a class, below " + std::to_string(x.size(1)));
  call.outputs[0] = {Shape{call.sequences.count()}, DType::fp32};
  call.outputs[1] = {setting.record ? x.shape() : Shape{0}, DType::fp32};
}

// Labels and their begins as 64-bit numbers that have been checked.
class CtcLabels {
 public:
  CtcLabels(Context& context, const Tensor& labels, const Tensor& begins, std::size_t classes,
            std::size_t blank)
      : labels_(context.heap()), begins_(context.heap()) {
    for (std::size_t i = 0; i < labels.elements(); ++i) {
      const std::int64_t label = index_at(labels, i);
      if (label < 0 || static_cast<std::size_t>(label) >= classes ||
          static_cast<std::size_t>(label) == blank)
        fail(error_id::tensor_index, "ctc_loss", "labels",
             std::to_string(label) + " at " + std::to_string(i),
             "0 to " + std::to_string(classes) + " - 1, and not the blank, " +
                 std::to_string(blank));
      labels_.push_back(label);
    }
    for (std::size_t i = 0; i < begins.elements(); ++i) {
      const std::int64_t begin = index_at(begins, i);
      const std::size_t least = i == 0 ? 0 : begins_[i - 1];
      const bool last = i + 1 == begins.elements();
      if (begin < 0 || static_cast<std::size_t>(begin) < least ||
          static_cast<std::size_t>(begin) > labels_.size() || (i == 0 && begin != 0) ||
          (last && static_cast<std::size_t>(begin) != labels_.size()))
        fail(error_id::tensor_index, "ctc_loss", "begins",
             std::to_string(begin) + " at " + std::to_string(i),
             "ascending numbers from 0 to the number of labels, " + std::to_string(labels_.size()));
      begins_.push_back(static_cast<std::size_t>(begin));
    }
  }
  const std::int64_t* of(std::size_t sequence) const { return labels_.data() + begins_[sequence]; }
  std::size_t count(std::size_t sequence) const {
    return begins_[sequence + 1] - begins_[sequence];
  }

 private:
  HeapVector<std::int64_t> labels_;
  HeapVector<std::size_t> begins_;
};

inline void ctc_plain(const OperatorCall& call) {
  const auto& setting = call.attributes.as<CtcSetting>();
  const Sequences& batch = call.sequences;
  const std::size_t classes = call.inputs[0].size(1);
  const CtcLabels labels(call.context, call.inputs[1], call.inputs[2], classes, setting.blank);
  const float* x = call.inputs[0].data<float>();
  float* losses = call.outputs[0].mutable_data<float>();
  float* notes = setting.record ? call.outputs[1].mutable_data<float>() : nullptr;
  std::size_t room = 0, work = 0;
  for (std::size_t i = 0; i < batch.count(); ++i) {
    room = (std::max)(room, ctc_workspace(batch.length(i), labels.count(i), setting.record));
    work += batch.length(i) * (100 * (labels.count(i) + 1) + classes);
  }
  const std::size_t each = work / (std::max)(batch.count(), std::size_t{1});
  for_ranges(call.context, batch.count(), each, [&](std::size_t first, std::size_t last) {
    const Storage workspace =
        Storage::allocate(call.context.heap(), checked_multiply(room, sizeof(float), "ctc_loss"));
    for (std::size_t i = first; i < last; ++i) {
      const std::size_t begin = batch.begin(i) * classes;
      double loss = 0;
      call.context.kernels().sequence.ctc(
          {.rows = batch.length(i),
           .classes = classes,
           .count = labels.count(i),
           .blank = setting.blank,
           .x = x + begin,
           .labels = labels.of(i),
           .loss = &loss,
           .gradient = notes != nullptr ? notes + begin : nullptr,
           .workspace = reinterpret_cast<float*>(workspace.data())});
      losses[i] = setting.zero_infinity && std::isinf(loss) ? 0 : static_cast<float>(loss);
    }
  });
}
inline void ctc_host(const OperatorCall& call) { with_plain_tensors(call, 0, ctc_plain); }

// dx of each row is its sequence's gradient times what was noted.
inline void ctc_gradient(const GradientCall& whole) {
  with_plain_tensors(whole, [](const GradientCall& call) {
    const Sequences& batch = call.sequences;
    const Tensor dloss = contiguous(call.context, call.output_gradients[0]);
    const std::size_t classes = call.inputs[0].size(1);
    const Tensor dx = Tensor::empty(call.context, call.inputs[0].shape());
    const float *from = call.outputs[1].data<float>(), *factors = dloss.data<float>();
    float* to = dx.mutable_data<float>();
    const std::size_t rows = batch.count() == 0 ? 0 : batch.rows() / batch.count() + 1;
    for_ranges(call.context, batch.count(), rows * classes,
               [&](std::size_t first, std::size_t last) {
                 for (std::size_t i = first; i < last; ++i)
                   for (std::size_t k = batch.begin(i) * classes; k < batch.end(i) * classes; ++k)
                     to[k] = factors[i] * from[k];
               });
    call.input_gradients[0].values = dx;
  });
}

}  // namespace detail

namespace ops {

inline constexpr Operator ctc_loss{.name = "ctc_loss",
                                   .min_inputs = 3,
                                   .max_inputs = 3,
                                   .outputs = 2,
                                   .keeps_inputs = 1,
                                   .keeps_outputs = 2,
                                   .batch = &detail::batch_of_summaries,
                                   .shape = &detail::ctc_shape,
                                   .host = &detail::ctc_host,
                                   .gradient = &detail::ctc_gradient,
                                   .wide_gradients = true,
                                   .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
