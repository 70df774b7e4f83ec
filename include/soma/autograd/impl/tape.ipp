#pragma once
// The functions of tape.hpp that record.

#include <soma/autograd/tape.hpp>

#include <soma/autograd/replay.hpp>
#include <soma/autograd/tape_guards.hpp>
#include <soma/autograd/tape_options.hpp>
#include <soma/autograd/var.hpp>
#include <soma/base/error.hpp>
#include <soma/base/error_ids.hpp>
#include <soma/ops/batch.hpp>
#include <soma/ops/product_formats.hpp>
#include <soma/ops/records.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
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

SOMA_INLINE Tape::Tape(Context& context, const TapeOptions& options)
    : context_(context),
      options_(options),
      nodes_(context.heap()),
      slots_(context.heap()),
      narrow_(context.heap()),
      recording_(context.next_id()) {
  if (options.packed != nullptr && options.record)
    fail(error_id::tape_options, "Tape", "options.packed", "set with record = true",
         "record = false: a training changes the weights");
}

SOMA_INLINE const BuiltInOperators& Tape::operators() const { return context_.built_in(); }

SOMA_INLINE std::size_t Tape::size() const { return nodes_.size(); }

SOMA_INLINE void Tape::reset() {
  while (!nodes_.empty()) nodes_.pop_back();  // the latest first
  slots_.clear();
  rows_of_ = rows_ = {};
  narrow_.clear();
  recording_ = context_.next_id();
}

SOMA_INLINE void Tape::reset(std::uint32_t step) {
  reset();
  options_.step = step;
  counts_steps_ = false;
}

SOMA_INLINE Var Tape::constant(Tensor value, Sequences sequences) {
  return Var::constant(context_, std::move(value), std::move(sequences));
}

SOMA_INLINE Var Tape::constant(const Ragged& ragged) { return Var::constant(context_, ragged); }

SOMA_INLINE Var Tape::input(Tensor value, Sequences sequences) {
  detail::check_batch("Tape::input", value, sequences);
  Var leaf(context_, std::move(value), true, std::move(sequences));
  leaf.state_->stands_in = true;
  leaf.state_->of_batch = true;
  return leaf;
}

SOMA_INLINE Var Tape::detach(const Var& var) {
  Var leaf = constant(var.value(), var.sequences());
  leaf.state_->of_batch = var.state_->of_batch;
  return leaf;
}

SOMA_INLINE Var Tape::with_sequences(Var var, Sequences sequences) {
  detail::check_batch("Tape::with_sequences", var.value(), sequences);
  var.state().sequences = std::move(sequences);
  return var;
}

SOMA_INLINE detail::Paused Tape::no_gradient() { return detail::Paused(paused_); }

SOMA_INLINE detail::WithinLayer Tape::within(std::string_view layer) { return {layer_, layer}; }

SOMA_INLINE bool Tape::any_batch(std::span<const Var> inputs) {
  for (const Var& input : inputs)
    if (input.defined() && input.sequences().defined()) return true;
  return false;
}

SOMA_INLINE std::size_t Tape::batch_input(const Operator& op, std::span<const Var> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !inputs[i].sequences().defined()) continue;
    if (op.batch_inputs == 0) return i;
    if ((op.batch_inputs >> i & 1) == 0) continue;
    const std::size_t dimension = inputs[i].sequences().place().dimension;
    switch (op.row_dimensions) {
      case RowDimensions::first:
        return dimension == 0 ? i : inputs.size();
      case RowDimensions::all_but_last:
        return dimension + 1 < inputs[i].shape().rank() ? i : inputs.size();
      case RowDimensions::all:
        return i;
    }
  }
  return inputs.size();
}

SOMA_INLINE Sequences Tape::batch_of_rows(const Operator& op, const Var& input) {
  const Sequences& batch = input.sequences();
  const Shape& shape = input.shape();
  const std::size_t end = op.row_dimensions == RowDimensions::first          ? 1
                          : op.row_dimensions == RowDimensions::all_but_last ? shape.rank() - 1
                                                                             : shape.rank();
  const std::size_t inner = batch.place().inner * detail::elements_between(shape, 1, end);
  if (inner == 1) return batch;
  const bool known = rows_of_.same_batch(batch) && rows_of_.place().inner == inner;
  if (!known) {
    rows_of_ = batch.at({.inner = inner});
    rows_ = batch.with_inner_rows(context_, inner);
  }
  return rows_;
}

