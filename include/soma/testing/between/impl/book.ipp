#pragma once
// The functions of book.hpp.

#include <soma/testing/between/book.hpp>

#include <soma/autograd/choosing.hpp>
#include <soma/autograd/functions.hpp>
#include <soma/autograd/losses.hpp>
#include <soma/ops/choose/settings.hpp>
#include <soma/ops/image/settings.hpp>
#include <soma/ops/settings.hpp>
#include <soma/testing/samples.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::testing::detail {

SOMA_INLINE std::vector<ReferenceTensor> Entry::reference(
    const Attributes& attributes, const std::vector<std::size_t>& lengths,
    const std::vector<ReferenceTensor>& inputs) const {
  Sample sample{.name = name, .inputs = {}, .attributes = attributes, .lengths = lengths};
  for (const ReferenceTensor& input : inputs)
    sample.inputs.push_back({.shape = input.shape, .left_out = !input.defined});
  return samples.reference(sample, inputs);
}

SOMA_INLINE OperatorBook::OperatorBook(const OperatorRegistry& registry) {
  for (const Operator* op : registry.all()) {
    // Its settings point to objects of a layer: trainings have those.
    if (!op->has_samples() || op->name.starts_with("quantized_")) continue;
    OperatorSamples samples = samples_of(*op);
    if (samples.reference == nullptr || samples.samples.empty()) continue;
    std::string name(op->name);
    std::replace(name.begin(), name.end(), ' ', '_');  // in texts it is one word
    entries_.push_back({.name = name,
                        .op = op,
                        .samples = std::move(samples),
                        .differentiable = op->gradient != nullptr});
  }
  for (Entry& entry : composed_functions()) entries_.push_back(std::move(entry));
}

SOMA_INLINE const Entry& OperatorBook::at(std::string_view name) const {
  for (const Entry& entry : entries_)
    if (entry.name == name) return entry;
  fail(error_id::operator_unknown, "Between", "operator", std::string(name),
       "one with samples and a reference");
}

SOMA_INLINE Attributes OperatorBook::of(std::string_view name, std::size_t sample) const {
  const std::vector<Sample>& samples = at(name).samples.samples;
  return samples[(std::min)(sample, samples.size() - 1)].attributes;
}

// ---- composed functions: one dimension is their setting

SOMA_INLINE std::size_t dimension_in(const Attributes& attributes) {
  return attributes.as<DimensionSetting>().dimension;
}

struct Lines {  // the elements of a tensor along one dimension
  std::size_t outer = 1, size = 1, inner = 1;
  Lines(const Shape& shape, std::size_t dimension) {
    for (std::size_t d = 0; d < shape.rank(); ++d)
      (d < dimension ? outer : d == dimension ? size : inner) *= shape[d];
  }
  std::size_t at(std::size_t o, std::size_t i, std::size_t n) const {
    return (o * size + i) * inner + n;
  }
};

SOMA_INLINE std::vector<ReferenceTensor> same_reference(
    const Sample&, const std::vector<ReferenceTensor>& inputs) {
  return {inputs[0]};
}

template <bool logarithm>
std::vector<ReferenceTensor> softmax_over_reference(const Sample& sample,
                                                    const std::vector<ReferenceTensor>& inputs) {
  ReferenceTensor y = inputs[0];
  const Lines lines(y.shape, dimension_in(sample.attributes));
  for (std::size_t o = 0; o < lines.outer; ++o)
    for (std::size_t n = 0; n < lines.inner; ++n) {
      double sum = 0;
      for (std::size_t i = 0; i < lines.size; ++i) sum += std::exp(y.values[lines.at(o, i, n)]);
      for (std::size_t i = 0; i < lines.size; ++i) {
        double& value = y.values[lines.at(o, i, n)];
        value = logarithm ? value - std::log(sum) : std::exp(value) / sum;
      }
    }
  return {y};
}

SOMA_INLINE std::vector<ReferenceTensor> index_select_reference(
    const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
  const std::size_t dimension = dimension_in(sample.attributes);
  const Lines lines(inputs[0].shape, dimension);
  ReferenceTensor y{inputs[0].shape.with(dimension, inputs[1].values.size()), {}};
  for (std::size_t o = 0; o < lines.outer; ++o)
    for (const double index : inputs[1].values)
      for (std::size_t n = 0; n < lines.inner; ++n)
        y.values.push_back(inputs[0].values[lines.at(o, static_cast<std::size_t>(index), n)]);
  return {y};
}

