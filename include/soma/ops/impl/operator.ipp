#pragma once
// The functions of operator.hpp.

#include <soma/ops/operator.hpp>

#include <soma/ops/fields.hpp>
#include <soma/tensor/ragged.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace SOMA_NAMESPACE {

SOMA_INLINE std::span<const std::byte> Attributes::bytes() const { return {bytes_, size_}; }

SOMA_INLINE void Attributes::visit(FieldVisitor& visitor) {
  if (type_ != nullptr && type_->fields != nullptr) type_->fields(visitor, bytes_);
}

SOMA_INLINE void Attributes::check(std::string_view operation) const {
  if (type_ == nullptr || type_->fields == nullptr) return;
  Attributes copy = *this;
  detail::check_fields(operation, type_->fields, copy.bytes_, error_id::operator_value);
}

SOMA_INLINE bool Attributes::same_name(std::string_view name, std::size_t size) const {
  return type_ != nullptr && !name.empty() && type_->name == name && size_ == size;
}

SOMA_INLINE std::size_t BatchCall::first() const {
  std::size_t i = 0;
  while (!batches[i].defined()) ++i;
  return i;
}

SOMA_INLINE std::optional<DType> GradientCall::sum_type(std::size_t input) const {
  return input < sums.size() ? sums[input] : std::nullopt;
}

SOMA_INLINE KeptTensors Operator::kept_for(std::uint32_t wanted) const {
  if (keeps_for == nullptr) return {keeps_inputs, keeps_outputs};
  const KeptTensors kept = keeps_for(wanted);
  return {kept.inputs & keeps_inputs, kept.outputs & keeps_outputs};
}

SOMA_INLINE bool Gradient::defined() const { return values.defined(); }

SOMA_INLINE bool Gradient::sparse() const { return rows.defined(); }

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE void check_complete(std::string_view operation, const Operator& op) {
  const auto refuse = [&](std::string_view given, std::string_view wanted) {
    fail(error_id::operator_incomplete, operation, "operator",
         quoted(op.name).append(" ").append(given), wanted);
  };
  if (op.name.empty()) refuse("without a name", "a name");
  if (op.host == nullptr) refuse("without a host kernel", "a function that computes it");
  if (op.shape == nullptr && !op.allocates_outputs)
    refuse("without a shape rule", "one, or allocates_outputs");
  if (op.min_inputs > op.max_inputs || op.max_inputs > most_inputs || op.outputs > max_outputs)
    refuse("with " + std::to_string(op.min_inputs) + " to " + std::to_string(op.max_inputs) +
               " inputs and " + std::to_string(op.outputs) + " outputs",
           "at most " + std::to_string(most_inputs) + " and " + std::to_string(max_outputs));
  if (op.writes_inputs != 0 && op.gradient != nullptr)
    refuse("that has a gradient and writes its inputs", "one or the other");
  if (op.allocates_outputs && op.program != nullptr)
    refuse("that has a program and allocates its outputs", "one or the other");
}

}  // namespace SOMA_NAMESPACE::detail
