#pragma once
// The functions of layers.hpp.

#include <soma/nn/layers.hpp>

#include <soma/autograd/functions.hpp>
#include <soma/nn/initial.hpp>
#include <soma/nn/product_site.hpp>
#include <soma/nn/scope.hpp>
#include <soma/ops/fields.hpp>

#include <cstddef>
#include <optional>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE void fields(FieldVisitor& visitor, LinearOptions& options) {
  visitor.option("standard_deviation", options.standard_deviation, NumberRange::at_least(0));
}

SOMA_INLINE Linear::Linear(const Scope& scope, std::size_t in, std::size_t out,
                           const LinearOptions& options)
    : site(scope, options.edge) {
  check_ranges("Linear", options);
  const Draw draw = scope.draw("weight");
  const float bound = detail::root_of_ratio(1, in);  // lecun_uniform
  weight = initial_parameter(
      scope, Shape{out, in},
      {options.standard_deviation ? Initial::normal(*options.standard_deviation, draw)
                                  : Initial::uniform(bound, draw)});
  if (options.bias)
    bias = initial_parameter(
        scope, Shape{out},
        {options.standard_deviation ? Initial::full(0)
                                    : Initial::uniform(bound, scope.draw("bias"))});
}

SOMA_INLINE Var Linear::operator()(Tape& tape, const Var& x, const LinearSetting& setting,
                                   const Var& residual) const {
  const auto within = tape.within(site.path());
  return linear_at(site, tape, x, weight, bias, setting, residual);
}

SOMA_INLINE void Linear::collect(Collector& collector) const {
  collector.product("", weight, site);
  collector.add("bias", bias, ParameterRole::bias);
}

SOMA_INLINE void fields(FieldVisitor& visitor, EmbeddingOptions& options) {
  visitor.option("standard_deviation", options.standard_deviation, NumberRange::at_least(0));
  visitor.option("padding", options.padding, NumberRange::at_least(0));
}

SOMA_INLINE Embedding::Embedding(const Scope& scope, std::size_t rows, std::size_t width,
                                 float standard_deviation)
    : Embedding(scope, rows, width, EmbeddingOptions{.standard_deviation = standard_deviation}) {}

SOMA_INLINE Embedding::Embedding(const Scope& scope, std::size_t rows, std::size_t width,
                                 const EmbeddingOptions& options)
    : path(scope) {
  check_ranges("Embedding", options);
  const auto random = [&](std::size_t count) {
    return Initial::normal(options.standard_deviation, scope.draw("weight"), count);
  };
  const Shape shape{rows, width};
  if (!options.padding) {
    weight = initial_parameter(scope, shape, {random(to_end)});
    return;
  }
  const std::size_t row = *options.padding;
  if (row >= rows)
    fail(error_id::operator_value, "Embedding", "padding", std::to_string(row),
         "a row, below " + std::to_string(rows));
  Initial zeros = Initial::full(0), behind = random(rows - row - 1);
  zeros.rows = 1;
  behind.draw = scope.draw("weight behind the padding");
  weight = initial_parameter(scope, shape, {random(row), zeros, behind});
  weight.set_resting_row(row);
}

SOMA_INLINE Var Embedding::operator()(Tape& tape, const Var& ids) const {
  const auto within = tape.within(path.view());
  const std::size_t row = weight.resting_row();
  return embedding(tape, weight, ids,
                   {.padding = row == to_end ? -1 : static_cast<std::int64_t>(row)});
}

SOMA_INLINE void Embedding::collect(Collector& collector) const {
  collector.add("weight", weight, ParameterRole::weight);
}

SOMA_INLINE LayerNorm::LayerNorm(const Scope& scope, std::size_t width, float norm_epsilon)
    : weight(initial_parameter(scope, Shape{width}, {Initial::full(1)})),
      bias(initial_parameter(scope, Shape{width}, {Initial::full(0)})),
      epsilon(norm_epsilon),
      path(scope) {
  check_range("LayerNorm", "epsilon", static_cast<double>(epsilon), epsilon_range);
}

SOMA_INLINE Var LayerNorm::operator()(Tape& tape, const Var& x) const {
  const auto within = tape.within(path.view());
  return layer_norm(tape, x, weight, bias, epsilon);
}

SOMA_INLINE void LayerNorm::collect(Collector& collector) const {
  collector.add("weight", weight, ParameterRole::scale);
  collector.add("bias", bias, ParameterRole::bias);
}

SOMA_INLINE Dropout::Dropout(const Scope& scope, float drop_probability)
    : probability(drop_probability), stream(scope.stream("dropout")) {
  check_range("Dropout", "probability", static_cast<double>(probability), dropout_range);
}

SOMA_INLINE Var Dropout::operator()(Tape& tape, const Var& x) const {
  return dropout(tape, x, probability, stream);
}

SOMA_INLINE DropoutSetting Dropout::setting(const Tape& tape) const {
  return dropout_setting(tape, probability, stream);
}

SOMA_INLINE Shape detail::convolution_weight(std::string_view layer, std::size_t in,
                                             std::size_t out, std::size_t height, std::size_t width,
                                             const ConvolutionSetting& setting) {
  if (in % setting.groups != 0 || out % setting.groups != 0)
    fail(error_id::operator_value, layer, "groups", std::to_string(setting.groups),
         "a divisor of " + std::to_string(in) + " and " + std::to_string(out) + " channels");
  return Shape{out, in / setting.groups, height, width};
}

SOMA_INLINE void detail::describe_reach(Record& record, const ConvolutionSetting& setting) {
  const auto set = [&](const char* name, std::uint32_t value, std::uint32_t usual) {
    if (value != usual) record.set(name, std::uint64_t{value});
  };
  set("pad_height_behind", setting.pad_height_behind, as_before);
  set("pad_width_behind", setting.pad_width_behind, as_before);
  set("dilation_height", setting.dilation_height, 1);
  set("dilation_width", setting.dilation_width, 1);
  set("groups", setting.groups, 1);
}

SOMA_INLINE void fields(FieldVisitor& visitor, Conv2dOptions& options) {
  visitor.option("setting", options.setting);
}

SOMA_INLINE Conv2d::Conv2d(const Scope& scope, std::size_t in, std::size_t out, std::size_t kernel,
                           const Conv2dOptions& options)
    : setting(options.setting), site(scope, options.edge) {
  check_ranges("Conv2d", options);
  const Shape shape = detail::convolution_weight("Conv2d", in, out, kernel, kernel, setting);
  const float bound = detail::root_of_ratio(1, fans(shape).in);  // lecun_uniform
  weight = initial_parameter(scope, shape, {Initial::uniform(bound, scope.draw("weight"))});
  if (options.bias)
    bias = initial_parameter(scope, Shape{out}, {Initial::uniform(bound, scope.draw("bias"))});
}

SOMA_INLINE void Conv2d::describe(Record& record) const { detail::describe_reach(record, setting); }

SOMA_INLINE Var Conv2d::operator()(Tape& tape, const Var& x) const {
  const auto within = tape.within(site.path());
  return convolution_at(site, tape, x, weight, bias, setting);
}

SOMA_INLINE void Conv2d::collect(Collector& collector) const {
  collector.add("weight", weight, ParameterRole::weight);
  collector.add("bias", bias, ParameterRole::bias);
}

}  // namespace SOMA_NAMESPACE::nn
