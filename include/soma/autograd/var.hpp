#pragma once
// Var: a tensor that takes part in differentiation. A copy is the same variable.
//
// A *leaf* belongs to no tape: a parameter collects the gradients of every backward pass of every
// tape that it was used on until they are cleared; a constant has none. A *result* belongs to the
// tape that made it.

#include <soma/ops/operator.hpp>
#include <soma/runtime/shared.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace soma {

class Var {
 public:
  Var() = default;  // defined() is false: stands for an input that is left out

  // A leaf with a gradient, and one without. `sequences` says how its rows form a batch; what is
  // computed from it inherits that.
  static Var parameter(Context& context, Tensor value) {
    return Var(context, std::move(value), true, {});
  }
  static Var constant(Context& context, Tensor value, Sequences sequences = {}) {
    return Var(context, std::move(value), false, std::move(sequences));
  }
  static Var constant(Context& context, const Ragged& ragged) {
    return Var(context, ragged.rows, false, ragged.sequences);
  }

  bool defined() const { return state_ != nullptr; }
  const Tensor& value() const { return state_->value; }
  const Shape& shape() const { return state_->value.shape(); }
  const Sequences& sequences() const { return state_->sequences; }
  bool requires_gradient() const { return state_ != nullptr && state_->requires_gradient; }
  bool is_leaf() const { return state_->tape == nullptr; }

  // Of a parameter, after backward. Not defined(): none came. Several parameters may share one
  // tensor (both terms of a sum get the same): to change a gradient, set a new one.
  const Gradient& gradient() const { return state_->gradient; }
  void set_gradient(Gradient gradient) const { state_->gradient = std::move(gradient); }
  void clear_gradient() const { state_->gradient = {}; }
  // Gives a parameter another tensor of its shape, such as the same numbers in another type.
  // Errors tensor.undefined, tensor.shape, autograd.not_leaf.
  void set_value(Tensor value) const {
    if (!is_leaf())
      fail(error_id::not_leaf, "Var::set_value", "variable", "the result of an operator",
           "a parameter or a constant");
    if (!value.defined() || value.shape() != shape())
      fail(error_id::tensor_shape, "Var::set_value", "value",
           value.defined() ? value.describe() : "no tensor", state_->value.describe());
    state_->value = std::move(value);
  }

 private:
  friend class Tape;
  struct State : Counted {
    explicit State(Heap& heap) : Counted(heap) {}
    Tensor value;
    Sequences sequences;
    bool requires_gradient = false;
    bool stands_in = false;         // for a result, while a checkpoint runs again
    Gradient gradient;              // of a leaf
    const void* tape = nullptr;     // whose result this is; nullptr: a leaf's
    const Context* home = nullptr;  // that tape's context, which counts recordings
    std::uint64_t recording = 0;    // and of which of its recordings
    std::size_t slot = 0;           // where that tape collects its gradient
  };

  Var(Context& context, Tensor value, bool requires_gradient, Sequences sequences)
      : state_(Shared<State>::make(context.heap())) {
    state_->value = std::move(value);
    state_->requires_gradient = requires_gradient;
    state_->sequences = std::move(sequences);
  }
  explicit Var(Shared<State> state) : state_(std::move(state)) {}
  Shared<State> state_;
};

// Takes what backward would add to the gradients of parameters, addend by addend, in its order:
// TapeOptions::receiver. Whoever needs sums over more than this tape adds them itself.
class GradientReceiver {
 public:
  virtual ~GradientReceiver() = default;
  virtual void receive(const Var& parameter, Gradient addend) = 0;

 protected:
  GradientReceiver() = default;
  GradientReceiver(const GradientReceiver&) = default;
  GradientReceiver& operator=(const GradientReceiver&) = default;
};

}  // namespace soma
