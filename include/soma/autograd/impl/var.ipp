#pragma once
// The functions of var.hpp.

#include <soma/autograd/var.hpp>

#include <soma/ops/batch.hpp>
#include <soma/ops/operator.hpp>
#include <soma/ops/records.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/runtime/shared.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE bool has_rows_of(const Tensor& tensor, std::size_t count, const Shape& shape) {
  if (shape.rank() == 0 || tensor.rank() != shape.rank() || tensor.size(0) != count) return false;
  for (std::size_t i = 1; i < shape.rank(); ++i)
    if (tensor.size(i) != shape[i]) return false;
  return true;
}

SOMA_INLINE bool gradient_fits(const Gradient& gradient, const Shape& shape) {
  const Tensor &values = gradient.values, &rows = gradient.rows;
  if (!is_floating(values.dtype())) return false;
  if (!rows.defined()) return values.shape() == shape;
  return rows.dtype() == DType::int64 && rows.rank() == 1 &&
         has_rows_of(values, rows.size(0), shape);
}

SOMA_INLINE void refuse_gradient(std::string_view operation, const std::string& argument,
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

SOMA_INLINE void check_gradients(std::string_view name, const GradientCall& call) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Gradient& gradient = call.input_gradients[i];
    if (call.wanted[i] && gradient.defined() && !gradient_fits(gradient, call.inputs[i].shape()))
      refuse_gradient(name, "gradient of input " + std::to_string(i), gradient,
                      call.inputs[i].shape());
  }
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE Var Var::parameter(Context& context, Tensor value) {
  return Var(context, std::move(value), true, {});
}

SOMA_INLINE Var Var::constant(Context& context, Tensor value, Sequences sequences) {
  if (value.defined()) detail::check_batch("Var::constant", value, sequences);
  return Var(context, std::move(value), false, std::move(sequences));
}

SOMA_INLINE Var Var::constant(Context& context, const Ragged& ragged) {
  return constant(context, ragged.rows, ragged.sequences);
}

SOMA_INLINE bool Var::is(const Var& other) const {
  return state_.operator->() == other.state_.operator->();
}

SOMA_INLINE const Tensor& Var::value() const { return state().value; }

SOMA_INLINE const Shape& Var::shape() const { return state().value.shape(); }

SOMA_INLINE const Sequences& Var::sequences() const { return state().sequences; }

SOMA_INLINE bool Var::is_leaf() const { return state().tape == nullptr; }

SOMA_INLINE const Context& Var::context() const { return *state().home; }

SOMA_INLINE const Gradient& Var::gradient() const { return state().gradient; }

SOMA_INLINE void Var::set_gradient(Gradient gradient) const {
  State& own = state();
  if (gradient.defined()) check(gradient);
  own.gradient = std::move(gradient);
}

SOMA_INLINE void Var::clear_gradient() const { state().gradient = {}; }

SOMA_INLINE void Var::set_frozen(bool frozen) const {
  if (!is_leaf() || !(state().requires_gradient || state().frozen))
    fail(error_id::not_leaf, "Var::set_frozen", "variable",
         is_leaf() ? "a constant" : "the result of an operator", "a parameter");
  state().frozen = frozen;
  state().requires_gradient = !frozen;
  if (frozen) clear_gradient();
}

SOMA_INLINE bool Var::frozen() const { return state().frozen; }

SOMA_INLINE void Var::set_resting_row(std::size_t row) const {
  if (!is_leaf() || !(state().requires_gradient || state().frozen))
    fail(error_id::not_leaf, "Var::set_resting_row", "variable", state().value.describe(),
         "a parameter");
  state().resting_row = row;
}

SOMA_INLINE std::size_t Var::resting_row() const { return state().resting_row; }

SOMA_INLINE void Var::set_value(Tensor value) const {
  if (!is_leaf())
    fail(error_id::not_leaf, "Var::set_value", "variable", "the result of an operator",
         "a parameter or a constant");
  if (!value.defined() || value.shape() != shape())
    fail(error_id::tensor_shape, "Var::set_value", "value",
         value.defined() ? value.describe() : "no tensor", state().value.describe());
  state().value = std::move(value);
}

SOMA_INLINE void Var::drop_value() const { drop_value(state().value.dtype()); }

SOMA_INLINE void Var::drop_value(DType dtype) const {
  state().value = state().value.outline(dtype);
}

SOMA_INLINE Var::Var(Context& context, Tensor value, bool requires_gradient, Sequences sequences)
    : state_(Shared<State>::make(context.heap())) {
  state_->value = std::move(value);
  state_->requires_gradient = requires_gradient;
  state_->sequences = std::move(sequences);
  state_->home = &context;
}

SOMA_INLINE auto Var::state() const -> State& {
  if (state_ == nullptr) refuse();
  return *state_;
}

SOMA_INLINE void Var::refuse() {
  fail(error_id::tensor_undefined, "Var", "variable", "not defined", "one with a value");
}

SOMA_INLINE void Var::check(const Gradient& gradient) const {
  if (!detail::gradient_fits(gradient, shape()) && !is_part(gradient))
    detail::refuse_gradient("Var::set_gradient", "gradient", gradient, shape());
}

SOMA_INLINE bool Var::is_part(const Gradient& gradient) const {
  const Tensor& values = gradient.values;
  if (gradient.sparse() || !is_floating(values.dtype()) || values.rank() == 0) return false;
  const bool number = shape().rank() == 0;
  const std::size_t rows = number ? 1 : shape()[0], count = values.size(0);
  const bool alike = number ? values.rank() == 1 : detail::has_rows_of(values, count, shape());
  return alike && gradient.first_row <= rows && count <= rows - gradient.first_row;
}

SOMA_INLINE void round_gradient(Context& context, const Var& parameter, DType type) {
  Gradient gradient = parameter.gradient();
  if (!gradient.defined() || gradient.values.dtype() == type) return;
  gradient.values =
      run(context, *context.built_in().cast, CastSetting{.dtype = type}, {gradient.values})[0];
  parameter.set_gradient(std::move(gradient));
}

}  // namespace SOMA_NAMESPACE
