// Precisions that no preset has, and presets for models that have convolutions.
#pragma once

#include <soma/numeric/precision.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace soma_test {

// Trainings with scales for groups ask for more than a preset: a rotation with drawn signs, draws
// for gradients, and formats of one product. Their names are words.
inline std::vector<soma::Precision> group_recipes() {
  using namespace soma;
  std::vector<Precision> all;
  for (const Precision& preset : {Precision::mxfp4(), Precision::nvfp4()}) {
    Precision rotated = preset;
    rotated.name += "_rotated";
    for (Quantizer* role :
         {&rotated.gemm_activations, &rotated.gemm_weights, &rotated.gemm_gradients}) {
      if (role->scaling.format == ScaleFormat::mx) role->scaling.rule = ScaleRule::up;
      role->rotation = {16, Rotation::Signs::drawn};
    }
    rotated.gemm_gradients.rounding = Rounding::stochastic;
    all.push_back(rotated);
  }
  Precision wide = Precision::nvfp4();
  wide.name = "wide_gradient";
  wide.gemm_weights.scaling.granularity = Granularity::block_16x16;
  wide.weight_gradient.activations = wide.weight_gradient.gradients =
      Quantizer{.format = formats::bf16};
  wide.forward.weights = Quantizer{.format = formats::fp8_e4m3fn};
  all.push_back(wide);
  Precision three = Precision::mxfp6();
  three.name = "three_formats";
  three.input_gradient.weights = Precision::mxfp8_up().gemm_weights;
  three.input_gradient.gradients = Precision::mxfp8_trn3().gemm_gradients;
  three.input_gradient.gradients->rounding = Rounding::stochastic;
  three.weight_gradient.activations = all.front().gemm_activations;
  three.weight_gradient.gradients = all.front().gemm_gradients;
  three.weight_gradient.activations->rotation.size =
      three.weight_gradient.gradients->rotation.size = 32;
  all.push_back(three);
  return all;
}

// A preset, or one of group_recipes().
inline soma::Precision any_precision(const std::string& name) {
  for (const soma::Precision& recipe : group_recipes())
    if (recipe.name == name) return recipe;
  return soma::Precision::named(name);
}

// The precision, where these convolutions read stored numbers if they must: they have no scales for
// parts of a tensor.
inline soma::Precision with_convolutions(soma::Precision precision,
                                         const std::vector<std::string>& convolutions) {
  const std::array roles{&precision.gemm_activations, &precision.gemm_weights,
                         &precision.gemm_gradients};
  const bool parts = std::ranges::any_of(roles, [](const soma::Quantizer* read) {
    return read->scaling.policy != soma::ScalePolicy::none &&
           read->scaling.granularity != soma::Granularity::tensor;
  });
  if (parts)
    precision.stored.insert(precision.stored.end(), convolutions.begin(), convolutions.end());
  return precision;
}

}  // namespace soma_test
