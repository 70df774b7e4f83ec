#pragma once
// Task: the object that a trainer trains: parameters, and a loss of a batch.

#include <soma/autograd/functions.hpp>
#include <soma/autograd/parameter.hpp>
#include <soma/autograd/tape.hpp>
#include <soma/base/owned.hpp>
#include <soma/base/record.hpp>
#include <soma/data/batch.hpp>
#include <soma/data/labels.hpp>
#include <soma/nn/class_weights.hpp>
#include <soma/nn/pieces.hpp>
#include <soma/nn/scope.hpp>
#include <soma/state/state_dict.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::metrics {
class Metrics;  // metrics/metrics.hpp
}

namespace SOMA_NAMESPACE::nn {

class Task {
 public:
  struct Forward {
    Var loss;       // one element: the mean over loss_count(); for a part of a batch the sum
    Tensor scores;  // [sequences, outputs] fp32, for metrics(); not defined: none
  };

  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  SOMA_INLINE virtual ~Task() = default;

  virtual const Parameters& parameters() const = 0;
  virtual Forward forward(Tape& tape, const data::Batch& batch) = 0;
  // The pieces of the model, in order: forward() is finish() of the last piece's result. Empty: the
  // task cannot be cut.
  SOMA_INLINE virtual Pieces pieces() const;
  // The loss for this batch of the last piece's result; errors as of forward().
  SOMA_INLINE virtual Forward finish(Tape& /*tape*/, const Var& /*result*/,
                                     const data::Batch& /*batch*/);
  // The number of logits of a sequence, for a classifier with one label; otherwise 0.
  virtual std::size_t classes() const { return 0; }
  // New metrics that an evaluation counts beside the loss. If empty: accuracy, F1 and so on if
  // classes() is not 0, else the loss alone.
  SOMA_INLINE virtual Owned<metrics::Metrics> metrics() const;
  // The labels of a batch in the form that metrics() counts.
  virtual Tensor labels_of(const data::Batch& batch) const { return batch.labels; }
  // The learning rate if the trainer's schedule has none: Adam's usual rate. A task whose model
  // needs another rate, such as a pretrained model, overrides it.
  virtual double learning_rate() const { return 1e-3; }
  // True if several ranks may share a batch: then forward() of a part (data::Batch::part) returns
  // the sum of the losses, and accepts a part without sequences.
  virtual bool takes_parts() const { return false; }
  // The number of losses in the mean of this whole batch, which is the batch's weight beside other
  // batches.
  SOMA_INLINE virtual double loss_count(const data::Batch& batch) const;
  // Floating-point operations of forward and backward without padding and recomputation; 0: not
  // known.
  virtual double useful_flops(const data::Batch&) const { return 0; }
  // True if layers run again in backward (autograd/recompute.hpp), which changes no bit; and the
  // choice of it. set_recompute() returns false if the task has no such choice.
  virtual bool recomputes() const { return false; }
  virtual bool set_recompute(bool) { return false; }
  // Records the settings that change the results beside parameters and data: checkpoints and other
  // ranks must agree on them.
  virtual void describe(Record&) const {}
  // The state that steps leave in the task beside its parameters and that later steps depend on.
  // Checkpoints keep it; a resumed run returns it once the parameters are those of that step.
  SOMA_INLINE virtual StateDict state() const;
  // Error state.extra_name: the task keeps no such state.
  SOMA_INLINE virtual void load_state(const StateDict& state);
};

// Checks that each class label is a class or ignored. Error train.label names the sequence by its
// index in the data if the source numbers sequences, else by its index in the batch.
void check_labels(std::string_view task, const data::Batch& batch, std::size_t classes);

// The pieces of a model; empty if the model has no pieces().
template <class Model>
Pieces pieces_of(const Model& model) {
  if constexpr (requires { model.pieces(); })
    return model.pieces();
  else
    return {};
}

// Trains a model by cross entropy, optionally with class weights. The model is called as
// call_model() says and returns logits. It may have describe(Record&), as a task has, and pieces().
template <class Model>
class ClassificationTask final : public Task {
 public:
  // Error operator.value: class_weights that check_class_weights() refuses.
  ClassificationTask(const Model& model, std::size_t class_count,
                     std::vector<float> class_weights = {})
      : model_(model),
        parameters_(nn::parameters(model)),
        classes_(class_count),
        weights_(std::move(class_weights)) {
    check_class_weights("ClassificationTask", weights_, classes_);
  }
  // The model must outlive its task.
  ClassificationTask(const Model&&, std::size_t, std::vector<float> = {}) = delete;

  const Parameters& parameters() const override { return parameters_; }
  std::size_t classes() const override { return classes_; }
  Forward forward(Tape& tape, const data::Batch& batch) override {
    check_labels("ClassificationTask", batch, classes_);
    return loss(tape, call_model(model_, tape, batch), batch);
  }
  Pieces pieces() const override { return pieces_of(model_); }
  Forward finish(Tape& tape, const Var& logits, const data::Batch& batch) override {
    check_labels("ClassificationTask", batch, classes_);
    return loss(tape, logits, batch);
  }
  bool takes_parts() const override { return true; }
  double loss_count(const data::Batch& batch) const override {
    return counted_labels(batch, weights_);
  }
  void describe(Record& identity) const override {
    describe_class_weights(identity, weights_);
    if constexpr (requires { model_.describe(identity); }) model_.describe(identity);
  }

 private:
  Forward loss(Tape& tape, const Var& logits, const data::Batch& batch) const {
    return {class_loss(tape, logits, batch, weights_), logits.value()};
  }

  const Model& model_;
  Parameters parameters_;
  std::size_t classes_;
  std::vector<float> weights_;
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/task.ipp>
#endif
