#pragma once
// Precision: the number formats of a training run. Each role (weights, activations, operands of
// matrix products ...) has a format, a rounding and a scale of its own; the usual recipes are
// presets. docs/precision.md compares them.

#include <soma/base/error.hpp>
#include <soma/numeric/quantizer.hpp>

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace soma {

struct Precision {
  std::string name = "fp32";

  // Storage formats: formats that tensors have, without a scale. They apply to matrices; biases,
  // the parameters of norms, their gradients and moments stay fp32.
  Quantizer weights{}, activations{}, activation_gradients{}, weight_gradients{}, moments{};

  // Operand formats of linear layers: each operand is converted as it is read; fp32: read as
  // stored. Groups that share a scale lie along the sum. Along tokens, groups start anew at each
  // shard.
  Quantizer gemm_activations{}, gemm_weights{}, gemm_gradients{};
  Accumulation accumulation{};

  Quantizer reduction{};      // gradients as ranks exchange them
  bool narrow_edges = false;  // the first and last layers read converted operands too
  bool loss_scaling = false;  // dynamic (optim/loss_scaler.hpp)

  friend bool operator==(const Precision&, const Precision&) = default;

  // Everything fp32.
  static Precision fp32();
  // Products read tf32; everything is stored in fp32.
  static Precision tf32();
  // fp32 weights and moments; activations and operands of products are bf16.
  static Precision bf16();
  // bf16 everywhere, without a wider copy: small updates survive by stochastic rounding.
  static Precision bf16_sr();
  // The same rounded to nearest: shows why stochastic rounding is needed.
  static Precision bf16_nearest();
  // fp32 weights and moments, fp16 activations, dynamic loss scaling ("Mixed Precision Training",
  // arXiv 1710.03740).
  static Precision fp16();
  // The FP8 recipes: as bf16, but products of all layers except the first and last read 8 bits. One
  // fp32 scale for each tensor, e4m3fn forward and e5m2 gradients ("FP8 Formats for Deep Learning",
  // arXiv 2209.05433): from the amax of the last 16 steps, or from the tensor's own.
  static Precision fp8_delayed();
  static Precision fp8_current();
  // e4m3fn with a power of two for each row along the sum.
  static Precision fp8_rowwise();
  // e4m3fn with powers of two for 1 x 128 activations and gradients and 128 x 128 weights (the
  // blocks of arXiv 2412.19437).
  static Precision fp8_block();
  // OCP Microscaling 1.0: e4m3fn in groups of 32 with an e8m0 exponent.
  static Precision mxfp8();
  // The accelerator's cFP8, e4m3 forward and e5m2 gradients, with a bias for each tensor: a power
  // of two from its amax.
  static Precision cfp8();
  // The same with chosen biases and without a scale.
  static Precision cfp8(int activation_bias, int weight_bias, int gradient_bias);

  // The preset with this name. Error train.precision lists the names.
  static Precision named(std::string_view name);
};

// Calls each(name, quantizer) for all roles, under the names that files and messages use.
template <class AnyPrecision, class Each>
void for_each_role(AnyPrecision& precision, const Each& each) {
  each("weights", precision.weights);
  each("activations", precision.activations);
  each("activation_gradients", precision.activation_gradients);
  each("weight_gradients", precision.weight_gradients);
  each("moments", precision.moments);
  each("gemm_activations", precision.gemm_activations);
  each("gemm_weights", precision.gemm_weights);
  each("gemm_gradients", precision.gemm_gradients);
  each("reduction", precision.reduction);
}

namespace detail {

// The storage of recipes whose products read narrower numbers than those that are stored.
inline Precision mixed_precision(std::string_view name, const FloatFormat& format) {
  Precision p;
  p.name = name;
  for (Quantizer* role : {&p.activations, &p.activation_gradients, &p.gemm_activations,
                          &p.gemm_weights, &p.gemm_gradients})
    role->format = format;
  return p;
}

inline Precision fp8_precision(std::string_view name, const FloatFormat& forward,
                               const FloatFormat& gradients, const Scaling& scaling) {
  Precision p = mixed_precision(name, formats::bf16);
  p.gemm_activations = p.gemm_weights = {.format = forward, .scaling = scaling};
  p.gemm_gradients = {.format = gradients, .scaling = scaling};
  return p;
}

inline Precision all_bf16(std::string_view name, const Rounding& rounding) {
  Precision p = mixed_precision(name, formats::bf16);
  p.weights = p.moments = {.format = formats::bf16, .rounding = rounding};
  p.weight_gradients.format = formats::bf16;
  return p;
}

}  // namespace detail

inline Precision Precision::fp32() { return {}; }
inline Precision Precision::tf32() {
  Precision p;
  p.name = "tf32";
  p.gemm_activations.format = p.gemm_weights.format = p.gemm_gradients.format = formats::tf32;
  return p;
}
inline Precision Precision::bf16() { return detail::mixed_precision("bf16", formats::bf16); }
inline Precision Precision::bf16_sr() { return detail::all_bf16("bf16_sr", Rounding::stochastic); }
inline Precision Precision::bf16_nearest() { return detail::all_bf16("bf16_nearest", {}); }
inline Precision Precision::fp16() {
  Precision p = detail::mixed_precision("fp16", formats::fp16);
  p.loss_scaling = true;
  return p;
}
inline Precision Precision::fp8_delayed() {
  return detail::fp8_precision("fp8_delayed", formats::fp8_e4m3fn, formats::fp8_e5m2,
                               {.policy = ScalePolicy::delayed});
}
inline Precision Precision::fp8_current() {
  return detail::fp8_precision("fp8_current", formats::fp8_e4m3fn, formats::fp8_e5m2,
                               {.policy = ScalePolicy::current});
}
inline Precision Precision::fp8_rowwise() {
  return detail::fp8_precision("fp8_rowwise", formats::fp8_e4m3fn, formats::fp8_e4m3fn,
                               {.policy = ScalePolicy::current,
                                .granularity = Granularity::row,
                                .format = ScaleFormat::power_of_two});
}
inline Precision Precision::fp8_block() {
  Precision p = detail::fp8_precision("fp8_block", formats::fp8_e4m3fn, formats::fp8_e4m3fn,
                                      {.policy = ScalePolicy::current,
                                       .granularity = Granularity::block_1x128,
                                       .format = ScaleFormat::power_of_two});
  p.gemm_weights.scaling.granularity = Granularity::block_128x128;
  return p;
}
inline Precision Precision::mxfp8() {
  return detail::fp8_precision("mxfp8", formats::fp8_e4m3fn, formats::fp8_e4m3fn,
                               {.policy = ScalePolicy::current,
                                .granularity = Granularity::group_32,
                                .format = ScaleFormat::mx});
}
inline Precision Precision::cfp8() {
  return detail::fp8_precision(
      "cfp8", formats::fp8_e4m3, formats::fp8_e5m2,
      {.policy = ScalePolicy::current, .format = ScaleFormat::power_of_two});
}
inline Precision Precision::cfp8(int activation_bias, int weight_bias, int gradient_bias) {
  Precision p = detail::fp8_precision("cfp8_fixed", formats::fp8_e4m3, formats::fp8_e5m2, {});
  p.gemm_activations.format.bias = activation_bias;
  p.gemm_weights.format.bias = weight_bias;
  p.gemm_gradients.format.bias = gradient_bias;
  for (Quantizer* role : {&p.gemm_activations, &p.gemm_weights, &p.gemm_gradients})
    role->format.overflow = Overflow::saturate;
  return p;
}

// The presets, in the order of the documentation.
inline std::array<Precision, 12> precision_presets() {
  return {Precision::fp32(),        Precision::tf32(),         Precision::bf16(),
          Precision::bf16_sr(),     Precision::bf16_nearest(), Precision::fp16(),
          Precision::fp8_delayed(), Precision::fp8_current(),  Precision::fp8_rowwise(),
          Precision::fp8_block(),   Precision::mxfp8(),        Precision::cfp8()};
}

inline Precision Precision::named(std::string_view name) {
  std::string wanted = "one of";
  for (Precision& preset : precision_presets()) {
    if (preset.name == name) return std::move(preset);
    wanted.append(wanted == "one of" ? " " : ", ").append(preset.name);
  }
  fail(error_id::train_precision, "Precision", "name", soma::quoted(name), wanted);
}

}  // namespace soma
