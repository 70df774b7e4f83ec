#pragma once
// The functions of settings.hpp.

#include <soma/ops/settings.hpp>

#include <soma/kernels/element/args.hpp>
#include <soma/kernels/loss/args.hpp>
#include <soma/kernels/operand.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/numeric/quantizer.hpp>
#include <soma/numeric/rounding.hpp>
#include <soma/ops/fields.hpp>
#include <soma/tensor/dtype.hpp>
#include <soma/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace SOMA_NAMESPACE {

SOMA_INLINE void fields(FieldVisitor& visitor, DropoutSetting& setting) {
  visitor.key("probability", setting.probability, dropout_range);
  visitor.key("draw", setting.draw);
}

SOMA_INLINE void fields(FieldVisitor& visitor, LinearSetting& setting) {
  visitor.key("activation", setting.activation);
  visitor.key("dropout", setting.dropout);
  visitor.key("x_scale", setting.x_scale, any_number);
  visitor.key("weight_scale", setting.weight_scale, any_number);
  visitor.key("output", setting.output);
  visitor.key("accumulation", setting.accumulation);
  // Listed where there is one, so that keys without it stay as they are.
  if (setting.microscaled) visitor.key("microscaled", setting.microscaled);
  if (setting.packed != nullptr) visitor.pointer("packed", setting.packed);
}

SOMA_INLINE void fields(FieldVisitor& visitor, QuantizedLinearSetting& setting) {
  visitor.key("activation", setting.activation);
  visitor.key("dropout", setting.dropout);
  visitor.pointer("formats", setting.formats);
  visitor.run_time("step", setting.step);
  visitor.key("training", setting.training);
  visitor.key("record", setting.record);
}

SOMA_INLINE void fields(FieldVisitor& visitor, Quantization& setting) {
  visitor.key("scale", setting.scale, any_number);
  visitor.key("zero_point", setting.zero_point);
}

SOMA_INLINE void fields(FieldVisitor& visitor, MatmulSetting& setting) {
  visitor.key("transpose_a", setting.transpose_a);
  visitor.key("transpose_b", setting.transpose_b);
  visitor.key("over_rows", setting.over_rows);
  visitor.key("a", setting.a);
  visitor.key("b", setting.b);
  visitor.key("output", setting.output);
  visitor.pointer("factor", setting.factor);
  visitor.key("accumulation", setting.accumulation);
  if (setting.microscaled) visitor.key("microscaled", setting.microscaled);
}

SOMA_INLINE void fields(FieldVisitor& visitor, AttentionSetting& setting) {
  visitor.key("heads", setting.heads);
  visitor.key("dropout", setting.dropout);
  visitor.key("first_rows", setting.first_rows);
  visitor.key("causal", setting.causal);
  // Listed where they are given, so that keys without them stay as they are.
  if (setting.key_value_heads != 0) visitor.key("key_value_heads", setting.key_value_heads);
  if (setting.head_width != 0) visitor.key("head_width", setting.head_width);
}

SOMA_INLINE void fields(FieldVisitor& visitor, EmbeddingSetting& setting) {
  visitor.key("dense_gradient", setting.dense_gradient);
  visitor.key("padding", setting.padding, NumberRange::at_least(-1));
}

SOMA_INLINE void fields(FieldVisitor& visitor, NormSetting& setting) {
  visitor.key("epsilon", setting.epsilon, epsilon_range);
  visitor.key("rms", setting.rms);
}

SOMA_INLINE void fields(FieldVisitor& visitor, SoftmaxSetting& setting) {
  visitor.key("logarithm", setting.logarithm);
}

SOMA_INLINE void fields(FieldVisitor& visitor, ReduceSetting& setting) {
  visitor.key("dimensions", setting.dimensions);
  visitor.key("mean", setting.mean);
}

SOMA_INLINE void fields(FieldVisitor& visitor, CrossEntropySetting& setting) {
  visitor.key("reduction", setting.reduction);
  visitor.key("label_smoothing", setting.label_smoothing, NumberRange::within(0, 1));
  visitor.key("ignore_index", setting.ignore_index);
  visitor.run_time("denominator", setting.denominator, NumberRange::at_least(0));
}

SOMA_INLINE void fields(FieldVisitor& visitor, ElementLossSetting& setting) {
  visitor.key("loss", setting.loss);
  visitor.key("reduction", setting.reduction);
  visitor.run_time("denominator", setting.denominator, NumberRange::at_least(0));
  visitor.key("parameter", setting.parameter, finite_number);
}

SOMA_INLINE void fields(FieldVisitor& visitor, ConvolutionSetting& setting) {
  visitor.key("stride_height", setting.stride_height, NumberRange::at_least(1));
  visitor.key("stride_width", setting.stride_width, NumberRange::at_least(1));
  visitor.key("pad_height", setting.pad_height);
  visitor.key("pad_width", setting.pad_width);
  visitor.key("pad_height_behind", setting.pad_height_behind);
  visitor.key("pad_width_behind", setting.pad_width_behind);
  visitor.key("dilation_height", setting.dilation_height, NumberRange::at_least(1));
  visitor.key("dilation_width", setting.dilation_width, NumberRange::at_least(1));
  visitor.key("groups", setting.groups, NumberRange::at_least(1));
}

