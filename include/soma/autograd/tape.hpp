#pragma once
// Tape: reverse-mode differentiation, in the open.
//
// A tape records each operator that is applied through it: a node with the operator, its settings,
// the tensors that its gradient reads, and the destinations of its inputs' gradients. backward()
// walks the nodes from the last to the first, asks each operator for its inputs' gradients and adds
// them. There is no global state: several tapes may live at once, each used by one thread.
//
// Memory: a node keeps only the tensors that its operator asks for, and backward frees them as soon
// as the node is done. A tape is reused for the next step. Forward, backward, clipping and
// optimizer steps never use operator new: their memory comes from the context's heap, which asks
// the host only when a step needs more than any before. (A second equal step needs more than the
// first, which begins without optimizer states.)

#include <soma/autograd/replay.hpp>
#include <soma/autograd/tape_guards.hpp>
#include <soma/autograd/tape_options.hpp>
#include <soma/autograd/var.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/run.hpp>
#include <soma/runtime/float_environment.hpp>
#include <soma/runtime/heap_vector.hpp>
#include <soma/runtime/shared.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace soma {

using VarOutputs = std::array<Var, max_outputs>;

class Tape {
 public:
  explicit Tape(Context& context, const TapeOptions& options = {})
      : context_(context),
        options_(options),
        nodes_(context.heap()),
        slots_(context.heap()),
        recording_(context.next_id()) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Context& context() const { return context_; }
  const BuiltInOperators& operators() const { return context_.built_in(); }
  const TapeOptions& options() const { return options_; }
  bool recording() const { return options_.record && paused_ == 0; }
  std::size_t size() const { return nodes_.size(); }  // nodes recorded so far

  // Clears the recording and starts a new one. Earlier results keep their values only.
  void reset() {
    while (!nodes_.empty()) nodes_.pop_back();  // the latest first
    slots_.clear();
    recording_ = context_.next_id();
  }
  // The same for a new step, with other random numbers. From then on the caller counts steps;
  // without this call backward does.
  void reset(std::uint32_t step) {
    reset();
    options_.step = step;
    counts_steps_ = false;
  }

  // A leaf that is no parameter: inputs, labels, masks.
  Var constant(Tensor value, Sequences sequences = {}) {
    return Var::constant(context_, std::move(value), std::move(sequences));
  }
  Var constant(const Ragged& ragged) { return Var::constant(context_, ragged); }
  // A leaf with a gradient that no receiver gets: for values that another process has computed.
  Var input(Tensor value, Sequences sequences = {}) {
    Var leaf(context_, std::move(value), true, std::move(sequences));
    leaf.state_->stands_in = true;
    return leaf;
  }
  // The value without its history.
  Var detach(const Var& var) { return constant(var.value(), var.sequences()); }
  // The same variable, with rows that form other sequences: for operators that change their number.
  Var with_sequences(Var var, Sequences sequences) {
    var.state().sequences = std::move(sequences);
    return var;
  }

  // Stops recording as long as the returned object lives.
  detail::Paused no_gradient() { return detail::Paused(paused_); }
  // Errors of operators name `layer` as long as the returned object lives. Modules call it.
  detail::WithinLayer within(std::string_view layer) { return {layer_, layer}; }

