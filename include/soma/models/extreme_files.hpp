#pragma once
// The folder of an ExtremeClassifier: config.json, model.safetensors, and label_counts.safetensors
// (LabelCounts). Of a network, config.json has the sampler and the seed and version of its hashes;
// the index is not stored, because it is a function of the rows and of config.json. Of the linear
// kinds it has what the fit chose. A folder without a kind is of an earlier program, and a network.

#include <soma/io/atomic_folder.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/io/record_json.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/models/extreme_classifier.hpp>
#include <soma/models/pretrained.hpp>
#include <soma/nn/state.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::models {

inline constexpr std::string_view extreme_model_type = "soma_extreme_classifier";

Record to_record(const ExtremeOptions& options);

// The part of config.json of the linear kinds.
Record to_record(const ExtremeLinear& model);

// The options of a network. Errors record.missing, record.type, models.config_type,
// models.config_value (an unknown sampler, hashes of another version).
ExtremeOptions extreme_options_of(const Record& record, std::string_view folder);

// The names of classes: a line of a file each, in UTF-8. Errors of text::TextLines;
// models.config_value: not one for each class, or a name that is empty or there twice.
std::vector<std::string> read_label_names(const std::string& file, std::size_t classes);

// Writes the folder, with the names of its classes, if there are any, as labels.txt. An earlier
// model of that name is replaced once the new one is complete. Errors file.write, and of names
// models.config_value as above.
void save_extreme_classifier(const ExtremeClassifier& model, std::string_view folder,
                             std::span<const std::string> names = {});
namespace detail {

// The same; add(target) writes further files, before the folder is complete.
void save_extreme(const ExtremeClassifier& model, std::string_view folder,
                  std::span<const std::string> names,
                  const std::function<void(const AtomicFolder& target)>& add);

}  // namespace detail

// The names that a folder has, or none. Errors of read_label_names().
std::vector<std::string> load_label_names(std::string_view folder, std::size_t classes);

// Errors file.read, record.json, safetensors.*, state.missing_name, state.extra_name, state.shape,
// state.dtype, operator.value (tensors that are no model), models.config_value (a kind or a version
// of a later program), and those of extreme_options_of() and of ExtremeClassifier.
std::unique_ptr<ExtremeClassifier> load_extreme_classifier(Context& context,
                                                           std::string_view folder);

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/extreme_files.ipp>
#endif
