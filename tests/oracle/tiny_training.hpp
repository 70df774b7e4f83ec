// The oracle's training run with soma: the model with its weights by formula, and its steps.
#pragma once

#include "oracle/tiny_bert.hpp"
#include "support/samples.hpp"

#include <soma/interface.hpp>
#include <soma/nn/precision_state.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace soma_test {

class TinyTraining {
 public:
  // Products read what `precision` says; nullptr: what is stored.
  explicit TinyTraining(soma::Context& context, soma::PrecisionState* precision = nullptr)
      : context_(context),
        model_({context}, config(), 3),
        parameters_(sorted(soma::nn::parameters(model_))),
        optimizer_(context, parameters_, 0.01f),
        precision_(precision),
        tape_(context,
              {.activations = precision == nullptr ? soma::DType::fp32 : precision->activations(),
               .precision = precision}) {
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      const soma::Tensor value = parameters_[p].value();
      const std::span<float> elements = value.mutable_span<float>();
      for (std::size_t i = 0; i < elements.size(); ++i)
        elements[i] = tiny_weight(p, i, tiny_kind(parameters_[p].name));
    }
  }

  // Forward and backward of the next step, then the update. look(logits, loss, norm) is called
  // before the update, while gradients are there.
  template <class Look>
  void step(const Look& look) {
    std::vector<std::size_t> lengths;
    std::vector<std::int32_t> ids, labels;
    for (std::size_t k = 0; k < tiny_sequences; ++k) {
      lengths.push_back(tiny_length(step_, k));
      labels.push_back(tiny_label(step_, k));
    }
    for (std::size_t t = 0; t < tiny_tokens; ++t) ids.push_back(tiny_id(step_, t));
    const soma::Var tokens =
        tape_.constant(soma::Tensor::from<std::int32_t>(context_, ids, soma::Shape{ids.size()}),
                       soma::Sequences::from_lengths(context_, lengths));
    const soma::Var logits = model_(tape_, tokens);
    const soma::Var loss = soma::cross_entropy(tape_, logits,
                                               tape_.constant(soma::Tensor::from<std::int32_t>(
                                                   context_, labels, soma::Shape{labels.size()})));
    tape_.backward(loss);
    const double norm = soma::optim::gradient_norm(context_, parameters_);
    look(logits.value(), loss.value().item<float>(), norm);
    optimizer_.step({.rate = 1e-3, .gradient_factor = soma::optim::clipping_factor(norm, 1.0)});
    if (precision_ != nullptr) precision_->end_step();
    soma::clear_gradients(parameters_);
    ++step_;
  }
  void steps(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) step([](const soma::Tensor&, float, double) {});
  }

  // In ascending order of name.
  const soma::Parameters& parameters() const { return parameters_; }

  // A hash of the bytes of all weights.
  std::uint64_t weights_hash() const {
    std::uint64_t hash = fnv1a64_start;
    for (const soma::Parameter& parameter : parameters_)
      hash = soma_test::hash(std::as_bytes(parameter.value().span<float>()), hash);
    return hash;
  }

 private:
  static soma::models::BertConfig config() {
    return {.vocabulary = 48,
            .width = 64,
            .layers = 2,
            .heads = 4,
            .inner = 48,
            .positions = 24,
            .dropout = 0,
            .attention_dropout = 0};
  }
  static soma::Parameters sorted(soma::Parameters parameters) {
    std::sort(parameters.begin(), parameters.end(),
              [](const soma::Parameter& a, const soma::Parameter& b) { return a.name < b.name; });
    return parameters;
  }

  soma::Context& context_;
  soma::models::BertClassifier model_;
  soma::Parameters parameters_;
  soma::optim::AdamW optimizer_;
  soma::PrecisionState* precision_;
  soma::Tape tape_;
  std::size_t step_ = 0;
};

}  // namespace soma_test