  // Applies an operator, and records it if an input has a gradient. The result takes the sequences
  // of the first input that has some. Errors autograd.foreign_tape (an input is the result of
  // another tape), autograd.freed (an input from before backward or reset),
  // autograd.not_differentiable (before the operator runs), and the operator's.
  VarOutputs apply_all(const Operator& op, const Attributes& attributes,
                       std::span<const Var> inputs) {
    const detail::ExclusiveUse use(in_use_);
    Tensors values(context_.heap());
    values.reserve(inputs.size());
    bool differentiable = false;
    Sequences sequences;
    for (const Var& input : inputs) {
      values.push_back(input.defined() ? input.value() : Tensor());
      if (!input.defined()) continue;
      check_origin(op.name, input);
      if (input.value().defined() && &input.value().heap() != &context_.heap())
        refuse_foreign(op.name, values.size() - 1);
      differentiable |= input.requires_gradient();
      if (!sequences.defined()) sequences = input.sequences();
    }
    ++applied_;
    if (differentiable) ++differentiable_;
    const bool record = differentiable && recording();
    if (record && op.gradient == nullptr)
      fail(error_id::not_differentiable, op.name, "operator", "without a gradient",
           "an operator with a gradient, or constant inputs (Tape::detach)");
    const bool known = replay_ != nullptr && replay_->number == applied_ && replay_->unchanged();
    const Outputs outputs = known ? replay_->outputs : detail::in_layer(layer_, [&] {
      return run(context_, op, attributes, values, sequences);
    });
    if (options_.hook != nullptr) options_.hook->between();
    if (latest_ != nullptr) *latest_ = op.composite ? Replay() : Replay(applied_, outputs);
    if (options_.stop_at_non_finite)
      check_finite(op.name, "", std::span(outputs).first(op.outputs));
    VarOutputs results;
    for (std::size_t i = 0; i < op.outputs; ++i) {
      const bool rows_stay =
          sequences.defined() && outputs[i].rank() > 0 && outputs[i].size(0) == sequences.rows();
      results[i] = make_result(outputs[i], rows_stay ? sequences : Sequences(), record, i);
    }
    if (record) append(op, attributes, sequences, inputs, outputs, nullptr);
    return results;
  }
  // Returns the first output.
  Var apply(const Operator& op, const Attributes& attributes, std::initializer_list<Var> inputs) {
    return apply_all(op, attributes, std::span<const Var>(inputs.begin(), inputs.size()))[0];
  }

  // Adds d(loss)/d(parameter), times `scale` (loss scaling), to the gradient of every parameter
  // that the loss depends on, and clears the recording. Errors autograd.not_scalar,
  // autograd.no_gradient (nothing to differentiate), autograd.foreign_tape, autograd.freed (a
  // second backward), autograd.changed_in_place; tensor.shape, tensor.dtype (wrong gradients of an
  // operator). Wrong arguments change nothing; after any other error the recording is gone and
  // gradients may be incomplete.
  void backward(const Var& loss, float scale = 1) {
    if (loss.defined() && loss.value().elements() != 1)
      fail(error_id::not_scalar, "Tape::backward", "loss", loss.value().describe(),
           "one element, or the gradient of the result beside it");
    backward(loss, loss.defined() ? Tensor::full(context_, loss.shape(), scale) : Tensor());
  }
  // The same for any result and its gradient, which has the result's shape.
  void backward(const Var& result, const Tensor& gradient) {
    if (!result.requires_gradient() || result.is_leaf()) {
      if (result.defined()) check_origin("Tape::backward", result);
      fail(error_id::no_gradient, "Tape::backward", "result",
           "not computed from a parameter on this tape", "a result computed while recording");
    }
    check_origin("Tape::backward", result);
    if (!gradient.defined())
      fail(error_id::tensor_undefined, "Tape::backward", "gradient", "no tensor",
           result.value().describe());
    if (!is_floating(gradient.dtype()))
      fail(error_id::tensor_dtype, "Tape::backward", "gradient", gradient.describe(),
           "a floating type");
    if (gradient.shape() != result.shape())
      fail(error_id::tensor_shape, "Tape::backward", "gradient", gradient.describe(),
           result.value().describe());
    const detail::ExclusiveUse use(in_use_);
    const FloatEnvironment environment;
    const Finish finish{*this};
    slots_[result.state_->slot].values = gradient;
    while (!nodes_.empty()) {
      differentiate(nodes_.back());
      slots_.resize(nodes_.back().first_slot);
      nodes_.pop_back();
    }
  }

 private:
  template <class Function>
  friend Var recompute(Tape& tape, std::span<const Var> inputs, Function function);

  using Tensors = HeapVector<Tensor>;

  // The destination of an input's gradient: a parameter, or the slot of a result.
  struct Target {
    Shared<Var::State> leaf;
    std::size_t slot = 0;
    bool wanted = false;
  };

  using Replay = detail::Replay;
  // A function that backward runs again; see recompute().
  struct Recompute : Counted {
    explicit Recompute(Heap& heap) : Counted(heap), sequences(heap) {}
    virtual ~Recompute() = default;
    virtual Var run(Tape& tape, std::span<const Var> inputs) = 0;
    HeapVector<Sequences> sequences;  // the sequences of the inputs
    Replay replay;
  };

