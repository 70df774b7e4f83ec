#pragma once
// The functions of weight_average.hpp.

#include <soma/train/weight_average.hpp>

#include <soma/kernels/table.hpp>
#include <soma/nn/state.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/ops/support.hpp>
#include <soma/tensor/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace SOMA_NAMESPACE::train::detail {

// average += share * (weight - average), each operation rounded to fp32. Runs of the difference
// stay in the first-level cache, so memory sees one pass.
SOMA_INLINE void approach(Context& context, const Tensor& average, const Tensor& weight,
                          float share) {
  constexpr std::size_t run = 2048;
  const MatrixOperand values{.data = weight.raw(), .dtype = weight.dtype()};
  const MatrixTarget total = soma::detail::target(average);
  soma::detail::for_ranges(context, average.elements(), 4, [&](std::size_t begin, std::size_t end) {
    float difference[run];
    const ElementKernels& kernels = context.kernels().element;
    for (std::size_t at = begin; at < end; at += run) {
      const std::size_t count = (std::min)(run, end - at);
      const MatrixOperand old{.data = average.data<float>() + at};
      kernels.binary({.function = Binary::subtract,
                      .rows = 1,
                      .columns = count,
                      .a = soma::detail::part(values, 0, at),
                      .b = old,
                      .y = {.data = difference}});
      kernels.binary({.function = Binary::add,
                      .rows = 1,
                      .columns = count,
                      .a = old,
                      .b = {.data = difference},
                      .b_scale = share,
                      .y = soma::detail::part(total, 0, at)});
    }
  });
}

// to = from, rounded to nearest.
SOMA_INLINE void round_into(Context& context, const Tensor& from, const Tensor& to) {
  const MatrixOperand values{.data = from.raw(), .dtype = from.dtype()};
  const MatrixTarget target = soma::detail::target(to);
  soma::detail::for_ranges(context, from.elements(), 2, [&](std::size_t begin, std::size_t end) {
    context.kernels().element.unary({.function = Unary::copy,
                                     .rows = 1,
                                     .columns = end - begin,
                                     .x = soma::detail::part(values, 0, begin),
                                     .y = soma::detail::part(target, 0, begin)});
  });
}

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

SOMA_INLINE WeightAverage::WeightAverage(Context& context,
                                         const std::optional<AverageOptions>& options)
    : context_(context), options_(options) {}

SOMA_INLINE void WeightAverage::clear() { average_ = StateDict(); }

SOMA_INLINE bool WeightAverage::defined() const { return !average_.empty(); }

SOMA_INLINE bool WeightAverage::is_due(std::uint64_t step) const {
  if (!options_ || step < options_->from) return false;
  return !defined() || (step - options_->from) % options_->every == 0;
}

SOMA_INLINE void WeightAverage::update(const Parameters& parameters) {
  const bool first = !defined();
  const auto share = static_cast<float>(1 - options_->decay);
  for (const Parameter& parameter : parameters) {
    const Tensor weight = contiguous(context_, parameter.value());
    if (first) {
      const Tensor copy = Tensor::empty(context_, weight.shape());
      detail::round_into(context_, weight, copy);
      average_.set(parameter.name, copy);
    } else {
      detail::approach(context_, *average_.find(parameter.name), weight, share);
    }
  }
}

SOMA_INLINE void WeightAverage::give(const Parameters& parameters) const {
  for (const Parameter& parameter : parameters)
    if (const Tensor* average = average_.find(parameter.name))
      detail::round_into(context_, *average, parameter.value());
}

SOMA_INLINE void WeightAverage::add_to(StateDict& optimizer, bool rows) const {
  for (const auto& [name, tensor] : average_)
    optimizer.set(name + std::string(ending),
                  rows || tensor.rank() == 0 ? tensor : tensor.slice(0, 0, 0));
}

SOMA_INLINE void WeightAverage::take_from(StateDict& optimizer, const Parameters& parameters) {
  if (!options_) return;
  average_ = {};
  StateDict rest;
  for (const StateDict::Entry& entry : optimizer) {
    const std::string& name = entry.first;  // a lambda cannot capture a structured binding
    const Tensor& tensor = entry.second;
    const auto of = std::find_if(parameters.begin(), parameters.end(), [&](const Parameter& each) {
      return name.size() == each.name.size() + ending.size() && name.starts_with(each.name) &&
             name.ends_with(ending);
    });
    if (of == parameters.end()) {
      rest.set(name, tensor);
      continue;
    }
    const Shape shape = of->value().shape();
    if (tensor.shape() != shape)
      fail(error_id::state_shape, "Trainer::fit", soma::quoted(name), tensor.describe(),
           to_string(shape));
    if (tensor.dtype() != DType::fp32)
      fail(error_id::state_dtype, "Trainer::fit", soma::quoted(name), tensor.describe(), "fp32");
    average_.set(of->name, clone(context_, tensor));
  }
  optimizer = std::move(rest);
}

SOMA_INLINE AveragedWeights::AveragedWeights(Context& context, const WeightAverage& average,
                                             const Parameters& parameters)
    : parameters_(parameters) {
  if (!average.defined()) return;
  for (const auto& [name, tensor] : nn::state_dict(parameters))
    kept_.set(name, clone(context, tensor));
  average.give(parameters);
}

SOMA_INLINE AveragedWeights::~AveragedWeights() {
  if (!kept_.empty()) nn::load(parameters_, kept_);
}

}  // namespace SOMA_NAMESPACE::train
