#pragma once
// Precision: the number formats of a training run, by role.

#include <soma/base/error.hpp>
#include <soma/numeric/rounding.hpp>
#include <soma/tensor/dtype.hpp>

#include <string>
#include <string_view>

namespace soma {

struct Precision {
  std::string_view name = "fp32";
  DType activations = DType::fp32;  // and their gradients
  DType weights = DType::fp32;      // matrices; biases and norms stay fp32
  DType moments = DType::fp32;
  Rounding weight_rounding{}, moment_rounding{};  // as a step writes them

  static constexpr Precision fp32() { return {}; }
  // fp32 weights and moments, bf16 activations.
  static constexpr Precision bf16() { return {.name = "bf16", .activations = DType::bf16}; }
  // bf16 everywhere, no wider copy: what a step adds survives by stochastic rounding.
  static constexpr Precision bf16_sr() {
    return {.name = "bf16_sr",
            .activations = DType::bf16,
            .weights = DType::bf16,
            .moments = DType::bf16,
            .weight_rounding = Rounding::stochastic,
            .moment_rounding = Rounding::stochastic};
  }
  // Error train.precision.
  static Precision named(std::string_view name) {
    for (const Precision& preset : {fp32(), bf16(), bf16_sr()})
      if (preset.name == name) return preset;
    fail(error_id::train_precision, "Precision", "name", soma::quoted(name),
         "one of fp32, bf16, bf16_sr");
  }
};

}  // namespace soma
