// Checks that a model can answer, because all of it was trained.
#pragma once

#include <soma/models/text_classifier.hpp>

#include <string>
#include <string_view>

// Error state.missing_name: a folder without a text classifier, such as that of a model to start
// from, would answer from random weights.
inline void check_trained(const soma::models::TextClassifier& model, const std::string& folder,
                          std::string_view operation) {
  if (!model.fresh().empty())
    soma::fail(soma::error_id::missing_name, operation, "name",
               soma::quoted(model.fresh().front()) + ", which " + soma::quoted(folder) +
                   " has no trained values for",
               "a model that was trained to classify (train --pretrained makes such a model)");
}
