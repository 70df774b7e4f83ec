#pragma once
// The files of a model's weights: one file, or several with an index; and a message if there are
// other files instead.

#include <soma/base/error.hpp>
#include <soma/base/json_limits.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/io/safetensors.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
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

// For a folder without model.safetensors: the error names the weights that are there, and how to
// convert them to a format that soma reads. Error models.weights_file.
void check_weights_file(std::string_view operation, const std::string& folder);

// The files of a model: `path` itself, or the files in the folder `path`.
std::vector<SafetensorsFile> model_files(Context& context, std::string_view operation,
                                         const std::string& path);

}  // namespace SOMA_NAMESPACE::models::detail

#ifndef SOMA_DISPATCH
#include <soma/models/impl/model_files.ipp>
#endif
