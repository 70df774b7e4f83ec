#pragma once
// quantized_linear: a linear layer whose three products (y = x W^T, dx = dy W, dW = dy^T x) read
// converted operands. Composed of quantize, linear and matmul; gradients pass conversions
// unchanged ("straight through", arXiv 1308.3432).

#include <soma/kernels/convert/atomic_maximum.hpp>
#include <soma/ops/product/inspect.hpp>
#include <soma/ops/product/linear.hpp>
#include <soma/ops/product/quantize.hpp>
#include <soma/ops/product/rotate.hpp>
#include <soma/ops/product_formats.hpp>
#include <soma/ops/views/cast.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

// An operand in the form that a product reads: stored numbers, which stand for `scale` times
// themselves.
struct ConvertedOperand {
  Tensor values;  // with OperandUse::codes: codes and scales, which expanded() reads
  float scale = 1;
  float amax = 0;  // for operands with delayed scales
};

// True if sums in the two directions need different conversions.
constexpr bool has_direction(const Quantizer& quantizer) {
  if (quantizer.rotation.size != 0) return true;
  return quantizer.scaling.policy != ScalePolicy::none && !is_square(quantizer.scaling.granularity);
}

// True if the two products that read the operand need different conversions.
constexpr bool is_converted_twice(const LinearOperand& operand) {
  return operand.second.has_value() || has_direction(operand.quantizer);
}

constexpr const Quantizer& quantizer_of(const LinearOperand& operand, bool second) {
  return second && operand.second ? *operand.second : operand.quantizer;
}

constexpr bool leaves_alone(const Quantizer& quantizer, DType stored) {
  if (quantizer.own.defined()) return false;
  return quantizer.format == formats::fp32 ||
         (quantizer.format == format_of(stored) && quantizer.scaling.policy == ScalePolicy::none);
}

// True if a cast gives the same result, for which devices have a program.
constexpr bool is_cast(const Quantizer& quantizer) {
  return quantizer.scaling.policy == ScalePolicy::none && !quantizer.own.defined() &&
         quantizer.rounding == Rounding::nearest_even && dtype_index(quantizer.format) >= 0;
}

// True if converted numbers are those of the accelerator's own MX products.
constexpr bool is_microscaled(const Quantizer& quantizer) {
  const Scaling& scaling = quantizer.scaling;
  return dtype_index(quantizer.format.with(Overflow::special)) ==
             static_cast<int>(DType::fp8_e4m3fn) &&
         !quantizer.own.defined() && scaling.policy == ScalePolicy::current &&
         scaling.granularity == Granularity::group_32 && scaling.format == ScaleFormat::mx &&
         scaling.rule == ScaleRule::trn3;
}

// The same as ops::quantize, but without amax, which is for scales only.
inline Outputs cast_operand(Context& context, const Quantizer& quantizer, const Tensor& x) {
  const CastSetting setting{.dtype = find_dtype(quantizer.format)};
  return {run(context, ops::cast, setting, {x})[0], Tensor::full(context, Shape{1, 1}, 1.0f)};
}

struct OperandUse {
  bool along_rows = false, parameter = false, training = false, record = false;
  bool codes = false;  // for what is kept; of a quantizer that has_codes()
  std::uint32_t step = 0;
  Draw signs{};  // for the product's rotation
  // The largest magnitude of the stored numbers in all ranks: -1 until a conversion asks for it.
  float* magnitude = nullptr;
};

