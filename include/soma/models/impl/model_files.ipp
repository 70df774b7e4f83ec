#pragma once
// The functions of model_files.hpp.

#include <soma/models/model_files.hpp>

#include <soma/base/error.hpp>
#include <soma/base/json_limits.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/system/files.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::models::detail {

SOMA_INLINE bool is_file(const std::string& path) { return system::is_regular(path); }

SOMA_INLINE bool is_folder(const std::string& path) { return system::is_folder(path); }

SOMA_INLINE bool plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

SOMA_INLINE std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

SOMA_INLINE void index_failed(std::string_view operation, const std::string& index,
                              std::string_view given) {
  fail(error_id::shard_index, operation, "index " + soma::quoted(index), given,
       "an object with a weight_map of tensors' names to files of the same folder");
}

SOMA_INLINE ShardNames shard_names(std::string_view operation, const std::string& index) {
  using Json = nlohmann::json;
  const auto failed = [&](std::string_view given) { index_failed(operation, index, given); };
  const std::string text = text_of(*MappedFile::open(operation, index));
  if (!soma::may_be_tree(text)) failed("a zero byte, or lists in lists without end");
  const Json root = Json::parse(text, nullptr, false);
  if (!root.is_object()) failed("no JSON object");
  const auto map = root.find("weight_map");
  if (map == root.end() || !map->is_object()) failed("an index without a weight_map");
  ShardNames files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !plain_name(file.get_ref<const std::string&>()))
      failed("an index that names a file " +
             file.dump(-1, ' ', false, Json::error_handler_t::replace));
    files[file.get<std::string>()].push_back(tensor);
  }
  if (files.empty()) failed("an index without files");
  return files;
}

SOMA_INLINE bool has_tensor(const SafetensorsFile& file, std::string_view name) {
  const auto is_it = [&](const SkippedTensor& skipped) { return skipped.name == name; };
  return file.tensors.contains(name) ||
         std::any_of(file.skipped.begin(), file.skipped.end(), is_it);
}

SOMA_INLINE void check_weights_file(std::string_view operation, const std::string& folder) {
  constexpr std::string_view others[] = {"pytorch_model.bin",
                                         "pytorch_model.bin.index.json",
                                         "model.bin",
                                         "pytorch_model.pt",
                                         "tf_model.h5",
                                         "model.ckpt.index",
                                         "bert_model.ckpt.index",
                                         "flax_model.msgpack",
                                         "model.onnx",
                                         "onnx/model.onnx"};
  for (const std::string_view other : others)
    if (is_file(folder + "/" + std::string(other)))
      fail(error_id::weights_file, operation, "folder",
           soma::quoted(folder) + ", which holds " + soma::quoted(other) +
               " and no model.safetensors",
           "model.safetensors; this writes it: python3 -c 'import sys; from transformers import "
           "AutoModelForSequenceClassification as M; M.from_pretrained(sys.argv[1])"
           ".save_pretrained(sys.argv[1], safe_serialization=True)' " +
               soma::quoted(folder));
}

SOMA_INLINE std::vector<SafetensorsFile> model_files(Context& context, std::string_view operation,
                                                     const std::string& path) {
  constexpr std::string_view single = "/model.safetensors", index = "/model.safetensors.index.json";
  std::vector<SafetensorsFile> files;
  if (!is_folder(path)) {
    files.push_back(load_safetensors(context, path));
  } else if (const std::string list = path + std::string(index);
             is_file(list) && !is_file(path + std::string(single))) {
    for (const auto& [name, tensors] : shard_names(operation, list)) {
      files.push_back(load_safetensors(context, path + "/" + name));
      for (const std::string& tensor : tensors)
        if (!has_tensor(files.back(), tensor))
          index_failed(operation, list, soma::quoted(tensor) + ", which " + name + " lacks");
    }
  } else {
    if (!is_file(path + std::string(single))) check_weights_file(operation, path);
    files.push_back(load_safetensors(context, path + std::string(single)));
  }
  return files;
}

}  // namespace SOMA_NAMESPACE::models::detail
