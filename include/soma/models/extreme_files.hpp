#pragma once
// The folder of an ExtremeClassifier: config.json, with the sampler and the seed and version of its
// hashes, model.safetensors, and label_counts.safetensors (LabelCounts). The index is not stored,
// because it is a function of the rows and of config.json.

#include <soma/io/atomic_folder.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/io/record_json.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/models/extreme_classifier.hpp>
#include <soma/models/pretrained.hpp>
#include <soma/nn/state.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::models {

inline constexpr std::string_view extreme_model_type = "soma_extreme_classifier";

Record to_record(const ExtremeOptions& options);

// Errors record.missing, record.type, models.config_type, models.config_value (an unknown sampler,
// hashes of another version).
ExtremeOptions extreme_options_of(const Record& record, std::string_view folder);

// Writes the folder. An earlier model of that name is replaced once the new one is complete. Error
// file.write.
void save_extreme_classifier(const ExtremeClassifier& model, std::string_view folder);

// Errors file.read, record.json, safetensors.*, state.missing_name, state.extra_name, state.shape,
// state.dtype, and those of extreme_options_of() and of ExtremeClassifier.
std::unique_ptr<ExtremeClassifier> load_extreme_classifier(Context& context,
                                                           std::string_view folder);

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/extreme_files.ipp>
#endif
