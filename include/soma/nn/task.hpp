#pragma once
// Task: what a trainer trains: parameters, and a loss of a batch.

#include <soma/autograd/functions.hpp>
#include <soma/autograd/parameter.hpp>
#include <soma/autograd/tape.hpp>
#include <soma/data/batch.hpp>
#include <soma/nn/scope.hpp>
#include <soma/state/record.hpp>

#include <cstddef>

namespace soma::nn {

class Task {
 public:
  struct Forward {
    Var loss;       // one element: the mean over the batch's sequences
    Tensor scores;  // [sequences, classes] logits, fp32; not defined where there are no classes
  };

  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  virtual ~Task() = default;

  virtual const Parameters& parameters() const = 0;
  virtual Forward forward(Tape& tape, const data::Batch& batch) = 0;
  virtual std::size_t classes() const { return 0; }
  // Floating-point operations of forward and backward that no padding or recomputation is part of;
  // 0: not known.
  virtual double useful_flops(const data::Batch&) const { return 0; }
  // What a checkpoint has to agree with beside names and shapes of the parameters.
  virtual void describe(Record&) const {}
};

// A model that is called with (tape, inputs) and gives logits, trained by cross entropy.
template <class Model>
class ClassificationTask final : public Task {
 public:
  ClassificationTask(const Model& model, std::size_t class_count)
      : model_(model), parameters_(nn::parameters(model)), classes_(class_count) {}

  const Parameters& parameters() const override { return parameters_; }
  std::size_t classes() const override { return classes_; }
  Forward forward(Tape& tape, const data::Batch& batch) override {
    const Var logits = model_(tape, tape.constant(batch.inputs));
    return {cross_entropy(tape, logits, tape.constant(batch.labels)), logits.value()};
  }

 private:
  const Model& model_;
  Parameters parameters_;
  std::size_t classes_;
};

}  // namespace soma::nn