  struct Node {
    const Operator* op;
    Attributes attributes;
    Sequences sequences;
    std::size_t first_slot;  // for the gradients of the outputs
    std::size_t inputs;
    Tensors tensors;  // inputs, then outputs: whole where the operator keeps them, else outlines
    HeapVector<std::uint64_t> versions;
    HeapVector<Target> targets;
    Shared<Recompute> recompute;
  };

  struct Finish {  // a recording is differentiated once, even if backward fails
    Tape& tape;
    ~Finish() {
      tape.reset();
      if (tape.counts_steps_) ++tape.options_.step;
    }
  };

  [[noreturn]] static void refuse_foreign(std::string_view operation, std::size_t input) {
    fail(error_id::tensor_foreign, operation, detail::input_name(input),
         "a tensor of another context", "one of the tape's context");
  }

  void check_origin(std::string_view operation, const Var& var) const {
    if (var.is_leaf()) return;
    const bool own = var.state_->tape == this && var.state_->home == &context_;
    if (own && var.state_->recording == recording_) return;
    if (!own)
      fail(error_id::foreign_tape, operation, "variable", "the result of another tape",
           "one of this tape, or a constant (Tape::detach)");
    fail(error_id::freed, operation, "variable", "of a recording that backward or reset has ended",
         "one computed since, or a constant (Tape::detach)");
  }

  void check_finite(std::string_view name, std::string_view way, std::span<const Tensor> tensors) {
    for (const Tensor& tensor : tensors)
      if (tensor.defined() && !operators().all_finite(context_, tensor))
        fail(error_id::not_finite, std::string(name).append(way), "result",
             tensor.describe() + " with NaN or infinity", "finite numbers");
  }

  // Output `index` of the node that is about to be appended. An unrecorded output is a constant.
  Var make_result(Tensor value, Sequences sequences, bool record, std::size_t index) {
    Var result(context_, std::move(value), record, std::move(sequences));
    if (!record) return result;
    result.state_->tape = this;
    result.state_->recording = recording_;
    result.state_->slot = slots_.size() + index;
    return result;
  }

