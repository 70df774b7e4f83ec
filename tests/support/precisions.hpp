// Presets for models that have convolutions.
#pragma once

#include <soma/numeric/precision.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace soma_test {

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
