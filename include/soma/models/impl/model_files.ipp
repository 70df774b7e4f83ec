#pragma once
// The functions of model_files.hpp.

#include <soma/models/model_files.hpp>

#include <soma/base/error.hpp>
#include <soma/base/json_limits.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/kernels/convert/convert.hpp>
#include <soma/system/files.hpp>
#include <soma/system/mapped_pages.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
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

SOMA_INLINE void check_weights_file(std::string_view operation, const std::string& folder,
                                    std::string_view auto_class) {
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
           "model.safetensors; this writes it: python3 -c 'import sys; from transformers import " +
               std::string(auto_class) +
               " as M; M.from_pretrained(sys.argv[1])"
               ".save_pretrained(sys.argv[1], safe_serialization=True)' " +
               soma::quoted(folder));
}

SOMA_INLINE std::vector<SafetensorsFile> model_files(Context& context, std::string_view operation,
                                                     const std::string& path,
                                                     std::string_view auto_class) {
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
    if (!is_file(path + std::string(single))) check_weights_file(operation, path, auto_class);
    files.push_back(load_safetensors(context, path + std::string(single)));
  }
  if (is_folder(path) && is_file(path + "/adapter_config.json"))
    context.log(LogLevel::warning, std::string(operation) + ": the adapter in " +
                                       soma::quoted(path) +
                                       " is not applied: the model has the folder's weights");
  return files;
}

SOMA_INLINE void check_no_doubles(std::string_view operation, const std::string& source,
                                  const SkippedTensor& tensor) {
  if (tensor.reason != "F64") return;
  fail(error_id::safetensors_dtype, operation,
       soma::quoted(tensor.name) + " in " + soma::quoted(source), "F64",
       "F32, F16, BF16 or an 8-bit format; this converts a file: python3 -c 'import sys; from "
       "safetensors.torch import load_file, save_file; save_file({n: t.float() for n, t in "
       "load_file(sys.argv[1]).items()}, sys.argv[1], {\"format\": \"pt\"})' FILE");
}

SOMA_INLINE void convert_tensor(Context& context, const Tensor& from, const Tensor& to) {
  if (from.dtype() == to.dtype())
    copy(from, to);
  else
    convert(
        context,
        code_span(format_of(from.dtype()), std::span<const std::byte>(from.raw(), from.bytes())),
        code_span(format_of(to.dtype()), std::span<std::byte>(to.mutable_raw(), to.bytes())));
  // A tensor of a mapped file: its pages are read again if it is asked for again.
  if (!from.storage().writable()) system::release_pages(from.raw(), from.bytes());
}

SOMA_INLINE std::string near_parameters(Context& context, const Parameters& parameters,
                                        std::string_view name) {
  StateDict names;
  for (const Parameter& parameter : parameters)
    names.set(parameter.name, Tensor::scalar(context, std::int64_t{0}));
  return names.near_names(name);
}

SOMA_INLINE void check_weights(std::string_view operation, const Parameters& parameters,
                               std::span<const StateDict::Entry> weights) {
  std::vector<std::string_view> names;
  for (const Parameter& parameter : parameters) names.push_back(parameter.name);
  std::sort(names.begin(), names.end());
  for (std::size_t i = 0; i < (std::max)(names.size(), weights.size()); ++i) {
    const std::string_view given = i < weights.size() ? weights[i].first : std::string_view();
    const std::string_view wanted = i < names.size() ? names[i] : std::string_view();
    if (given != wanted)
      fail(error_id::missing_name, operation, "weights", soma::quoted(given),
           soma::quoted(wanted) + ", a parameter of the model");
  }
}

SOMA_INLINE bool is_plain_file(const std::filesystem::directory_entry& entry) {
  std::error_code problem;
  return !entry.is_directory(problem);
}

SOMA_INLINE void refuse_replacing(std::string_view operation, std::string_view path,
                                  std::string_view name) {
  fail(error_id::file_write, operation, "folder",
       soma::quoted(path) + ", which holds " + soma::quoted(name),
       "a new or an empty one, or a saved model: it would be replaced in whole");
}

}  // namespace SOMA_NAMESPACE::models::detail
