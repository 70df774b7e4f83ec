#pragma once
// The functions of tape.hpp that differentiate a recording.

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
  if (type != DType::fp32 || options_.receiver != nullptr)
    narrow_.push_back({input.state_, type, nodes_.size()});
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
    given.gradients[i] =
        node.recompute != nullptr ? sum : in_type(sum, as_output ? output.dtype() : DType::fp32);
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
  // A leaf is the caller's own variable: while the function runs again, it has the sequences with
  // which the function began.
  const auto exchange = [&](std::size_t i) {
    if (node.targets[i].leaf != nullptr)
      std::swap(node.targets[i].leaf->sequences, node.recompute->sequences[i]);
  };
  for (std::size_t i = 0; i < node.inputs; ++i) exchange(i);
  const Var result = node.recompute->run(*node.recompute, inner, leaves);
  for (std::size_t i = node.inputs; i-- > 0;) exchange(i);  // an input may come twice
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
