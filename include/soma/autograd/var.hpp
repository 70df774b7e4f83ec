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
#include <string>
#include <string_view>
#include <utility>

namespace soma {

namespace detail {

// True if the tensor has the shape of `count` rows of `shape`.
inline bool has_rows_of(const Tensor& tensor, std::size_t count, const Shape& shape) {
  if (shape.rank() == 0 || tensor.rank() != shape.rank() || tensor.size(0) != count) return false;
  for (std::size_t i = 1; i < shape.rank(); ++i)
    if (tensor.size(i) != shape[i]) return false;
  return true;
}

// True if the gradient fits a tensor of that shape: floating numbers, one for each element, or for
// each element of the rows that it names.
inline bool gradient_fits(const Gradient& gradient, const Shape& shape) {
  const Tensor &values = gradient.values, &rows = gradient.rows;
  if (!is_floating(values.dtype())) return false;
  if (!rows.defined()) return values.shape() == shape;
  return rows.dtype() == DType::int64 && rows.rank() == 1 &&
         has_rows_of(values, rows.size(0), shape);
}

// Throws the reason why the gradient does not fit. Errors tensor.dtype, tensor.shape.
[[noreturn]] inline void refuse_gradient(std::string_view operation, const std::string& argument,
                                         const Gradient& gradient, const Shape& shape) {
  const Tensor &values = gradient.values, &rows = gradient.rows;
  if (!is_floating(values.dtype()))
    fail(error_id::tensor_dtype, operation, argument, values.describe(), "a floating type");
  if (!rows.defined())
    fail(error_id::tensor_shape, operation, argument, values.describe(), to_string(shape));
  if (rows.dtype() != DType::int64)
    fail(error_id::tensor_dtype, operation, argument, "of rows " + rows.describe(),
         "int64 numbers of rows");
  fail(error_id::tensor_shape, operation, argument,
       values.describe() + " of rows " + rows.describe(),
       "a row of " + to_string(shape) + " for each number of a row");
}

// Checks the gradients that an operator computed. Errors tensor.dtype, tensor.shape.
inline void check_gradients(std::string_view name, const GradientCall& call) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Gradient& gradient = call.input_gradients[i];
    if (call.wanted[i] && gradient.defined() && !gradient_fits(gradient, call.inputs[i].shape()))
      refuse_gradient(name, "gradient of input " + std::to_string(i), gradient,
                      call.inputs[i].shape());
  }
}

}  // namespace detail

class Var {
 public:
  Var() = default;  // defined() is false: an omitted input

  // parameter(): a leaf with a gradient; constant(): a leaf without. `sequences` describes how its
  // rows form a batch; results computed from the leaf inherit the sequences.
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
  bool requires_gradient() const { return state_ != nullptr && state_->requires_gradient; }
  // True if both are the same variable.
  bool is(const Var& other) const { return state_.operator->() == other.state_.operator->(); }

  // Defined variables only, as for all members below. Error tensor.undefined.
  const Tensor& value() const { return state().value; }
  const Shape& shape() const { return state().value.shape(); }
  const Sequences& sequences() const { return state().sequences; }
  bool is_leaf() const { return state().tape == nullptr; }
  // The context in which the variable was made.
  const Context& context() const { return *state().home; }

  // The gradient of a parameter after backward; not defined() if none came. Several parameters may
  // share one tensor (both terms of a sum get the same one): to change a gradient, set a new one.
  const Gradient& gradient() const { return state().gradient; }
  // The gradient may cover adjacent rows only (Gradient::first_row). Errors tensor.dtype,
  // tensor.shape.
  void set_gradient(Gradient gradient) const {
    State& own = state();
    if (gradient.defined()) check(gradient);
    own.gradient = std::move(gradient);
  }
  void clear_gradient() const { state().gradient = {}; }
  // Gives a parameter another tensor of its shape, for example the same numbers in another type.
  // Errors tensor.undefined, tensor.shape, autograd.not_leaf.
  void set_value(Tensor value) const {
    if (!is_leaf())
      fail(error_id::not_leaf, "Var::set_value", "variable", "the result of an operator",
           "a parameter or a constant");
    if (!value.defined() || value.shape() != shape())
      fail(error_id::tensor_shape, "Var::set_value", "value",
           value.defined() ? value.describe() : "no tensor", state().value.describe());
    state().value = std::move(value);
  }
  // Keeps shape and type only, until set_value(): frees the elements of a parameter that is not
  // needed here.
  void drop_value() const { drop_value(state().value.dtype()); }
  void drop_value(DType dtype) const { state().value = state().value.outline(dtype); }

 private:
  friend class Tape;
  struct State : Counted {
    explicit State(Heap& heap) : Counted(heap) {}
    Tensor value;
    Sequences sequences;
    bool requires_gradient = false;
    bool stands_in = false;         // true: replaces a result while recompute() runs its function
    Gradient gradient;              // only a leaf has one
    const void* tape = nullptr;     // the tape that made the result; nullptr: a leaf
    const Context* home = nullptr;  // the context, which counts recordings
    std::uint64_t recording = 0;    // the number of the recording
    std::size_t slot = 0;           // the tape's slot for the gradient
  };

  Var(Context& context, Tensor value, bool requires_gradient, Sequences sequences)
      : state_(Shared<State>::make(context.heap())) {
    state_->value = std::move(value);
    state_->requires_gradient = requires_gradient;
    state_->sequences = std::move(sequences);
    state_->home = &context;
  }
  explicit Var(Shared<State> state) : state_(std::move(state)) {}

  State& state() const {
    if (state_ == nullptr) refuse();
    return *state_;
  }
  [[noreturn]] static void refuse() {
    fail(error_id::tensor_undefined, "Var", "variable", "not defined", "one with a value");
  }
  void check(const Gradient& gradient) const {
    if (!detail::gradient_fits(gradient, shape()) && !is_part(gradient))
      detail::refuse_gradient("Var::set_gradient", "gradient", gradient, shape());
  }
  // True if the gradient covers adjacent rows; a scalar counts as one row.
  bool is_part(const Gradient& gradient) const {
    const Tensor& values = gradient.values;
    if (gradient.sparse() || !is_floating(values.dtype()) || values.rank() == 0) return false;
    const bool number = shape().rank() == 0;
    const std::size_t rows = number ? 1 : shape()[0], count = values.size(0);
    const bool alike = number ? values.rank() == 1 : detail::has_rows_of(values, count, shape());
    return alike && gradient.first_row <= rows && count <= rows - gradient.first_row;
  }

  Shared<State> state_;
};

// Receives every term that backward would add to parameters' gradients, in backward's order
// (TapeOptions::receiver). A receiver adds the terms itself, for sums over more than this tape.
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
