#pragma once
// The functions of tape.hpp.

#include <soma/autograd/tape.hpp>

#include <soma/autograd/replay.hpp>
#include <soma/autograd/tape_guards.hpp>
#include <soma/autograd/tape_options.hpp>
#include <soma/autograd/var.hpp>
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
      recording_(context.next_id()) {}

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
  if (latest_ != nullptr) *latest_ = op.composite ? Replay() : Replay(applied_, outputs);
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

SOMA_INLINE void Tape::backward(const Var& loss, float scale) {
  if (loss.defined() && loss.value().elements() != 1)
    fail(error_id::not_scalar, "Tape::backward", "loss", loss.value().describe(),
         "one element, or the gradient of the result beside it");
  backward(loss, loss.defined() ? Tensor::full(context_, loss.shape(), scale) : Tensor());
}

SOMA_INLINE void Tape::backward(const Var& result, const Tensor& gradient) {
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
    complete(nodes_.size() - 1);
    slots_.resize(nodes_.back().first_slot);
    nodes_.pop_back();
  }
}

SOMA_INLINE Tape::Finish::~Finish() {
  tape.reset();
  if (tape.counts_steps_) ++tape.options_.step;
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
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor none;
    keep(inputs[i].defined() ? inputs[i].value() : none, (op.keeps_inputs >> i & 1) != 0);
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
  for (std::size_t i = 0; i < op.outputs; ++i) keep(outputs[i], (op.keeps_outputs >> i & 1) != 0);
  slots_.resize(slots_.size() + op.outputs);
  nodes_.push_back(std::move(node));
}

SOMA_INLINE bool Tape::is_of_batch(const Var& var) { return var.defined() && var.state_->of_batch; }

SOMA_INLINE std::size_t Tape::index_of_narrow(const Var::State* leaf) const {
  std::size_t i = narrow_.size();
  while (i-- > 0)
    if (narrow_[i].leaf.operator->() == leaf) return i;
  return narrow_.size();
}

SOMA_INLINE void Tape::note_use(const Var& input) {
  const bool parameter = input.requires_gradient() && input.is_leaf() && !input.state_->stands_in;
  if (!parameter || options_.precision == nullptr) return;
  const Var::State* leaf = input.state_.operator->();
  if (const std::size_t known = index_of_narrow(leaf); known < narrow_.size()) {
    ++narrow_[known].uses;
    return;
  }
  if (outer_ != nullptr) {  // nodes before the one that runs again may use the parameter
    const std::size_t known = outer_->index_of_narrow(leaf);
    if (known == outer_->narrow_.size() ||
        outer_->narrow_[known].first + 1 != outer_->nodes_.size())
      return;
  }
  const DType type = options_.precision->gradient_type(input.shape());
  if (type != DType::fp32) narrow_.push_back({input.state_, type, nodes_.size()});
}

SOMA_INLINE void Tape::complete(std::size_t node) {
  for (; !narrow_.empty() && narrow_.back().first >= node; narrow_.pop_back()) {
    const Var parameter(narrow_.back().leaf);
    if (options_.receiver != nullptr)
      options_.receiver->complete(parameter, narrow_.back().type);
    else
      round_gradient(context_, parameter, narrow_.back().type);
  }
}

SOMA_INLINE Tensor Tape::in_type(const Tensor& tensor, DType type) {
  if (tensor.dtype() == type || !is_floating(tensor.dtype()) || !is_floating(type)) return tensor;
  if (!tensor.defined()) return tensor.outline(type);
  return run(context_, *operators().cast, CastSetting{.dtype = type}, {tensor})[0];
}

SOMA_INLINE std::optional<DType> Tape::sum_type(const Target& target) const {
  if (!target.sum) return std::nullopt;
  if (target.leaf == nullptr || options_.receiver != nullptr || target.leaf->gradient.defined())
    return DType::fp32;
  const std::size_t known = index_of_narrow(target.leaf.operator->());
  return known < narrow_.size() && narrow_[known].uses == 1 ? narrow_[known].type : DType::fp32;
}

SOMA_INLINE Tape::Given Tape::take_gradients(const Node& node) {
  Given given;
  for (std::size_t i = 0; i < node.op->outputs; ++i) {
    Gradient& slot = slots_[node.first_slot + i];
    if (!slot.defined()) continue;
    const Tensor& output = node.tensors[node.inputs + i];
    const Tensor sum = operators().to_dense(context_, slot, output.shape());
    // Eight bits are too few for gradients.
    const bool as_output =
        !node.op->wide_gradients || (!node.is_wide() && size_of(output.dtype()) == 2);
    // A function that runs again has an operator that says it.
    given.gradients[i] = node.recompute != nullptr
                             ? sum
                             : in_type(sum, as_output ? output.dtype() : DType::fp32);
    given.rounded |=
        slot.rounded || (node.sums && size_of(given.gradients[i].dtype()) < size_of(sum.dtype()));
    given.any = true;
    slot = {};
  }
  return given;
}

