#include "bert_classifier/train/class_weights.hpp"

#include "training/arguments.hpp"

#include <soma/base/error.hpp>
#include <soma/nn/class_weights.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

namespace {

std::vector<float> weights_of_file(const std::string& path,
                                   const std::vector<std::string>& labels) {
  const auto wrong = [&](const std::string& what) {
    throw UsageError("--class-weights " + soma::quoted(path) + " " + what);
  };
  const nlohmann::json object = read_json_object(path, "--class-weights");
  for (const auto& [label, weight] : object.items()) {
    if (std::find(labels.begin(), labels.end(), label) == labels.end())
      wrong("weighs " + soma::quoted(label) + ", which is none of the " +
            std::to_string(labels.size()) + " classes, such as " + soma::quoted(labels.front()));
    if (!weight.is_number() || !(weight.get<double>() >= 0) ||
        weight.get<double>() > double{(std::numeric_limits<float>::max)()})
      wrong("gives " + soma::quoted(label) + " the weight " + weight.dump() +
            ", wanted a number from 0");
  }
  std::vector<float> weights;
  for (const std::string& label : labels) {
    const auto found = object.find(label);
    if (found == object.end()) wrong("has no weight for " + soma::quoted(label));
    weights.push_back(found->get<float>());
  }
  if (std::all_of(weights.begin(), weights.end(), [](float weight) { return weight == 0; }))
    wrong("gives all classes the weight 0");
  return weights;
}

}  // namespace

std::vector<float> class_weights(const TrainOptions& options, const TrainingRows& rows) {
  if (options.class_weights.empty()) return {};
  if (options.class_weights != "balanced")
    return weights_of_file(options.class_weights, rows.labels);
  return soma::nn::balanced_class_weights(rows.counts());
}
