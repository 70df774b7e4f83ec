#pragma once
// The functions of prediction.hpp.

#include <soma/models/prediction.hpp>

#include <soma/base/fixed.hpp>
#include <soma/data/labels.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::models {

SOMA_INLINE std::string to_string(const Prediction& prediction) {
  using soma::fixed;
  if (prediction.kind == data::LabelKind::number) return soma::float_text(prediction.number);
  if (prediction.kind == data::LabelKind::one)
    return prediction.label + "\t" + fixed(prediction.probability, 4);
  std::vector<float> sorted = prediction.probabilities;
  std::ranges::sort(sorted, std::greater<>());
  std::string text;
  for (std::size_t i = 0; i < prediction.labels.size(); ++i)
    text.append(i == 0 ? "" : "\t").append(prediction.labels[i]).append("\t") +=
        fixed(static_cast<double>(sorted[i]), 4);
  return text;
}

}  // namespace SOMA_NAMESPACE::models
