#pragma once
// Labelled texts for the tests of FastClassifier, and the share that a model reads right.

#include <soma/models/fast_classifier.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace soma_test {

struct LabelledText {
  std::string text;
  std::int64_t label = 0;
  std::vector<std::int32_t> labels{};
};

inline std::vector<std::string> class_names(std::size_t classes) {
  std::vector<std::string> names;
  for (std::size_t c = 0; c < classes; ++c) names.push_back("class " + std::to_string(c));
  return names;
}

inline double share_right(const soma::models::FastClassifier& model,
                          const std::vector<LabelledText>& rows) {
  double right = 0;
  for (const LabelledText& row : rows)
    right += model.predict(row.text).label == model.labels()[static_cast<std::size_t>(row.label)];
  return right / static_cast<double>(rows.size());
}

}  // namespace soma_test