SOMA_INLINE VarOutputs Tape::apply_in_batch_order(const Operator& op, const Attributes& attributes,
                                                  std::span<const Var> inputs, const Var& rows) {
  const Sequences batch = rows.sequences();
  const BatchPlace place = batch.place();
  const std::size_t dimension = place.dimension;
  const bool several = place.outer != 1;
  const auto exchanged = [&](const Var& x) {
    return apply(*operators().transpose, TransposeSetting{0, dimension + (several ? 1 : 0)}, {x});
  };
  HeapVector<Var> moved(context_.heap());
  moved.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Var x = inputs[i];
    if (x.defined() && (op.batch_inputs >> i & 1) != 0) {
      if (several)
        x = apply(*operators().reshape, ReshapeSetting{detail::with_cut(x.shape(), batch)}, {x});
      x = with_sequences(exchanged(x), batch.at({.inner = place.inner}));
    }
    moved.push_back(x);
  }
  VarOutputs results = apply_all(op, attributes, moved);
  if (!results[0].sequences().defined()) return results;
  Var y = exchanged(results[0]);
  if (several)
    y = apply(*operators().reshape, ReshapeSetting{detail::without_cut(y.shape(), dimension)}, {y});
  results[0] = with_sequences(y, batch.at(place));
  return results;
}

SOMA_INLINE VarOutputs Tape::apply_all(const Operator& op, const Attributes& attributes,
                                       std::span<const Var> inputs) {
  const std::size_t with_batch = batch_input(op, inputs);
  const bool batch = with_batch != inputs.size(), by_rows = batch && op.batch_inputs != 0;
  if (by_rows && !inputs[with_batch].sequences().place().leads())
    return apply_in_batch_order(op, attributes, inputs, inputs[with_batch]);
  const detail::ExclusiveUse use(in_use_);
  Tensors values(context_.heap());
  values.reserve(inputs.size());
  HeapVector<Sequences> batches(context_.heap());  // of each input, for who asks
  const bool asks = (op.wants_batches || op.batch != nullptr) && any_batch(inputs);
  if (asks) batches.reserve(inputs.size());
  bool differentiable = false, of_batch = false;
  for (const Var& input : inputs) {
    values.push_back(input.defined() ? input.value() : Tensor());
    if (asks) batches.push_back(input.defined() ? input.sequences() : Sequences());
    if (!input.defined()) continue;
    check_origin(op.name, input);
    const bool needed = input.requires_gradient() || values.size() <= op.min_inputs;
    if (needed && !input.value().defined()) refuse_dropped(op.name, values.size() - 1, input);
    if (input.value().defined() && &input.value().heap() != &context_.heap())
      refuse_foreign(op.name, values.size() - 1);
    differentiable |= input.requires_gradient();
    // A constant without sequences is data where it comes first, else a mask, a factor, an index.
    of_batch |= input.state_->of_batch || input.sequences().defined() ||
                (!input.requires_gradient() && input.is_leaf() && values.size() == 1);
  }
  Sequences sequences;
  if (batch)
    sequences = by_rows ? batch_of_rows(op, inputs[with_batch]) : inputs[with_batch].sequences();
  ++applied_;
  if (differentiable) ++differentiable_;
  const bool record = differentiable && recording();
  if (record && op.gradient == nullptr)
    fail(error_id::not_differentiable, op.name, "operator", "without a gradient",
         "an operator with a gradient, or constant inputs (Tape::detach)");
  const bool known = replay_ != nullptr && replay_->number == applied_ && replay_->unchanged();
  const std::span<const Sequences> wanted =
      op.wants_batches ? std::span<const Sequences>(batches) : std::span<const Sequences>();
  const Outputs outputs = known ? replay_->outputs : detail::in_layer(layer_, [&] {
    return run(context_, op, attributes, values, sequences, wanted);
  });
  if (options_.hook != nullptr) options_.hook->between();
  if (latest_ != nullptr && options_.record)
    for (const Var& input : inputs) note_use(input);
  // Ranks add up the sums of a batch norm: all run it again, whatever sizes their parts have.
  const bool with_others = options_.batch_sums != nullptr && &op == operators().batch_norm;
  if (latest_ != nullptr)
    *latest_ = op.composite || with_others ? Replay() : Replay(applied_, outputs);
  if (options_.stop_at_non_finite) check_finite(op.name, "", std::span(outputs).first(op.outputs));
  std::array<Sequences, max_outputs> places;
  if (op.batch != nullptr && asks)
    op.batch({context_, attributes, values, batches, std::span(outputs).first(op.outputs),
              std::span(places).first(op.outputs)});
  else if (op.batch == nullptr && batch && op.outputs != 0)
    places[0] = detail::batch_of_same_dimension(inputs[with_batch].sequences(), values[with_batch],
                                                outputs[0]);
  for (std::size_t i = 0; i < op.outputs; ++i) detail::check_batch(op.name, outputs[i], places[i]);
  VarOutputs results;
  for (std::size_t i = 0; i < op.outputs; ++i)
    results[i] = make_result(outputs[i], places[i], of_batch, record, i);
  if (record)
    append(op, attributes, sequences, inputs, outputs, nullptr, of_batch, places[0], wanted);
  return results;
}

