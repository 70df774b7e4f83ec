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
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE {

using VarOutputs = std::array<Var, max_outputs>;

class Tape {
 public:
  // Error autograd.options: packed weights on a tape that records.
  explicit Tape(Context& context, const TapeOptions& options = {});
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Context& context() const { return context_; }
  const BuiltInOperators& operators() const;
  const TapeOptions& options() const { return options_; }
  bool recording() const { return options_.record && paused_ == 0; }
  std::size_t size() const;  // nodes recorded so far

  // Clears the recording and starts a new one. Earlier results keep their values only.
  void reset();
  // The same for a new step, with other random numbers. From then on the caller counts steps;
  // without this call backward does.
  void reset(std::uint32_t step);

  // A leaf that is no parameter: inputs, labels, masks.
  Var constant(Tensor value, Sequences sequences = {});
  Var constant(const Ragged& ragged);
  // A leaf with a gradient that no receiver gets: for values that another process has computed.
  Var input(Tensor value, Sequences sequences = {});
  // The value without its history.
  Var detach(const Var& var);
  // The same variable, with the rows of a batch at the place that the sequences name: for operators
  // that change their number, or whose record does not say where they are. Error
  // operator.sequences: the variable does not have these rows there.
  Var with_sequences(Var var, Sequences sequences);

  // Stops recording as long as the returned object lives.
  detail::Paused no_gradient();
  // Errors of operators name `layer` as long as the returned object lives. Modules call it.
  detail::WithinLayer within(std::string_view layer);

  // Applies an operator, and records it if an input has a gradient. Its record says which results
  // have the batch of the inputs, and where (Operator::batch). Errors autograd.foreign_tape (an
  // input is the result of another tape), autograd.freed (an input from before backward or reset),
  // autograd.not_differentiable (before the operator runs), autograd.not_finite
  // (TapeOptions::stop_at_non_finite), tensor.foreign_context (an input of another context),
  // operator.inputs (a variable without a value), and the operator's.
  VarOutputs apply_all(const Operator& op, const Attributes& attributes,
                       std::span<const Var> inputs);
  // Returns the first output.
  Var apply(const Operator& op, const Attributes& attributes, std::initializer_list<Var> inputs);

  // Adds d(loss)/d(parameter), times `scale` (loss scaling), to the gradient of every parameter
  // that the loss depends on, and clears the recording. Errors autograd.not_scalar,
  // autograd.no_gradient (nothing to differentiate), autograd.foreign_tape, autograd.freed (a
  // second backward), autograd.changed_in_place, autograd.two_threads, autograd.not_finite;
  // tensor.shape, tensor.dtype (wrong gradients of an operator); parallel.gradient (a gradient for
  // several ranks, without a receiver). Wrong arguments change nothing; after any other error the
  // recording is gone and gradients may be incomplete.
  void backward(const Var& loss, float scale = 1);
  // The same for any result and its gradient, which has the result's shape and a floating type.
  // Further errors tensor.undefined, tensor.dtype, tensor.shape.
  void backward(const Var& result, const Tensor& gradient);

 private:
  template <class Function>
  friend Var recompute(Tape& tape, std::span<const Var> inputs, Function function);

  using Tensors = HeapVector<Tensor>;

  // The destination of an input's gradient: a parameter, or the slot of a result.
  struct Target {
    Shared<Var::State> leaf;
    std::size_t slot = 0;
    bool wanted = false;
    bool sum = false;  // over the batch: see GradientCall::sum_type
  };

  // A parameter whose complete gradient is stored in a narrower type.
  struct Narrow {
    Shared<Var::State> leaf{};
    DType type = DType::fp32;
    std::size_t first = 0;  // the first node that uses it: the last that gives it a gradient
    std::size_t uses = 1;
  };

  using Replay = detail::Replay;
  // A function that backward runs again; see recompute().
  // (A pointer and no virtual function: g++ guesses the target of a virtual call, and compiled
  // attention for programs without it.)
  struct Recompute : Counted {
    using Run = Var (*)(Recompute& self, Tape& tape, std::span<const Var> inputs);
    Recompute(Heap& heap, Run function)
        : Counted(heap), run(function), sequences(heap), of_batch(heap) {}
    virtual ~Recompute() = default;
    Run run;
    HeapVector<Sequences> sequences;  // the sequences of the inputs
    HeapVector<bool> of_batch;        // Var::State::of_batch of the inputs
    Replay replay;
  };

  struct Node {
    const Operator* op;
    Attributes attributes;
    Sequences sequences, output_sequences;
    HeapVector<Sequences> batches;  // of each input, if the operator wants them
    bool sums;                      // its results are of parameters alone
    std::size_t first_slot;         // for the gradients of the outputs
    std::size_t inputs;
    Tensors tensors;  // inputs, then outputs: whole where the operator keeps them, else outlines
    HeapVector<std::uint64_t> versions;
    HeapVector<Target> targets;
    Shared<Recompute> recompute;
    // Everything is widened to fp32.
    bool is_wide() const { return sums && op->wide_gradients; }
  };

  // The gradients of a node's outputs, in the types of the outputs, or in fp32.
  struct Given {
    std::array<Tensor, max_outputs> gradients{};
    bool any = false, rounded = false;
  };

  struct Finish {  // a recording is differentiated once, even if backward fails
    Tape& tape;
    ~Finish();
  };

  [[noreturn]] static void refuse_foreign(std::string_view operation, std::size_t input);
  [[noreturn]] static void refuse_dropped(std::string_view operation, std::size_t input,
                                          const Var& var);

  void check_origin(std::string_view operation, const Var& var) const;

  void check_finite(std::string_view name, std::string_view way, std::span<const Tensor> tensors);

  // Output `index` of the node that is about to be appended. An unrecorded output is a constant.
  Var make_result(Tensor value, Sequences sequences, bool of_batch, bool record, std::size_t index);

  void append(const Operator& op, const Attributes& attributes, const Sequences& sequences,
              std::span<const Var> inputs, const Outputs& outputs, Shared<Recompute> recompute,
              bool of_batch, const Sequences& output_sequences = {},
              std::span<const Sequences> batches = {});

  static bool any_batch(std::span<const Var> inputs);
  // The number of the input that has the batch of a call: of those that are read as rows, if the
  // operator reads rows. inputs.size(): none has one, or it lies outside of the rows.
  static std::size_t batch_input(const Operator& op, std::span<const Var> inputs);
  // The batch with a row for each row that the operator reads.
  Sequences batch_of_rows(const Operator& op, const Var& input);
  // Applies an operator that reads rows to inputs whose batch is not in front.
  VarOutputs apply_in_batch_order(const Operator& op, const Attributes& attributes,
                                  std::span<const Var> inputs, const Var& rows);

  static bool is_of_batch(const Var& var);
  // Notes that the node that is recorded next uses a parameter.
  void note_use(const Var& input);
  // narrow_.size(): not noted.
  std::size_t index_of_narrow(const Var::State* leaf) const;
  // Completes the gradients of parameters that no node before this one uses.
  void complete(std::size_t node);
  Tensor in_type(const Tensor& tensor, DType type);
  // The type in which an operator is asked for the gradient of an input: narrower than fp32 only if
  // this gradient is the whole sum of a parameter.
  std::optional<DType> sum_type(const Target& target) const;

  Given take_gradients(const Node& node);
  // Takes the gradients of a node's outputs and gives its inputs' gradients to their destinations.
  void differentiate(Node& node);
  // Adds the gradient of an input to those that its destination has.
  void give(const Node& node, std::size_t input, Gradient gradient);

  // Runs the function again on a tape of its own, from its inputs, and differentiates that.
  // Gradients are added one by one to those already there: the same sums in the same order as
  // without recompute().
  void differentiate_again(Node& node, const Given& given);

  // Input i of a recomputed function: the parameter itself, or a leaf that stands for a result and
  // starts with its gradient.
  Var input_again(const Node& node, std::size_t i, std::span<const Var> before);

  Context& context_;
  TapeOptions options_;
  HeapVector<Node> nodes_;
  HeapVector<Gradient> slots_;  // gradients of results, while backward runs
  HeapVector<Narrow> narrow_;   // in the order of their first nodes
  std::uint64_t recording_;
  int paused_ = 0;
  std::string_view layer_{};  // the layer that errors name
  bool counts_steps_ = true;  // backward begins a new step
  std::atomic<bool> in_use_{false};
  std::uint64_t applied_ = 0;         // applied operators so far
  std::uint64_t differentiable_ = 0;  // those with a gradient in an input
  Replay* latest_ = nullptr;          // the place where recompute() notes operators' outputs
  const Replay* replay_ = nullptr;    // while recompute() runs its function again
  Sequences rows_of_, rows_;          // the latest batch_of_rows(): of this batch, with its result
  const Tape* outer_ = nullptr;       // the tape whose last node this one runs again
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/autograd/impl/tape.ipp>
#include <soma/autograd/impl/tape_backward.ipp>
#endif