SOMA_INLINE void Tape::differentiate(Node& node) {
  const Given given = take_gradients(node);
  if (!given.any) return;
  for (std::size_t i = 0; i < node.tensors.size(); ++i)
    if (node.tensors[i].defined() && node.tensors[i].version() != node.versions[i])
      fail(error_id::changed_in_place, node.op->name,
           i < node.inputs ? detail::input_name(i) : "output", "changed since",
           "the value that backward needs (write to a copy)");

  if (node.recompute != nullptr) return differentiate_again(node, given);

  HeapVector<Gradient> gradients(node.inputs, context_.heap());
  std::array<bool, most_inputs> wanted{};
  std::array<std::optional<DType>, most_inputs> sums{};
  for (std::size_t i = 0; i < node.inputs; ++i) {
    wanted[i] = node.targets[i].wanted;
    sums[i] = sum_type(node.targets[i]);
  }
  // Operators that are composed of others pass inputs on to them, in any type; quantized_linear
  // knows its weight again.
  const std::size_t first_widened = node.op->composite ? node.inputs : 0;
  for (std::size_t i = first_widened; node.is_wide() && i < node.tensors.size(); ++i)
    node.tensors[i] = in_type(node.tensors[i], DType::fp32);
  const std::span<const Tensor> tensors(node.tensors);
  const GradientCall call{context_,
                          node.attributes,
                          tensors.first(node.inputs),
                          tensors.subspan(node.inputs),
                          std::span<const Tensor>(given.gradients).first(node.op->outputs),
                          node.sequences,
                          std::span<const bool>(wanted).first(node.inputs),
                          gradients,
                          node.op->state,
                          node.output_sequences,
                          node.batches,
                          std::span<const std::optional<DType>>(sums).first(node.inputs)};
  node.op->gradient(call);
  if (options_.hook != nullptr) options_.hook->between();
  detail::check_gradients(node.op->name, call);
  for (std::size_t i = 0; i < node.inputs; ++i) {
    Gradient& gradient = gradients[i];
    if (!wanted[i] || !gradient.defined()) continue;
    if (options_.stop_at_non_finite)
      check_finite(node.op->name, " (backward)", {&gradient.values, 1});
    if (sums[i]) {
      const DType type = gradient.values.dtype();
      const bool narrow = type != *sums[i] && size_of(type) < sizeof(float);
      gradient.rounded = given.rounded || (narrow && !node.op->wide_gradients);
      if (narrow) gradient.values = in_type(gradient.values, DType::fp32);
    }
    give(node, i, std::move(gradient));
  }
}

SOMA_INLINE void Tape::give(const Node& node, std::size_t input, Gradient gradient) {
  const Target& target = node.targets[input];
  const bool parameter = target.leaf != nullptr && !target.leaf->stands_in;
  if (parameter && options_.receiver != nullptr)
    return options_.receiver->receive(Var(target.leaf), std::move(gradient));
  if (gradient.factor != 1)
    fail(error_id::parallel_gradient, node.op->name, detail::input_name(input),
         parameter ? "a parameter, without TapeOptions::receiver" : "the result of an operator",
         "a parameter whose gradient ranks add up");
  Gradient& total = target.leaf != nullptr ? target.leaf->gradient : slots_[target.slot];
  const bool rounded = gradient.rounded || total.rounded;
  operators().accumulate(context_, total, std::move(gradient));
  total.rounded = rounded;
}

SOMA_INLINE void Tape::differentiate_again(Node& node, const Given& given) {
  Tape inner(context_, options_);
  inner.outer_ = this;
  HeapVector<Var> leaves(context_.heap());
  leaves.reserve(node.inputs);
  for (std::size_t i = 0; i < node.inputs; ++i) leaves.push_back(input_again(node, i, leaves));
  inner.replay_ = &node.recompute->replay;
  const Var result = node.recompute->run(*node.recompute, inner, leaves);
  if (result.requires_gradient()) {
    if (!result.is_leaf()) inner.slots_[result.state_->slot].rounded = given.rounded;
    inner.backward(result, given.gradients[0]);
  }
  for (std::size_t i = 0; i < node.inputs; ++i)
    if (const Target& target = node.targets[i];
        target.wanted && target.leaf == nullptr && leaves[i].gradient().defined())
      slots_[target.slot] = std::move(leaves[i].state_->gradient);
}

SOMA_INLINE Var Tape::input_again(const Node& node, std::size_t i, std::span<const Var> before) {
  const Target& target = node.targets[i];
  if (target.leaf != nullptr) return Var(target.leaf);
  if (!node.tensors[i].defined()) return {};
  for (std::size_t j = 0; target.wanted && j < i; ++j)
    if (const Target& other = node.targets[j];
        other.wanted && other.leaf == nullptr && other.slot == target.slot)
      return before[j];
  Var leaf(context_, node.tensors[i], target.wanted, node.recompute->sequences[i]);
  leaf.state_->stands_in = true;
  leaf.state_->of_batch = node.recompute->of_batch[i];
  if (target.wanted) leaf.state_->gradient = std::move(slots_[target.slot]);
  return leaf;
}

}  // namespace SOMA_NAMESPACE
