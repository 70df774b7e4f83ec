#pragma once
// The functions of precision.hpp.

#include <soma/numeric/precision.hpp>

#include <soma/base/error.hpp>
#include <soma/numeric/quantizer.hpp>

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE Precision mixed_precision(std::string_view name, const FloatFormat& format) {
  Precision p;
  p.name = name;
  for (Quantizer* role : {&p.activations, &p.activation_gradients, &p.gemm_activations,
                          &p.gemm_weights, &p.gemm_gradients})
    role->format = format;
  return p;
}

SOMA_INLINE Precision fp8_precision(std::string_view name, const FloatFormat& forward,
                                    const FloatFormat& gradients, const Scaling& scaling) {
  Precision p = mixed_precision(name, formats::bf16);
  p.gemm_activations = p.gemm_weights = {.format = forward, .scaling = scaling};
  p.gemm_gradients = {.format = gradients, .scaling = scaling};
  return p;
}

SOMA_INLINE Precision mx_precision(std::string_view name, const FloatFormat& format,
                                   ScaleRule rule) {
  return fp8_precision(name, format, format,
                       {.policy = ScalePolicy::current,
                        .granularity = Granularity::group_32,
                        .format = ScaleFormat::mx,
                        .rule = rule});
}

SOMA_INLINE Precision all_bf16(std::string_view name, const Rounding& rounding) {
  Precision p = mixed_precision(name, formats::bf16);
  p.weights = p.moments = {.format = formats::bf16, .rounding = rounding};
  p.weight_gradients.format = formats::bf16;
  return p;
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE Precision Precision::fp32() { return {}; }

SOMA_INLINE Precision Precision::tf32() {
  Precision p;
  p.name = "tf32";
  p.gemm_activations.format = p.gemm_weights.format = p.gemm_gradients.format = formats::tf32;
  return p;
}

SOMA_INLINE Precision Precision::bf16() { return detail::mixed_precision("bf16", formats::bf16); }

SOMA_INLINE Precision Precision::bf16_sr() {
  return detail::all_bf16("bf16_sr", Rounding::stochastic);
}

SOMA_INLINE Precision Precision::bf16_nearest() { return detail::all_bf16("bf16_nearest", {}); }

SOMA_INLINE Precision Precision::fp16() {
  Precision p = detail::mixed_precision("fp16", formats::fp16);
  p.loss_scaling = true;
  return p;
}

SOMA_INLINE Precision Precision::fp8_delayed() {
  return detail::fp8_precision("fp8_delayed", formats::fp8_e4m3fn, formats::fp8_e5m2,
                               {.policy = ScalePolicy::delayed});
}

SOMA_INLINE Precision Precision::fp8_current() {
  return detail::fp8_precision("fp8_current", formats::fp8_e4m3fn, formats::fp8_e5m2,
                               {.policy = ScalePolicy::current});
}

SOMA_INLINE Precision Precision::fp8_rowwise() {
  return detail::fp8_precision("fp8_rowwise", formats::fp8_e4m3fn, formats::fp8_e4m3fn,
                               {.policy = ScalePolicy::current,
                                .granularity = Granularity::row,
                                .format = ScaleFormat::power_of_two});
}

SOMA_INLINE Precision Precision::fp8_block() {
  Precision p = detail::fp8_precision("fp8_block", formats::fp8_e4m3fn, formats::fp8_e4m3fn,
                                      {.policy = ScalePolicy::current,
                                       .granularity = Granularity::block_1x128,
                                       .format = ScaleFormat::power_of_two});
  p.gemm_weights.scaling.granularity = Granularity::block_128x128;
  return p;
}

SOMA_INLINE Precision Precision::mxfp8() {
  return detail::mx_precision("mxfp8", formats::fp8_e4m3fn);
}

SOMA_INLINE Precision Precision::mxfp8_up() {
  return detail::mx_precision("mxfp8_up", formats::fp8_e4m3fn, ScaleRule::up);
}

SOMA_INLINE Precision Precision::mxfp8_trn3() {
  return detail::mx_precision("mxfp8_trn3", formats::fp8_e4m3fn, ScaleRule::trn3);
}

SOMA_INLINE Precision Precision::mxfp6() {
  return detail::mx_precision("mxfp6", formats::fp6_e3m2);
}

SOMA_INLINE Precision Precision::mxfp4() {
  return detail::mx_precision("mxfp4", formats::fp4_e2m1);
}

SOMA_INLINE Precision Precision::nvfp4() {
  return detail::fp8_precision("nvfp4", formats::fp4_e2m1, formats::fp4_e2m1,
                               {.policy = ScalePolicy::current,
                                .granularity = Granularity::group_16,
                                .format = ScaleFormat::e4m3});
}

SOMA_INLINE Precision Precision::cfp8() {
  return detail::fp8_precision(
      "cfp8", formats::fp8_e4m3, formats::fp8_e5m2,
      {.policy = ScalePolicy::current, .format = ScaleFormat::power_of_two});
}

SOMA_INLINE Precision Precision::cfp8(int activation_bias, int weight_bias, int gradient_bias) {
  Precision p = detail::fp8_precision("cfp8_fixed", formats::fp8_e4m3, formats::fp8_e5m2, {});
  p.gemm_activations.format.bias = activation_bias;
  p.gemm_weights.format.bias = weight_bias;
  p.gemm_gradients.format.bias = gradient_bias;
  for (Quantizer* role : {&p.gemm_activations, &p.gemm_weights, &p.gemm_gradients})
    role->format.overflow = Overflow::saturate;
  return p;
}

SOMA_INLINE std::array<Precision, 17> precision_presets() {
  return {Precision::fp32(),        Precision::tf32(),         Precision::bf16(),
          Precision::bf16_sr(),     Precision::bf16_nearest(), Precision::fp16(),
          Precision::fp8_delayed(), Precision::fp8_current(),  Precision::fp8_rowwise(),
          Precision::fp8_block(),   Precision::mxfp8(),        Precision::mxfp8_up(),
          Precision::mxfp8_trn3(),  Precision::mxfp6(),        Precision::mxfp4(),
          Precision::nvfp4(),       Precision::cfp8()};
}

SOMA_INLINE Precision Precision::named(std::string_view name) {
  std::string wanted = "one of";
  for (Precision& preset : precision_presets()) {
    if (preset.name == name) return std::move(preset);
    wanted.append(wanted == "one of" ? " " : ", ").append(preset.name);
  }
  fail(error_id::train_precision, "Precision", "name", soma::quoted(name), wanted);
}

}  // namespace SOMA_NAMESPACE
