#pragma once
// Adapters (nn/lora.hpp) in files as PEFT reads and writes them: a folder with adapter_config.json
// and adapter_model.safetensors, without the weights of the model that it belongs to.

#include <soma/models/model_files.hpp>
#include <soma/nn/lora.hpp>
#include <soma/nn/product_site.hpp>
#include <soma/nn/scope.hpp>
#include <soma/state/tensor_source.hpp>

#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::models {

// The content of an adapter_config.json.
struct AdapterConfig {
  nn::LoraOptions lora{};
  std::string base{};  // the model that the adapter belongs to: a folder or a name; may be empty
  std::string task_type = "CAUSAL_LM";
  bool turned = false;  // fan_in_fan_out: the model's files store matrices [in, out]
};

// Reads the keys of base/model_keys.hpp. `name`: of the file, for messages. Errors
// models.config_json, models.config_type, models.config_value: a key that cannot be honoured.
AdapterConfig adapter_config_from_json(std::string_view text, std::string_view name);
std::string to_json(const AdapterConfig& config);

namespace detail {

AdapterConfig load_adapter(Context& context, const nn::Products& products,
                           const Parameters& parameters, const nn::Scope& scope,
                           const std::string& folder);

}  // namespace detail

// Adapts a model as the folder's adapter does, with its numbers; the tensors decide which layers
// have an adapter. Nothing is frozen. Types of 16 bits are converted to fp32. Nothing is written
// before all is checked. Errors file.read, safetensors.*, those of adapter_config_from_json;
// models.weights_file: no adapter_model.safetensors; state.missing_name, state.extra_name: a matrix
// without its partner, or of no linear layer; state.shape: the adapter of another model, with the
// shapes of both; state.dtype: numbers that are not floating-point; operator.value: the model has
// adapters already.
template <class Model>
AdapterConfig load_adapter(Context& context, const Model& model, const nn::Scope& scope,
                           const std::string& folder) {
  return detail::load_adapter(context, nn::products(model), nn::parameters(model), scope, folder);
}

// Writes the folder. `source`: the adapters under the parameters' names, if other ranks hold some
// of them; nullptr: those of the parameters. An earlier adapter of that name is replaced, but stays
// until the new one is complete. Errors file.write; state.missing_name.
void save_adapter(std::string_view path, const Parameters& parameters, const AdapterConfig& config,
                  TensorSource* source = nullptr);

// Checks that an adapter can be saved there. Error file.write.
void check_adapter_folder(std::string_view operation, std::string_view path);

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/adapter_files.ipp>
#endif