SOMA_INLINE Var Tape::apply(const Operator& op, const Attributes& attributes,
                            std::initializer_list<Var> inputs) {
  return apply_all(op, attributes, std::span<const Var>(inputs.begin(), inputs.size()))[0];
}

SOMA_INLINE void Tape::refuse_dropped(std::string_view operation, std::size_t input,
                                      const Var& var) {
  fail(error_id::operator_inputs, operation, detail::input_name(input),
       "a variable without a value, " + var.value().describe(),
       "one with a value: a process of a pipeline keeps those that its pieces list "
       "(nn::Piece::parameters)");
}

SOMA_INLINE void Tape::refuse_foreign(std::string_view operation, std::size_t input) {
  fail(error_id::tensor_foreign, operation, detail::input_name(input),
       "a tensor of another context", "one of the tape's context");
}

SOMA_INLINE void Tape::check_origin(std::string_view operation, const Var& var) const {
  if (var.is_leaf()) return;
  const bool own = var.state_->tape == this && var.state_->home == &context_;
  if (own && var.state_->recording == recording_) return;
  if (!own)
    fail(error_id::foreign_tape, operation, "variable", "the result of another tape",
         "one of this tape, or a constant (Tape::detach)");
  fail(error_id::freed, operation, "variable", "of a recording that backward or reset has ended",
       "one computed since, or a constant (Tape::detach)");
}

SOMA_INLINE void Tape::check_finite(std::string_view name, std::string_view way,
                                    std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors)
    if (tensor.defined() && !operators().all_finite(context_, tensor))
      fail(error_id::not_finite, std::string(name).append(way), "result",
           tensor.describe() + " with NaN or infinity", "finite numbers");
}

SOMA_INLINE Var Tape::make_result(Tensor value, Sequences sequences, bool of_batch, bool record,
                                  std::size_t index) {
  Var result(context_, std::move(value), record, std::move(sequences));
  result.state_->of_batch = of_batch;
  if (!record) return result;
  result.state_->tape = this;
  result.state_->recording = recording_;
  result.state_->slot = slots_.size() + index;
  return result;
}

SOMA_INLINE void Tape::append(const Operator& op, const Attributes& attributes,
                              const Sequences& sequences, std::span<const Var> inputs,
                              const Outputs& outputs, Shared<Recompute> recompute, bool of_batch,
                              const Sequences& output_sequences,
                              std::span<const Sequences> batches) {
  Heap& heap = context_.heap();
  Node node{&op,
            attributes,
            sequences,
            output_sequences,
            HeapVector<Sequences>(heap),
            !of_batch,
            slots_.size(),
            inputs.size(),
            Tensors(heap),
            HeapVector<std::uint64_t>(heap),
            HeapVector<Target>(heap),
            std::move(recompute)};
  node.batches.reserve(batches.size());
  for (const Sequences& batch : batches) node.batches.push_back(batch);
  node.tensors.reserve(inputs.size() + op.outputs);
  node.versions.reserve(inputs.size() + op.outputs);
  node.targets.reserve(inputs.size());
  const auto keep = [&node](const Tensor& tensor, bool whole) {
    const bool kept = whole && tensor.defined();
    node.tensors.push_back(kept ? tensor : tensor.outline());
    node.versions.push_back(kept ? tensor.version() : 0);
  };
  std::uint32_t wanted = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].requires_gradient()) wanted |= std::uint32_t{1} << i;
  const KeptTensors kept = op.kept_for(wanted);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor none;
    keep(inputs[i].defined() ? inputs[i].value() : none, (kept.inputs >> i & 1) != 0);
    Target target;
    target.wanted = inputs[i].requires_gradient();
    target.sum = target.wanted && !inputs[i].state_->of_batch;
    note_use(inputs[i]);
    if (target.wanted && inputs[i].is_leaf())
      target.leaf = inputs[i].state_;
    else if (target.wanted)
      target.slot = inputs[i].state_->slot;
    node.targets.push_back(std::move(target));
  }
  for (std::size_t i = 0; i < op.outputs; ++i) keep(outputs[i], (kept.outputs >> i & 1) != 0);
  slots_.resize(slots_.size() + op.outputs);
  nodes_.push_back(std::move(node));
}

SOMA_INLINE bool Tape::is_of_batch(const Var& var) { return var.defined() && var.state_->of_batch; }

}  // namespace SOMA_NAMESPACE
