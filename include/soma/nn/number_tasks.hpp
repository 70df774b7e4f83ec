#pragma once
// Tasks whose labels are numbers: regression, and classification with several labels for each
// sequence.

#include <soma/autograd/tape.hpp>
#include <soma/metrics/multi_label.hpp>
#include <soma/metrics/regression.hpp>
#include <soma/nn/class_weights.hpp>
#include <soma/nn/task.hpp>

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::nn {

namespace detail {

// The labels of a batch in the shape of the model's outputs: labels [n] match outputs [n, 1]. Error
// train.label: another number of labels.
Tensor labels_like(std::string_view task, Context& context, const Var& outputs,
                   const Tensor& labels, std::size_t width, std::size_t sequences);

// Binary cross entropy of logits [sequences, labels], with a weight of each label's positives; no
// weights: all are 1.
Var label_loss(Tape& tape, const Var& logits, const Tensor& labels, std::span<const float> weights,
               LossReduction reduction);

inline LossReduction reduction_of(const data::Batch& batch) {
  return batch.part ? LossReduction::sum : LossReduction::mean;
}

}  // namespace detail

// Trains a model by the mean squared error. The model is called as call_model() says and returns
// numbers [sequences, outputs]. Labels of a batch: fp32 [sequences] or [sequences, outputs]. The
// model may have describe(Record&), as a task has, and pieces(). Metrics: mse, mae, r2.
template <class Model>
class RegressionTask final : public Task {
 public:
  explicit RegressionTask(const Model& model, std::size_t output_count = 1)
      : model_(model), parameters_(nn::parameters(model)), outputs_(output_count) {}
  explicit RegressionTask(const Model&&, std::size_t = 1) = delete;  // the model outlives its task

  const Parameters& parameters() const override { return parameters_; }
  Forward forward(Tape& tape, const data::Batch& batch) override {
    return finish(tape, call_model(model_, tape, batch), batch);
  }
  Pieces pieces() const override { return pieces_of(model_); }
  Forward finish(Tape& tape, const Var& y, const data::Batch& batch) override {
    const Tensor targets = detail::labels_like("RegressionTask", tape.context(), y, batch.labels,
                                               outputs_, batch.inputs.sequences.count());
    return {mse_loss(tape, y, tape.constant(targets), detail::reduction_of(batch)), y.value()};
  }
  Owned<metrics::Metrics> metrics() const override {
    return Owned<metrics::Metrics>::make<metrics::Regression>(outputs_);
  }
  bool takes_parts() const override { return true; }
  double loss_count(const data::Batch& batch) const override {
    return static_cast<double>(batch.labels.elements());
  }
  void describe(Record& identity) const override {
    if constexpr (requires { model_.describe(identity); }) model_.describe(identity);
  }

 private:
  const Model& model_;
  Parameters parameters_;
  std::size_t outputs_;
};

// Trains a model by binary cross entropy for each label, optionally with a weight of each label's
// positives. The model is called as call_model() says and returns logits [sequences, labels].
// Labels of a batch: fp32 [sequences, labels], 0 or 1. The model may have describe(Record&), as a
// task has, and pieces(). Metrics: micro_f1, macro_f1, f1_0 and so on.
template <class Model>
class MultiLabelTask final : public Task {
 public:
  // Error operator.value: the number of positive_weights is not the number of labels, one is not
  // finite or below 0, or all are 0.
  MultiLabelTask(const Model& model, std::size_t label_count,
                 std::vector<float> positive_weights = {})
      : model_(model),
        parameters_(nn::parameters(model)),
        labels_(label_count),
        weights_(std::move(positive_weights)) {
    check_class_weights("MultiLabelTask", weights_, labels_);
  }
  MultiLabelTask(const Model&&, std::size_t,
                 std::vector<float> = {}) = delete;  // the model outlives its task

  const Parameters& parameters() const override { return parameters_; }
  Forward forward(Tape& tape, const data::Batch& batch) override {
    return finish(tape, call_model(model_, tape, batch), batch);
  }
  Pieces pieces() const override { return pieces_of(model_); }
  Forward finish(Tape& tape, const Var& logits, const data::Batch& batch) override {
    const Tensor labels =
        detail::labels_like("MultiLabelTask", tape.context(), logits, labels_of(batch), labels_,
                            batch.inputs.sequences.count());
    return {detail::label_loss(tape, logits, labels, weights_, detail::reduction_of(batch)),
            logits.value()};
  }
  Owned<metrics::Metrics> metrics() const override {
    return Owned<metrics::Metrics>::make<metrics::MultiLabel>(labels_);
  }
  bool takes_parts() const override { return true; }
  double loss_count(const data::Batch& batch) const override {
    return static_cast<double>(batch.labels.elements());
  }
  void describe(Record& identity) const override {
    describe_class_weights(identity, weights_);
    if constexpr (requires { model_.describe(identity); }) model_.describe(identity);
  }

 private:
  const Model& model_;
  Parameters parameters_;
  std::size_t labels_;
  std::vector<float> weights_;
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/number_tasks.ipp>
#endif
