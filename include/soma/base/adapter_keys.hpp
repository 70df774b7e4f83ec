#pragma once
// The keys of adapter_config.json. Source: the class LoraConfig of PEFT to 0.21.

#include <soma/base/model_key.hpp>

#include <array>

namespace SOMA_NAMESPACE::detail {

inline constexpr auto adapter_config_keys = std::to_array<ModelKey>({
    {"peft_type", honoured},
    {"r", honoured},
    {"lora_alpha", honoured},
    {"lora_dropout", honoured},
    {"use_rslora", honoured},
    {"target_modules", honoured},
    {"base_model_name_or_path", honoured},
    {"task_type", honoured},
    {"init_lora_weights", honoured},  // some values change the base
    // Keys that change the computation.
    {"bias", refused, "\"none\""},
    {"use_dora", refused},
    {"use_qalora", refused},
    {"use_bdlora", refused},
    {"modules_to_save", refused},
    {"rank_pattern", refused},
    {"alpha_pattern", refused},
    {"layers_to_transform", refused},
    {"layer_replication", refused},
    {"lora_bias", refused},
    {"trainable_token_indices", refused},
    {"target_parameters", refused},
    {"alora_invocation_tokens", refused},
    {"arrow_config", refused},
    {"kasa_config", refused},
    {"monteclora_config", refused},
    {"velora_config", refused},
    // Keys that tell how the adapter was made; its tensors name the layers.
    {"fan_in_fan_out", harmless},
    {"inference_mode", harmless},
    {"auto_mapping", harmless},
    {"exclude_modules", harmless},
    {"layers_pattern", harmless},
    {"loftq_config", harmless},
    {"corda_config", harmless},
    {"eva_config", harmless},
    {"lora_ga_config", harmless},
    {"ensure_weight_tying", harmless},
    {"megatron_config", harmless},
    {"megatron_core", harmless},
    {"peft_version", harmless},
    {"qalora_group_size", harmless},
    {"revision", harmless},
    {"runtime_config", harmless},
});

}  // namespace SOMA_NAMESPACE::detail
