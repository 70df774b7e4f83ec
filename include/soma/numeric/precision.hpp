#pragma once
// Precision: the number formats of a training run. Each role (weights, activations, operands of
// matrix products ...) has a format, a rounding and a scale of its own; the usual recipes are
// presets. docs/precision.md compares them.

#include <soma/base/error.hpp>
#include <soma/numeric/quantizer.hpp>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

// The formats that one product reads instead of the gemm_ roles of a Precision.
struct ProductRoles {
  std::optional<Quantizer> activations{}, weights{}, gradients{};

  friend bool operator==(const ProductRoles&, const ProductRoles&) = default;
};

struct Precision {
  std::string name = "fp32";

  // Storage formats: formats that tensors have, without a scale. They apply to matrices; biases,
  // the parameters of norms, their gradients and moments stay fp32.
  Quantizer weights{}, activations{}, activation_gradients{}, weight_gradients{}, moments{};

  // Operand formats of linear layers and convolutions: each operand is converted as it is read;
  // fp32: read as stored. Groups that share a scale lie along the sum. Along tokens, groups start
  // anew at each shard. Convolutions have one scale for a tensor.
  Quantizer gemm_activations{}, gemm_weights{}, gemm_gradients{};
  Accumulation accumulation{};
  // The three products of a linear layer, where they read other formats than the gemm_ roles: y = x
  // W^T, dx = dy W and dW = dy^T x.
  ProductRoles forward{}, input_gradient{}, weight_gradient{};

  Quantizer reduction{};      // gradients as ranks exchange them
  bool narrow_edges = false;  // the first and last layers read converted operands too
  bool loss_scaling = false;  // dynamic (optim/loss_scaler.hpp)
  // Layers whose products read stored numbers, beside the edges: paths in the model, in which `*`
  // stands for any characters ("head", "encoder.*.output").
  std::vector<std::string> stored{};

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
  // OCP Microscaling 1.0: groups of 32 with an e8m0 exponent. e4m3fn with the rule `floor`, in
  // which large numbers saturate, `up` (arXiv 2506.08027) and `trn3`, the accelerator's; e3m2 and
  // e2m1 with `floor`.
  static Precision mxfp8();
  static Precision mxfp8_up();
  static Precision mxfp8_trn3();
  static Precision mxfp6();
  static Precision mxfp4();
  // e2m1 in groups of 16 with an e4m3 scale each and an fp32 scale of the tensor (arXiv
  // 2509.25149).
  static Precision nvfp4();
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

// Calls each(name, role, quantizer, other) for the operands of all products: the name of the entry
// that may replace the role, "forward.gemm_weights", the role's name, its quantizer and the
// optional one that replaces it.
template <class AnyPrecision, class Each>
void for_each_product_role(AnyPrecision& precision, const Each& each) {
  auto &x = precision.gemm_activations, &w = precision.gemm_weights, &d = precision.gemm_gradients;
  each("forward.gemm_activations", "gemm_activations", x, precision.forward.activations);
  each("forward.gemm_weights", "gemm_weights", w, precision.forward.weights);
  each("input_gradient.gemm_gradients", "gemm_gradients", d, precision.input_gradient.gradients);
  each("input_gradient.gemm_weights", "gemm_weights", w, precision.input_gradient.weights);
  each("weight_gradient.gemm_activations", "gemm_activations", x,
       precision.weight_gradient.activations);
  each("weight_gradient.gemm_gradients", "gemm_gradients", d, precision.weight_gradient.gradients);
}

namespace detail {

// The storage of recipes whose products read narrower numbers than those that are stored.
Precision mixed_precision(std::string_view name, const FloatFormat& format);

Precision mx_precision(std::string_view name, const FloatFormat& format,
                       ScaleRule rule = ScaleRule::floor);

Precision fp8_precision(std::string_view name, const FloatFormat& forward,
                        const FloatFormat& gradients, const Scaling& scaling);

Precision all_bf16(std::string_view name, const Rounding& rounding);

}  // namespace detail

// The presets, in the order of the documentation.
std::array<Precision, 17> precision_presets();

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/numeric/impl/precision.ipp>
#endif
