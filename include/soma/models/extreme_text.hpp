#pragma once
// Texts as the points of an ExtremeClassifier: text::CountedFeatures counts and weights them, so
// the classifier takes their values as they are (ExtremeFitOptions::raw_values). A folder of such a
// model has text_features.json and text_features.safetensors beside its other files.

#include <soma/data/point_source.hpp>
#include <soma/models/extreme_files.hpp>
#include <soma/text/counted_features.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace SOMA_NAMESPACE::models {

struct TextPoints {
  text::CountedFeatures features;
  data::SparsePoints points;
};

// Words, pairs, and for texts of at most 400 bytes on average parts of words of 3 to 5 characters;
// for longer ones no feature that one text has alone. Weights by classes have the exponent 0.35.
// Errors data.empty (no texts), data.labels (not one list for each text, or a label that is not
// below `classes`).
TextPoints learn_text_points(Context& context, std::span<const std::string_view> texts,
                             data::IdLists labels, std::size_t classes);

// Further texts as points, without labels.
data::SparsePoints text_points(const text::CountedFeatures& features,
                               std::span<const std::string_view> texts, std::size_t classes);

// The same as save_extreme_classifier() with the features of texts.
void save_extreme_text(const ExtremeClassifier& model, const text::CountedFeatures& features,
                       std::string_view folder, std::span<const std::string> names);
// The features of a folder, or none of a model of points. Errors file.read, record.json,
// record.missing, record.type, state.missing_name, state.dtype, state.shape, text.features (tables
// that do not fit themselves, hashes of another version).
std::optional<text::CountedFeatures> load_text_features(Context& context, std::string_view folder);

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/extreme_text.ipp>
#endif