SOMA_INLINE void fields(FieldVisitor& visitor, MaxPoolSetting& setting) {
  visitor.key("kernel_height", setting.kernel_height);
  visitor.key("kernel_width", setting.kernel_width);
  visitor.key("steps", setting.steps);
}

SOMA_INLINE void fields(FieldVisitor& visitor, ReshapeSetting& setting) {
  visitor.key("shape", setting.shape);
}

SOMA_INLINE void fields(FieldVisitor& visitor, TransposeSetting& setting) {
  visitor.key("a", setting.a);
  visitor.key("b", setting.b);
}

SOMA_INLINE void fields(FieldVisitor& visitor, SliceSetting& setting) {
  visitor.key("dimension", setting.dimension);
  visitor.key("begin", setting.begin);
  visitor.key("end", setting.end);
  visitor.key("step", setting.step);
}

SOMA_INLINE void fields(FieldVisitor& visitor, CastSetting& setting) {
  visitor.key("dtype", setting.dtype);
  visitor.key("rounding", setting.rounding);
  visitor.key("draw", setting.draw);
}

SOMA_INLINE void fields(FieldVisitor& visitor, QuantizeSetting& setting) {
  visitor.key("quantizer", setting.quantizer);
  visitor.key("along_rows", setting.along_rows);
  visitor.key("parameter", setting.parameter);
  visitor.key("codes", setting.codes);
  visitor.run_time("scale", setting.scale, any_number);
  visitor.key("draw", setting.draw);
}

SOMA_INLINE void fields(FieldVisitor& visitor, SgdSetting& setting) {
  visitor.run_time("rate", setting.rate, finite_number);
  visitor.key("momentum", setting.momentum, NumberRange::at_least(0));
  visitor.key("dampening", setting.dampening, finite_number);
  visitor.key("weight_decay", setting.weight_decay, NumberRange::at_least(0));
  visitor.factor("gradient_factor", setting.gradient_factor);
  visitor.key("nesterov", setting.nesterov);
  visitor.key("first_step", setting.first_step);
  visitor.key("first_row", setting.first_row);
  visitor.key("weight", setting.weight);
  visitor.key("state", setting.state);
  visitor.run_time("seed", setting.seed);
  visitor.key("stream", setting.stream);
  visitor.run_time("step", setting.step);
}

SOMA_INLINE void fields(FieldVisitor& visitor, AdamSetting& setting) {
  visitor.key("beta1", setting.beta1, NumberRange::within(0, 1));
  visitor.key("beta2", setting.beta2, NumberRange::within(0, 1));
  visitor.key("epsilon", setting.epsilon, epsilon_range);
  visitor.key("one_minus_beta1", setting.one_minus_beta1, NumberRange::within(0, 1));
  visitor.key("one_minus_beta2", setting.one_minus_beta2, NumberRange::within(0, 1));
  visitor.run_time("decay_factor", setting.decay_factor, finite_number);
  visitor.run_time("step_size", setting.step_size, finite_number);
  visitor.run_time("inverse_root_correction2", setting.inverse_root_correction2, finite_number);
  visitor.factor("gradient_factor", setting.gradient_factor);
  visitor.key("coupled_decay", setting.coupled_decay, NumberRange::at_least(0));
  visitor.key("first_row", setting.first_row);
  visitor.key("weight", setting.weight);
  visitor.key("state", setting.state);
  visitor.run_time("seed", setting.seed);
  visitor.key("stream", setting.stream);
  visitor.run_time("step", setting.step);
}

SOMA_INLINE void fields(FieldVisitor& visitor, LambSetting& setting) {
  visitor.run_time("rate", setting.rate, finite_number);
  visitor.key("beta1", setting.beta1, NumberRange::within(0, 1));
  visitor.key("beta2", setting.beta2, NumberRange::within(0, 1));
  visitor.key("epsilon", setting.epsilon, epsilon_range);
  visitor.key("weight_decay", setting.weight_decay, NumberRange::at_least(0));
  visitor.key("one_minus_beta1", setting.one_minus_beta1, NumberRange::within(0, 1));
  visitor.key("one_minus_beta2", setting.one_minus_beta2, NumberRange::within(0, 1));
  visitor.run_time("inverse_correction1", setting.inverse_correction1, finite_number);
  visitor.run_time("inverse_root_correction2", setting.inverse_root_correction2, finite_number);
  visitor.factor("gradient_factor", setting.gradient_factor);
  visitor.key("weight", setting.weight);
  visitor.key("state", setting.state);
  visitor.run_time("seed", setting.seed);
  visitor.key("stream", setting.stream);
  visitor.run_time("step", setting.step);
}

}  // namespace SOMA_NAMESPACE