  void append(const Operator& op, const Attributes& attributes, const Sequences& sequences,
              std::span<const Var> inputs, const Outputs& outputs, Shared<Recompute> recompute) {
    Heap& heap = context_.heap();
    Node node{&op,
              attributes,
              sequences,
              slots_.size(),
              inputs.size(),
              Tensors(heap),
              HeapVector<std::uint64_t>(heap),
              HeapVector<Target>(heap),
              std::move(recompute)};
    node.tensors.reserve(inputs.size() + op.outputs);
    node.versions.reserve(inputs.size() + op.outputs);
    node.targets.reserve(inputs.size());
    const auto keep = [&node](const Tensor& tensor, bool whole) {
      const bool kept = whole && tensor.defined();
      node.tensors.push_back(kept ? tensor : tensor.outline());
      node.versions.push_back(kept ? tensor.version() : 0);
    };
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Tensor none;
      keep(inputs[i].defined() ? inputs[i].value() : none, (op.keeps_inputs >> i & 1) != 0);
      Target target;
      target.wanted = inputs[i].requires_gradient();
      if (target.wanted && inputs[i].is_leaf())
        target.leaf = inputs[i].state_;
      else if (target.wanted)
        target.slot = inputs[i].state_->slot;
      node.targets.push_back(std::move(target));
    }
    for (std::size_t i = 0; i < op.outputs; ++i) keep(outputs[i], (op.keeps_outputs >> i & 1) != 0);
    slots_.resize(slots_.size() + op.outputs);
    nodes_.push_back(std::move(node));
  }

  // Takes the gradients of a node's outputs and adds its inputs' gradients to their destinations.
  void differentiate(Node& node) {
    const std::size_t outputs = node.op->outputs;
    std::array<Tensor, max_outputs> output_gradients;
    bool any = false;
    for (std::size_t i = 0; i < outputs; ++i) {
      Gradient& slot = slots_[node.first_slot + i];
      if (!slot.defined()) continue;
      output_gradients[i] =
          operators().to_dense(context_, slot, node.tensors[node.inputs + i].shape());
      slot = {};
      any = true;
    }
    if (!any) return;
    for (std::size_t i = 0; i < node.tensors.size(); ++i)
      if (node.tensors[i].defined() && node.tensors[i].version() != node.versions[i])
        fail(error_id::changed_in_place, node.op->name,
             i < node.inputs ? detail::input_name(i) : "output", "changed since",
             "the value that backward needs (write to a copy)");

    if (node.recompute != nullptr) return differentiate_again(node, output_gradients[0]);

    HeapVector<Gradient> gradients(node.inputs, context_.heap());
    std::array<bool, most_inputs> wanted{};
    for (std::size_t i = 0; i < node.inputs; ++i) wanted[i] = node.targets[i].wanted;
    const std::span<const Tensor> tensors(node.tensors);
    const GradientCall call{context_,
                            node.attributes,
                            tensors.first(node.inputs),
                            tensors.subspan(node.inputs),
                            std::span<const Tensor>(output_gradients).first(outputs),
                            node.sequences,
                            std::span<const bool>(wanted).first(node.inputs),
                            gradients,
                            node.op->state};
    node.op->gradient(call);
    if (options_.hook != nullptr) options_.hook->between();
    detail::check_gradients(node.op->name, call);
    for (std::size_t i = 0; i < node.inputs; ++i) {
      const Target& target = node.targets[i];
      if (!target.wanted || !gradients[i].defined()) continue;
      if (options_.stop_at_non_finite)
        check_finite(node.op->name, " (backward)", {&gradients[i].values, 1});
      const bool parameter = target.leaf != nullptr && !target.leaf->stands_in;
      if (parameter && options_.receiver != nullptr) {
        options_.receiver->receive(Var(target.leaf), std::move(gradients[i]));
        continue;
      }
      if (gradients[i].stored)
        fail(error_id::parallel_gradient, node.op->name, detail::input_name(i),
             parameter ? "a parameter, without TapeOptions::receiver" : "the result of an operator",
             "a parameter whose gradient ranks add up");
      operators().accumulate(context_,
                             target.leaf != nullptr ? target.leaf->gradient : slots_[target.slot],
                             std::move(gradients[i]));
    }
  }

  // Runs the function again on a tape of its own, from its inputs, and differentiates that.
  // Gradients are added one by one to those already there: the same sums in the same order as
  // without recompute().
  void differentiate_again(Node& node, const Tensor& gradient) {
    Tape inner(context_, options_);
    HeapVector<Var> leaves(context_.heap());
    leaves.reserve(node.inputs);
    for (std::size_t i = 0; i < node.inputs; ++i) leaves.push_back(input_again(node, i, leaves));
    inner.replay_ = &node.recompute->replay;
    const Var result = node.recompute->run(inner, leaves);
    if (result.requires_gradient()) inner.backward(result, gradient);
    for (std::size_t i = 0; i < node.inputs; ++i)
      if (const Target& target = node.targets[i];
          target.wanted && target.leaf == nullptr && leaves[i].gradient().defined())
        slots_[target.slot] = std::move(leaves[i].state_->gradient);
  }

  // Input i of a recomputed function: the parameter itself, or a leaf that stands for a result and
  // starts with its gradient.
  Var input_again(const Node& node, std::size_t i, std::span<const Var> before) {
    const Target& target = node.targets[i];
    if (target.leaf != nullptr) return Var(target.leaf);
    if (!node.tensors[i].defined()) return {};
    for (std::size_t j = 0; target.wanted && j < i; ++j)
      if (const Target& other = node.targets[j];
          other.wanted && other.leaf == nullptr && other.slot == target.slot)
        return before[j];
    Var leaf(context_, node.tensors[i], target.wanted, node.recompute->sequences[i]);
    leaf.state_->stands_in = true;
    if (target.wanted) leaf.state_->gradient = std::move(slots_[target.slot]);
    return leaf;
  }

  Context& context_;
  TapeOptions options_;
  HeapVector<Node> nodes_;
  HeapVector<Gradient> slots_;  // gradients of results, while backward runs
  std::uint64_t recording_;
  int paused_ = 0;
  std::string_view layer_{};  // the layer that errors name
  bool counts_steps_ = true;  // backward begins a new step
  std::atomic<bool> in_use_{false};
  std::uint64_t applied_ = 0;         // applied operators so far
  std::uint64_t differentiable_ = 0;  // those with a gradient in an input
  Replay* latest_ = nullptr;          // the place where recompute() notes operators' outputs
  const Replay* replay_ = nullptr;    // while recompute() runs its function again
};

}  // namespace soma