template <bool smallest>
std::vector<ReferenceTensor> extreme_reference(const Sample& sample,
                                               const std::vector<ReferenceTensor>& inputs) {
  const std::size_t dimension = dimension_in(sample.attributes);
  const Lines lines(inputs[0].shape, dimension);
  ReferenceTensor y{inputs[0].shape.without(dimension), {}};
  for (std::size_t o = 0; o < lines.outer; ++o)
    for (std::size_t n = 0; n < lines.inner; ++n) {
      double best = inputs[0].values[lines.at(o, 0, n)];
      for (std::size_t i = 1; i < lines.size; ++i) {
        const double value = inputs[0].values[lines.at(o, i, n)];
        best = smallest ? (std::min)(best, value) : (std::max)(best, value);
      }
      y.values.push_back(best);
    }
  return {y};
}

SOMA_INLINE std::vector<ReferenceTensor> stack_reference(
    const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
  const std::size_t dimension = dimension_in(sample.attributes);
  const Shape& one = inputs[0].shape;
  std::vector<std::size_t> sizes(one.begin(), one.end());
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(dimension), inputs.size());
  ReferenceTensor y{Shape(sizes), {}};
  std::size_t outer = 1;
  for (std::size_t d = 0; d < dimension; ++d) outer *= one[d];
  const std::size_t length = outer == 0 ? 0 : one.elements() / outer;
  for (std::size_t o = 0; o < outer; ++o)
    for (const ReferenceTensor& input : inputs)
      for (std::size_t i = 0; i < length; ++i) y.values.push_back(input.values[o * length + i]);
  return {y};
}

SOMA_INLINE std::vector<ReferenceTensor> batch_mean_reference(
    const Sample&, const std::vector<ReferenceTensor>& inputs) {
  double total = 0;
  for (std::size_t i = 0; i < inputs[0].values.size(); ++i) {
    const double target = inputs[1].values[i];
    if (target > 0) total += target * (std::log(target) - inputs[0].values[i]);
  }
  return {{Shape{}, {total / static_cast<double>(inputs[0].shape[0])}}};
}

SOMA_INLINE std::vector<Entry> composed_functions() {
  using Inputs = std::span<const Var>;
  std::vector<Entry> entries;
  const auto add = [&](const char* name, auto* reference, auto* apply) {
    Entry entry{.name = name, .apply = apply};
    entry.samples.samples.push_back({.name = name, .inputs = {}, .attributes = DimensionSetting{}});
    entry.samples.reference = reference;
    entries.push_back(std::move(entry));
  };
  add(
      "tape::detach", &same_reference,
      +[](Tape& tape, Inputs inputs, const Attributes&) { return tape.detach(inputs[0]); });
  entries.back().differentiable = false;
  add(
      "tape::softmax", &softmax_over_reference<false>,
      +[](Tape& tape, Inputs inputs, const Attributes& attributes) {
        return softmax(tape, inputs[0], dimension_in(attributes));
      });
  add(
      "tape::log_softmax", &softmax_over_reference<true>,
      +[](Tape& tape, Inputs inputs, const Attributes& attributes) {
        return log_softmax(tape, inputs[0], dimension_in(attributes));
      });
  add(
      "tape::index_select", &index_select_reference,
      +[](Tape& tape, Inputs inputs, const Attributes& attributes) {
        return index_select(tape, inputs[0], dimension_in(attributes), inputs[1]);
      });
  add(
      "tape::max", &extreme_reference<false>,
      +[](Tape& tape, Inputs inputs, const Attributes& attributes) {
        return max(tape, inputs[0], dimension_in(attributes)).values;
      });
  add(
      "tape::min", &extreme_reference<true>,
      +[](Tape& tape, Inputs inputs, const Attributes& attributes) {
        return min(tape, inputs[0], dimension_in(attributes)).values;
      });
  add(
      "tape::stack", &stack_reference,
      +[](Tape& tape, Inputs inputs, const Attributes& attributes) {
        return stack(tape, inputs, dimension_in(attributes));
      });
  add(
      "tape::kl_div_batch_mean", &batch_mean_reference,
      +[](Tape& tape, Inputs inputs, const Attributes&) {
        return kl_div_batch_mean(tape, inputs[0], inputs[1]);
      });
  return entries;
}

}  // namespace SOMA_NAMESPACE::testing::detail
