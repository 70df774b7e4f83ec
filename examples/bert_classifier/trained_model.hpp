// Refuses a model whose weights are not all trained.
#pragma once

#include <soma/models/text_classifier.hpp>

#include <string>
#include <string_view>

// Error state.missing_name: the folder has no trained text classifier. A pretrained model without a
// classifier, for example, would predict from random weights.
inline void check_trained(const soma::models::TextClassifier& model, const std::string& folder,
                          std::string_view operation) {
  if (!model.fresh().empty())
    soma::fail(soma::error_id::missing_name, operation, "name",
               soma::quoted(model.fresh().front()) + ", which " + soma::quoted(folder) +
                   " has no trained values for",
               "a model that was trained to classify (train --pretrained makes such a model)");
}
