#pragma once
// The functions of adapter_files.hpp.

#include <soma/models/adapter_files.hpp>

#include <soma/base/error.hpp>
#include <soma/io/atomic_file.hpp>
#include <soma/io/atomic_folder.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/models/config_reader.hpp>
#include <soma/nn/state.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models::detail {

inline constexpr std::string_view adapter_config_name = "adapter_config.json",
                                  adapter_weights_name = "adapter_model.safetensors",
                                  adapter_prefix = "base_model.model.",
                                  adapter_endings[] = {".lora_A.weight", ".lora_B.weight"};

inline bool is_adapter_file(std::string_view name) {
  return name == adapter_config_name || name == adapter_weights_name || name == "README.md";
}

// The adapters' matrices of a source, under their names in the file.
class AdapterTensors final : public TensorSource {
 public:
  AdapterTensors(TensorSource& all, const Parameters& parameters) : all_(all) {
    const std::span<const StateDict::Entry> entries = all.entries();
    for (const Parameter& parameter : parameters) {
      if (parameter.role != ParameterRole::adapter) continue;
      const auto found = std::find_if(
          entries.begin(), entries.end(),
          [&](const StateDict::Entry& entry) { return entry.first == parameter.name; });
      if (found == entries.end())
        fail(error_id::missing_name, "save_adapter", "source",
             "none named " + soma::quoted(parameter.name), "all adapters of the model");
      indices_.push_back(static_cast<std::size_t>(found - entries.begin()));
      entries_.emplace_back(std::string(adapter_prefix).append(parameter.name), found->second);
    }
  }
  std::span<const StateDict::Entry> entries() const override { return entries_; }
  Tensor fetch(std::size_t i) override { return all_.fetch(indices_[i]); }

 private:
  TensorSource& all_;
  std::vector<std::size_t> indices_{};
  std::vector<StateDict::Entry> entries_{};
};

// The matrices A and B of a layer in a file.
struct AdapterPair {
  const Tensor* matrices[2] = {};
};

// The pairs by the names of their layers. Error state.extra_name: another tensor.
inline std::map<std::string, AdapterPair> pairs_of(const SafetensorsFile& file,
                                                   const std::string& source,
                                                   const nn::Products& products) {
  std::map<std::string, AdapterPair> pairs;
  for (const auto& [name, tensor] : file.tensors) {
    std::string_view layer = name;
    int which = -1;
    for (int i = 0; i < 2; ++i)
      if (layer.ends_with(adapter_endings[i])) which = i;
    const bool fits = which >= 0 && layer.starts_with(adapter_prefix);
    if (fits) {
      layer.remove_prefix(adapter_prefix.size());
      layer.remove_suffix(adapter_endings[which].size());
    }
    const bool known =
        fits && std::any_of(products.begin(), products.end(),
                            [&](const nn::Product& product) { return product.name == layer; });
    if (!known)
      fail(error_id::extra_name, "load_adapter", "name",
           soma::quoted(name) + " in " + soma::quoted(source),
           "lora_A or lora_B of a linear layer of the model, such as " +
               soma::quoted(std::string(adapter_prefix) + products.front().name +
                            std::string(adapter_endings[0])));
    pairs[std::string(layer)].matrices[which] = &tensor;
  }
  return pairs;
}

inline void check_pair(const std::string& source, const nn::Product& product,
                       const AdapterPair& pair, std::size_t rank) {
  const Shape& shape = product.weight.shape();
  const std::size_t rows = (std::min)(product.last_row, shape[0]) - product.first_row;
  const Shape wanted[2] = {{rank, shape[1]}, {rows, rank}};
  for (int i = 0; i < 2; ++i) {
    const std::string name = soma::quoted(product.name + std::string(adapter_endings[i]));
    if (pair.matrices[i] == nullptr)
      fail(error_id::missing_name, "load_adapter", "name",
           name + ", which " + soma::quoted(source) + " lacks", "lora_A and lora_B of each layer");
    const Tensor& given = *pair.matrices[i];
    if (given.shape() != wanted[i])
      fail(error_id::state_shape, "load_adapter", name + " in " + soma::quoted(source),
           given.describe(),
           to_string(wanted[i]) + ": rank " + std::to_string(rank) + " for the model's layer " +
               soma::quoted(product.name) + ", " + to_string(Shape{rows, shape[1]}));
    if (!is_floating(given.dtype()))
      fail(error_id::state_dtype, "load_adapter", name + " in " + soma::quoted(source),
           given.describe(), "floating-point numbers");
  }
}