inline ConvertedOperand convert_operand(Context& context, LinearOperand& operand,
                                        const GlobalMaximum& maximum, const Tensor& stored,
                                        const Sequences& sequences, const OperandUse& use) {
  QuantizeSetting setting{.quantizer = quantizer_of(operand, use.along_rows),
                          .along_rows = use.along_rows,
                          .parameter = use.parameter,
                          .codes = use.codes,
                          .draw = operand.draw};
  setting.draw.step = use.step;
  // Half-words are enough, and twice as fast as words.
  if (Rounding& rounding = setting.quantizer.rounding; rounding.mode == RoundingMode::stochastic &&
                                                       rounding.random_bits == 0 &&
                                                       has_codes(setting.quantizer))
    rounding.random_bits = 16;
  Tensor x = stored;
  if (const Rotation rotation = std::exchange(setting.quantizer.rotation, {}); rotation.size != 0) {
    Draw signs = use.signs;
    signs.step = use.step;
    x = rotated(context, stored, rotation, signs, use.along_rows, use.parameter, sequences);
  }
  if (leaves_alone(setting.quantizer, x.dtype())) return {x, 1};
  Scaling& scaling = setting.quantizer.scaling;
  const bool remembers = scaling.policy == ScalePolicy::delayed;
  if (remembers && operand.scale == 0) scaling.policy = ScalePolicy::current;
  setting.scale = operand.scale;
  const bool global = maximum.run != nullptr && !use.parameter;
  if (global && scaling.policy == ScalePolicy::current &&
      scaling.granularity == Granularity::tensor) {
    float amax = largest_magnitude(context, x, has_nan_scales(scaling, setting.quantizer.format));
    maximum.run(maximum.self, {&amax, 1});
    setting.scale = scale_for(scaling, setting.quantizer.format, amax);
    scaling.policy = ScalePolicy::delayed;
  }
  const bool two_scales =
      scaling.policy == ScalePolicy::current && scaling.format == ScaleFormat::e4m3;
  if (two_scales) {
    float* const known = x.identity() == stored.identity() ? use.magnitude : nullptr;
    float amax = known != nullptr ? *known : -1;
    if (amax < 0) {
      amax = largest_magnitude(context, x, true);
      if (global) maximum.run(maximum.self, {&amax, 1});
      if (known != nullptr) *known = amax;
    }
    setting.scale = tensor_scale_for(setting.quantizer.format, amax);
  }
  const Outputs made = is_cast(setting.quantizer)
                           ? cast_operand(context, setting.quantizer, x)
                           : run(context, ops::quantize, setting, {x}, sequences);
  const float amax = remembers ? made[2].data<float>()[0] : 0;
  if (use.training) operand.amax = (std::max)(operand.amax, amax);
  if (operand.statistics != nullptr && use.training && use.record &&
      !(use.along_rows && !use.parameter)) {
    setting.codes = false;
    *operand.statistics += inspect_conversion(
        context, x, use.codes ? run(context, ops::quantize, setting, {x}, sequences) : made,
        setting);
  }
  const bool codes = quantized_code_dtype(setting.quantizer) >= 0;
  return {made[0], codes ? made[1].data<float>()[0] : two_scales ? setting.scale : 1, amax};
}

// The numbers of an operand that was converted to codes.
inline Tensor expanded_operand(Context& context, const LinearOperand& operand, const Tensor& coded,
                               const Shape& shape, const Sequences& sequences, bool along_rows,
                               bool parameter) {
  QuantizeSetting setting{.quantizer = quantizer_of(operand, along_rows),
                          .along_rows = along_rows,
                          .parameter = parameter};
  setting.quantizer.rotation = {};
  return expanded(context, setting, coded, shape, quantized_dtype(setting.quantizer), sequences);
}

// Training keeps codes, which are expanded for each product. Evaluations, which read the forward
// operand many times, keep numbers.
inline ConvertedOperand converted_weight(Context& context, LinearFormats& formats,
                                         const Tensor& weight, bool along_rows,
                                         const QuantizedLinearSetting& setting) {
  const Quantizer& quantizer = quantizer_of(formats.weight, along_rows);
  if (quantizer.rotation.size == 0 && leaves_alone(quantizer, weight.dtype())) return {weight, 1};
  LinearFormats::Converted& kept =
      along_rows && is_converted_twice(formats.weight) ? formats.backward : formats.forward;
  const std::uint32_t step = quantizer.rotation.signs == Rotation::Signs::drawn ? setting.step : 0;
  const bool fresh = kept.source == weight.identity() &&
                     kept.wanted_scale == formats.weight.scale && kept.step == step;
  const bool coded = setting.training && has_codes(quantizer);
  if (!fresh) {
    kept = {};
    const ConvertedOperand made =
        convert_operand(context, formats.weight, formats.maximum, weight, {},
                        {.along_rows = along_rows,
                         .parameter = true,
                         .training = setting.training,
                         .record = setting.record,
                         .codes = coded,
                         .step = setting.step,
                         .signs = formats.signs[along_rows ? 1 : 0]});
    kept = {weight.identity(), formats.weight.scale, step, made.values, coded, made.scale,
            made.amax};
  } else if (setting.training) {
    // An evaluation may have made the conversion: the step still counts its amax.
    formats.weight.amax = (std::max)(formats.weight.amax, kept.amax);
  }
  if (!kept.coded) return {kept.values, kept.scale};
  const Tensor values =
      expanded_operand(context, formats.weight, kept.values, weight.shape(), {}, along_rows, true);
  if (!setting.training) {
    kept.values = values;
    kept.coded = false;
  }
  return {values, kept.scale};
}

// True if x is kept for the gradient of the weight as codes and scales.
constexpr bool keeps_codes(const LinearOperand& x) {
  return is_converted_twice(x) && has_codes(quantizer_of(x, true));
}

