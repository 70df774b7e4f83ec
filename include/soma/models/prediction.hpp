#pragma once
// Prediction: the answer of a TextClassifier for a text, and the answer as a line.

#include <soma/base/fixed.hpp>
#include <soma/data/labels.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::models {

// The answer for a text. `kind` (data::LabelKind) decides which members are set.
struct Prediction {
  std::string label;                  // the likeliest; of a number the name of what it is
  double probability = 0;             // the probability of `label`
  std::vector<float> probabilities;   // one for each class; with several labels each alone
  std::vector<std::string> labels{};  // several: those likelier than not, likeliest first
  float number = 0;                   // number; NaN: none, for a text without an answer
  data::LabelKind kind = data::LabelKind::one;
};

// The answer for a text of nothing but white space, which no training row may have: no class, with
// probability 0; or no labels; or no number. `classes`: their number.
Prediction no_answer(data::LabelKind kind, std::size_t classes);

// "positive       0.9876"; with several labels "toxic     0.9100  insult  0.6200", or nothing; for
// a number "3.25", or nothing.
std::string to_string(const Prediction& prediction);
template <class Stream>
requires requires(Stream& stream, const std::string& text) { stream << text; }
Stream& operator<<(Stream& stream, const Prediction& prediction) {
  stream << to_string(prediction);
  return stream;
}

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/prediction.ipp>
#endif