SOMA_INLINE AdapterConfig load_adapter(Context& context, const nn::Products& products,
                                       const Parameters& parameters, const nn::Scope& scope,
                                       const std::string& folder) {
  const std::string config_file = folder + "/" + std::string(adapter_config_name),
                    weights_file = folder + "/" + std::string(adapter_weights_name);
  AdapterConfig config = adapter_config_from_json(
      text_of(*MappedFile::open("load_adapter", config_file)), config_file);
  if (!is_file(weights_file))
    fail(error_id::weights_file, "load_adapter", "folder",
         soma::quoted(folder) + " without " + soma::quoted(adapter_weights_name),
         "an adapter as PEFT's save_pretrained() writes it (safe_serialization=True)");
  const SafetensorsFile file = load_safetensors(context, weights_file);
  for (const SkippedTensor& tensor : file.skipped)
    check_no_doubles("load_adapter", weights_file, tensor);
  const std::map<std::string, AdapterPair> pairs = pairs_of(file, weights_file, products);
  nn::LoraOptions options = config.lora;
  options.targets.clear();
  for (const auto& [name, pair] : pairs) {
    for (const nn::Product& product : products)
      if (product.name == name) check_pair(weights_file, product, pair, config.lora.rank);
    options.targets.push_back(name);
  }
  nn::detail::adapt(products, parameters, scope, options);
  if (config.lora.targets.empty()) config.lora.targets = options.targets;
  for (const nn::Product& product : products) {
    const auto* lora = static_cast<const nn::Lora*>(product.site.adapter());
    if (lora == nullptr) continue;
    for (const nn::Lora::Layer& layer : lora->layers()) {
      if (layer.name != product.name) continue;
      const AdapterPair& pair = pairs.at(layer.name);
      const Var* matrices[2] = {&layer.a, &layer.b};
      for (int i = 0; i < 2; ++i) {
        const Tensor from = *pair.matrices[i];
        if (matrices[i]->value().defined())
          convert_tensor(context, from, matrices[i]->value());
        else
          scope.later->replace({layer.name, *matrices[i]}, from, &convert_tensor);
      }
    }
  }
  return config;
}

}  // namespace SOMA_NAMESPACE::models::detail

namespace SOMA_NAMESPACE::models {

SOMA_INLINE AdapterConfig adapter_config_from_json(std::string_view text, std::string_view name) {
  const detail::ConfigReader reader("load_adapter", text, name);
  using Json = nlohmann::json;
  const auto quoted_text = [&](const char* key, const char* otherwise) {
    const Json* value = reader.text(key);
    return value == nullptr ? std::string(otherwise) : value->get<std::string>();
  };
  if (const std::string type = quoted_text("peft_type", ""); type != "LORA")
    reader.bad_value("peft_type", soma::quoted(type), "LORA");
  reader.check_keys(ModelFile::adapter_config);
  // The tensors replace initial values; values with other names have changed the base.
  if (const Json* initial = reader.find("init_lora_weights");
      initial != nullptr && !initial->is_boolean() && *initial != Json("gaussian"))
    reader.bad_value("init_lora_weights", detail::ConfigReader::shown(*initial),
                     "true, false or gaussian");
  AdapterConfig config;
  constexpr std::uint64_t most_rank = std::uint64_t{1} << 20;
  config.lora.rank = reader.size("r", 8, most_rank);
  config.lora.alpha = reader.find("lora_alpha") == nullptr ? 8 : reader.positive("lora_alpha", 8);
  config.lora.dropout = reader.probability("lora_dropout", 0);
  config.lora.rank_stabilised = reader.flag("use_rslora", false);
  config.base = quoted_text("base_model_name_or_path", "");
  config.task_type = quoted_text("task_type", "CAUSAL_LM");
  config.turned = reader.flag("fan_in_fan_out", false);
  config.lora.targets.clear();
  const Json* targets = reader.find("target_modules");
  if (targets != nullptr && targets->is_array()) {
    for (const Json& target : *targets) {
      if (!target.is_string()) reader.bad_type("target_modules", *targets, "names of layers");
      config.lora.targets.push_back(target.get<std::string>());
    }
  } else if (targets != nullptr && *targets == Json("all-linear")) {
    config.lora.targets = {"all-linear"};
  }
  return config;
}

SOMA_INLINE std::string to_json(const AdapterConfig& config) {
  nlohmann::json targets = config.lora.targets;
  if (config.lora.targets.size() == 1 && config.lora.targets[0] == "all-linear")
    targets = "all-linear";
  const nlohmann::json root = {
      {"peft_type", "LORA"},
      {"task_type", config.task_type},
      {"base_model_name_or_path", config.base},
      {"r", config.lora.rank},
      {"lora_alpha", config.lora.alpha},
      {"lora_dropout", config.lora.dropout},
      {"use_rslora", config.lora.rank_stabilised},
      {"target_modules", targets},
      {"bias", "none"},
      {"fan_in_fan_out", config.turned},
      {"init_lora_weights", true},
      {"inference_mode", true},
      {"modules_to_save", nullptr},
  };
  return root.dump(2) + "\n";
}

SOMA_INLINE void check_adapter_folder(std::string_view operation, std::string_view path) {
  detail::check_replaced_names(operation, path, AtomicFolder(operation, path),
                               &detail::is_adapter_file);
}

SOMA_INLINE void save_adapter(std::string_view path, const Parameters& parameters,
                              const AdapterConfig& config, TensorSource* source) {
  constexpr std::string_view operation = "save_adapter";
  StateDict own;
  if (source == nullptr) own = nn::state_dict(parameters);
  StateSource own_source(own);
  detail::AdapterTensors tensors(source != nullptr ? *source : own_source, parameters);
  if (tensors.entries().empty())
    fail(error_id::missing_name, operation, "parameters", "none of an adapter",
         "those of an adapted model");
  AtomicFolder folder(operation, path);
  detail::check_replaced_names(operation, path, folder, &detail::is_adapter_file);
  AtomicFile file(operation, folder / detail::adapter_config_name);
  file.write(to_json(config));
  file.commit();
  save_safetensors(folder / detail::adapter_weights_name, tensors, {{"format", "pt"}});
  folder.commit();
}

}  // namespace SOMA_NAMESPACE::models