// Inputs as for linear. Outputs: y, the input of the activation, x for the gradient of the weight,
// and its scale.
inline void quantized_linear_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<QuantizedLinearSetting>();
  LinearFormats& formats = *setting.formats;
  Context& context = call.context;
  const Tensor &x = call.inputs[0], &weight = call.inputs[1];
  float magnitude = -1;
  const auto convert = [&](bool along_rows) {
    return convert_operand(context, formats.x, formats.maximum, x, call.sequences,
                           {.along_rows = along_rows,
                            .training = setting.training,
                            .record = setting.record,
                            .codes = along_rows && keeps_codes(formats.x),
                            .step = setting.step,
                            .signs = formats.signs[along_rows ? 2 : 0],
                            .magnitude = &magnitude});
  };
  ConvertedOperand input = convert(false);
  ConvertedOperand kernel = converted_weight(context, formats, weight, false, setting);
  const Outputs made = run(
      context, ops::linear,
      LinearSetting{.activation = setting.activation,
                    .dropout = setting.dropout,
                    .x_scale = input.scale,
                    .weight_scale = kernel.scale,
                    .output = x.dtype(),
                    .microscaled = is_microscaled(quantizer_of(formats.x, false)) &&
                                   is_microscaled(quantizer_of(formats.weight, false)),
                    .accumulation = formats.accumulation},
      {input.values, kernel.values, input_or_none(call.inputs, 2), input_or_none(call.inputs, 3)},
      call.sequences);
  ConvertedOperand kept{Tensor::empty(context, Shape{0}), 1};
  kernel = {};
  if (setting.record && is_converted_twice(formats.x)) {
    input = {};  // before memory for the other conversion is taken
    kept = convert(true);
  } else if (setting.record) {
    kept = input;
  }
  call.outputs[0] = made[0];
  call.outputs[1] = made[1];
  call.outputs[2] = kept.values;
  call.outputs[3] = Tensor::scalar(context, kept.scale);
}

inline void quantized_linear_gradient(const GradientCall& call) {
  const auto& setting = call.attributes.as<QuantizedLinearSetting>();
  LinearFormats& formats = *setting.formats;
  Context& context = call.context;
  const Tensor d = product_gradient(call, setting.activation, setting.dropout);
  const Tensor rows = as_rows(context, d);
  float magnitude = -1;
  const auto convert = [&](bool along_rows) {
    return convert_operand(context, formats.gradient, formats.maximum, rows, call.sequences,
                           {.along_rows = along_rows,
                            .training = setting.training,
                            .record = true,
                            .step = setting.step,
                            .signs = formats.signs[along_rows ? 2 : 1],
                            .magnitude = &magnitude});
  };
  ConvertedOperand dy;
  if (is_wanted(call, 0) || !is_converted_twice(formats.gradient)) dy = convert(false);
  if (is_wanted(call, 0)) {
    const ConvertedOperand kernel =
        converted_weight(context, formats, call.inputs[1], true, setting);
    call.input_gradients[0].values =
        run(context, ops::matmul,
            MatmulSetting{.microscaled = is_microscaled(quantizer_of(formats.gradient, false)) &&
                                         is_microscaled(quantizer_of(formats.weight, true)),
                          .a = {.scale = dy.scale},
                          .b = {.scale = kernel.scale},
                          .output = call.sum_type(0).value_or(
                              formats.input_gradient.value_or(call.inputs[0].dtype())),
                          .accumulation = formats.accumulation},
            {dy.values, kernel.values}, call.sequences)[0]
            .reshape(call.inputs[0].shape());
  }
  if (is_wanted(call, 1)) {
    if (is_converted_twice(formats.gradient)) dy = convert(true);
    Gradient& gradient = call.input_gradients[1];
    const Shape& shape = call.inputs[0].shape();
    const Tensor x = keeps_codes(formats.x) ? expanded_operand(context, formats.x, call.outputs[2],
                                                               Shape{shape.rows(), shape.columns()},
                                                               call.sequences, true, false)
                                            : as_rows(context, call.outputs[2]);
    gradient.values = run(context, ops::matmul,
                          MatmulSetting{.transpose_a = true,
                                        .over_rows = true,
                                        .a = {.scale = dy.scale},
                                        .b = {.scale = call.outputs[3].data<float>()[0]},
                                        .output = call.sum_type(1).value_or(DType::fp32),
                                        .factor = formats.part ? &gradient.factor : nullptr,
                                        .accumulation = formats.accumulation},
                          {dy.values, x}, call.sequences)[0];
  }
  addend_gradients(call, rows);
}

// The operand x is kept as it was converted, or as its codes, in the outputs 2 and 3.
inline KeptTensors quantized_linear_keeps(std::uint32_t wanted) {
  return {.inputs = (wanted & 1) << 1,
          .outputs = linear_keeps(wanted).outputs | ((wanted & 2) != 0 ? 12u : 0u)};
}

}  // namespace detail

namespace ops {

inline constexpr Operator quantized_linear{.name = "quantized_linear",
                                           .min_inputs = 2,
                                           .max_inputs = 4,
                                           .outputs = 4,
                                           .keeps_inputs = 2,
                                           .keeps_outputs = 14,
                                           .keeps_for = &detail::quantized_linear_keeps,
                                           .allocates_outputs = true,
                                           .composite = true,
                                           .batch_inputs = 1 | 8,
                                           .host = &detail::quantized_linear_host,
                                           .gradient = &detail::quantized_linear_gradient,
                                           .wide_gradients = true,
                                           .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
