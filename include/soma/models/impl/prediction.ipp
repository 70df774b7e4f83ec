#pragma once
// The functions of prediction.hpp.

#include <soma/models/prediction.hpp>

#include <soma/base/fixed.hpp>
#include <soma/data/labels.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::models {

SOMA_INLINE Prediction no_answer(data::LabelKind kind, std::size_t classes) {
  Prediction none{.label = {}, .probabilities = std::vector<float>(classes), .kind = kind};
  if (kind == data::LabelKind::number) {
    none.number = std::numeric_limits<float>::quiet_NaN();
    none.probabilities.clear();
  }
  return none;
}

SOMA_INLINE std::string to_string(const Prediction& prediction) {
  using soma::fixed;
  if (prediction.kind == data::LabelKind::number)
    return std::isnan(prediction.number) ? "" : soma::float_text(prediction.number);
  if (prediction.kind == data::LabelKind::one)
    return prediction.label + "\t" + fixed(prediction.probability, 4);
  std::vector<float> sorted = prediction.probabilities;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  std::string text;
  for (std::size_t i = 0; i < prediction.labels.size(); ++i)
    text.append(i == 0 ? "" : "\t").append(prediction.labels[i]).append("\t") +=
        fixed(static_cast<double>(sorted[i]), 4);
  return text;
}

}  // namespace SOMA_NAMESPACE::models
