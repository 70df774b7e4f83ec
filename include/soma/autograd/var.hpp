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

namespace SOMA_NAMESPACE {

namespace detail {

// True if the tensor has the shape of `count` rows of `shape`.
bool has_rows_of(const Tensor& tensor, std::size_t count, const Shape& shape);

// True if the gradient fits a tensor of that shape: floating numbers, one for each element, or for
// each element of the rows that it names.
bool gradient_fits(const Gradient& gradient, const Shape& shape);

// Throws the reason why the gradient does not fit. Errors tensor.dtype, tensor.shape.
[[noreturn]] void refuse_gradient(std::string_view operation, const std::string& argument,
                                  const Gradient& gradient, const Shape& shape);

// Checks the gradients that an operator computed. Errors tensor.dtype, tensor.shape.
void check_gradients(std::string_view name, const GradientCall& call);

}  // namespace detail

class Var {
 public:
  Var() = default;  // defined() is false: an omitted input

  // parameter(): a leaf with a gradient; constant(): a leaf without. `sequences` describes how its
  // rows form a batch, and where the rows are (Sequences::place); results computed from the leaf
  // inherit them. Error operator.sequences: the tensor does not have these rows there.
  static Var parameter(Context& context, Tensor value);
  static Var constant(Context& context, Tensor value, Sequences sequences = {});
  static Var constant(Context& context, const Ragged& ragged);

  bool defined() const { return state_ != nullptr; }
  bool requires_gradient() const { return state_ != nullptr && state_->requires_gradient; }
  // True if both are the same variable.
  bool is(const Var& other) const;

  // Defined variables only, as for all members below. Error tensor.undefined.
  const Tensor& value() const;
  const Shape& shape() const;
  // The batch, with the place of its rows in this variable; not defined(): the variable has none.
  const Sequences& sequences() const;
  bool is_leaf() const;
  // The context in which the variable was made.
  const Context& context() const;

  // The gradient of a parameter after backward; not defined() if none came. Several parameters may
  // share one tensor (both terms of a sum get the same one): to change a gradient, set a new one.
  const Gradient& gradient() const;
  // The gradient may cover adjacent rows only (Gradient::first_row). Errors tensor.dtype,
  // tensor.shape.
  void set_gradient(Gradient gradient) const;
  void clear_gradient() const;
  // A frozen parameter is a constant on tapes, until it is no longer frozen: it gets no gradient,
  // so no optimizer moves it. Clears its gradient. Error autograd.not_leaf: not a parameter.
  void set_frozen(bool frozen) const;
  bool frozen() const;
  // A row of a parameter that optimizers leave as it is, whatever gradient or weight decay it has;
  // to_end: none. Error autograd.not_leaf: not a parameter.
  void set_resting_row(std::size_t row) const;
  std::size_t resting_row() const;
  // Gives a parameter another tensor of its shape, for example the same numbers in another type.
  // Errors tensor.undefined, tensor.shape, autograd.not_leaf.
  void set_value(Tensor value) const;
  // Keeps shape and type only, until set_value(): frees the elements of a parameter that is not
  // needed here.
  void drop_value() const;
  void drop_value(DType dtype) const;

 private:
  friend class Tape;
  struct State : Counted {
    explicit State(Heap& heap) : Counted(heap) {}
    Tensor value;
    Sequences sequences;
    bool requires_gradient = false;
    bool frozen = false;  // a parameter that requires none for now
    std::size_t resting_row = to_end;
    bool stands_in = false;  // true: replaces a result while recompute() runs its function
    // True: computed from the rows of a batch. A result of parameters alone is not, so its gradient
    // is a sum over the batch, as a parameter's is.
    bool of_batch = false;
    Gradient gradient;              // only a leaf has one
    const void* tape = nullptr;     // the tape that made the result; nullptr: a leaf
    const Context* home = nullptr;  // the context, which counts recordings
    std::uint64_t recording = 0;    // the number of the recording
    std::size_t slot = 0;           // the tape's slot for the gradient
  };

  Var(Context& context, Tensor value, bool requires_gradient, Sequences sequences);
  explicit Var(Shared<State> state) : state_(std::move(state)) {}

  State& state() const;
  [[noreturn]] static void refuse();
  void check(const Gradient& gradient) const;
  // True if the gradient covers adjacent rows; a scalar counts as one row.
  bool is_part(const Gradient& gradient) const;

  Shared<State> state_;
};

// Rounds the complete gradient of a parameter to the type in which it is stored. Does nothing if
// there is no gradient, or if it has that type.
void round_gradient(Context& context, const Var& parameter, DType type);

// Receives every term that backward would add to parameters' gradients, in backward's order
// (TapeOptions::receiver). A receiver adds the terms itself, for sums over more than this tape.
class GradientReceiver {
 public:
  virtual ~GradientReceiver() = default;
  virtual void receive(const Var& parameter, Gradient addend) = 0;
  // All terms of this backward have come: the receiver rounds their sum to `type` (round_gradient;
  // ProductFormats::gradient_type). On tapes with a precision; may be called again.
  virtual void complete(const Var& /*parameter*/, DType /*type*/) {}

 protected:
  GradientReceiver() = default;
  GradientReceiver(const GradientReceiver&) = default;
  GradientReceiver& operator=(const GradientReceiver&) = default;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/autograd/impl/var.ipp>
#endif
