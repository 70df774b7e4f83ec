#pragma once
// The files of a model's weights: one file, or several with an index; and a message if there are
// other files instead.

#include <soma/autograd/parameter.hpp>
#include <soma/base/error.hpp>
#include <soma/base/json_limits.hpp>
#include <soma/io/atomic_folder.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/system/paths.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace SOMA_NAMESPACE::models::detail {

bool is_file(const std::string& path);
bool is_folder(const std::string& path);
// True if the name stays in its folder.
bool plain_name(std::string_view name);
std::string text_of(const MappedFile& file);

// The content of an index: the tensors of each file.
using ShardNames = std::map<std::string, std::vector<std::string>>;

[[noreturn]] void index_failed(std::string_view operation, const std::string& index,
                               std::string_view given);

ShardNames shard_names(std::string_view operation, const std::string& index);

bool has_tensor(const SafetensorsFile& file, std::string_view name);

inline constexpr std::string_view classifier_class = "AutoModelForSequenceClassification";

// For a folder without model.safetensors: the error names the weights that are there, and how to
// convert them to a format that soma reads, by the class of the usual library that loads them.
// Error models.weights_file.
void check_weights_file(std::string_view operation, const std::string& folder,
                        std::string_view auto_class = classifier_class);

// The files of a model: `path` itself, or the files in the folder `path`.
std::vector<SafetensorsFile> model_files(Context& context, std::string_view operation,
                                         const std::string& path,
                                         std::string_view auto_class = classifier_class);

// soma computes in fp32 and does not read numbers of 64 bits. Error safetensors.dtype.
void check_no_doubles(std::string_view operation, const std::string& source,
                      const SkippedTensor& tensor);

// Copies elements, rounded to nearest into another type. Both are contiguous. If `from` lies in a
// mapped file, its pages are given back.
void convert_tensor(Context& context, const Tensor& from, const Tensor& to);

// Similar parameter names of the model, for a message.
std::string near_parameters(Context& context, const Parameters& parameters, std::string_view name);

// Checks that these are the parameters, by their names. Error state.missing_name.
void check_weights(std::string_view operation, const Parameters& parameters,
                   std::span<const StateDict::Entry> weights);

bool is_plain_file(const std::filesystem::directory_entry& entry);
[[noreturn]] void refuse_replacing(std::string_view operation, std::string_view path,
                                   std::string_view name);

// Every file that commit() would remove must be one that is_model(name) knows; only a folder that
// cannot be replaced as a whole keeps other files. Error file.write.
template <class IsModel>
void check_replaced_names(std::string_view operation, std::string_view path,
                          const AtomicFolder& folder, const IsModel& is_model) {
  for (const std::filesystem::directory_entry& entry : folder.replaced()) {
    const std::string name = system::name_of(entry);
    if (!is_plain_file(entry) || !is_model(name)) refuse_replacing(operation, path, name);
  }
}

}  // namespace SOMA_NAMESPACE::models::detail

#ifndef SOMA_DISPATCH
#include <soma/models/impl/model_files.ipp>
#endif
