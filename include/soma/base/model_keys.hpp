#pragma once
// The treatment of each key that the usual libraries write into a model's folder (config.json,
// tokenizer_config.json, tokenizer.json, special_tokens_map.json, generation_config.json,
// adapter_config.json). A key is honoured, harmless, or refused because the usual libraries would
// compute something else with it. Keys that are not listed here are a person's own notes, and are
// ignored.
//
// Sources: the classes PretrainedConfig, BertConfig, DistilBertConfig, GPT2Config, LlamaConfig,
// MistralConfig, Qwen2Config, PreTrainedTokenizerBase and BertTokenizer of Hugging Face
// transformers 3 to 5, and the serialization of tokenizers 0.8 to 0.22.

#include <soma/base/adapter_keys.hpp>
#include <soma/base/config.hpp>
#include <soma/base/generation_keys.hpp>
#include <soma/base/model_key.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

namespace detail {

// Keys of the config.json of every encoder.
inline constexpr auto encoder_config_keys = std::to_array<ModelKey>({
    {"model_type", honoured},
    {"architectures", honoured},
    {"vocab_size", honoured},
    {"max_position_embeddings", honoured},
    {"initializer_range", honoured},
    {"pad_token_id", honoured},
    {"id2label", honoured},
    {"num_labels", honoured},
    {"problem_type", honoured},
    {"tokenizer_class", honoured},
    {"soma_input", honoured},
    {"soma_pooling", honoured},
    // Keys that change the computation.
    {"is_decoder", refused},
    {"add_cross_attention", refused},
    {"is_encoder_decoder", refused},
    {"pruned_heads", refused},
    {"quantization_config", refused},
    {"auto_map", refused},  // the model is code of its own
    {"adapters", refused},
    {"function_to_apply", refused, "\"softmax\""},
    {"tie_word_embeddings", harmless},
    {"bos_token_id", harmless},
    {"eos_token_id", harmless},
});

// Keys of every config.json.
inline constexpr auto any_config_keys = std::to_array<ModelKey>({
    // Keys that describe how the model was made, or how other programs run it.
    {"_name_or_path", harmless},
    {"_commit_hash", harmless},
    {"_num_labels", harmless},
    {"_attn_implementation", harmless},
    {"_attn_implementation_autoset", harmless},
    {"_attn_implementation_internal", harmless},
    {"attn_implementation", harmless},
    {"chunk_size_feed_forward", harmless},
    {"cross_attention_hidden_size", harmless},
    {"dtype", harmless},
    {"finetuning_task", harmless},
    {"gradient_checkpointing", harmless},
    {"label2id", harmless},
    {"output_attentions", harmless},
    {"output_hidden_states", harmless},
    {"output_past", harmless},
    {"return_dict", harmless},
    {"sbert_ce_default_activation_function", harmless},
    {"sentence_transformers", harmless},
    {"task_specific_params", harmless},
    {"tf_legacy_loss", harmless},
    {"tie_encoder_decoder", harmless},
    {"torch_dtype", harmless},
    {"torchscript", harmless},
    {"transformers_version", harmless},
    {"use_bfloat16", harmless},
    {"use_cache", harmless},
    {"xla_device", harmless},
    // Keys of models that write text.
    {"bad_words_ids", harmless},
    {"begin_suppress_tokens", harmless},
    {"decoder_start_token_id", harmless},
    {"diversity_penalty", harmless},
    {"do_sample", harmless},
    {"early_stopping", harmless},
    {"encoder_no_repeat_ngram_size", harmless},
    {"exponential_decay_length_penalty", harmless},
    {"forced_bos_token_id", harmless},
    {"forced_eos_token_id", harmless},
    {"length_penalty", harmless},
    {"max_length", harmless},
    {"min_length", harmless},
    {"no_repeat_ngram_size", harmless},
    {"num_beam_groups", harmless},
    {"num_beams", harmless},
    {"num_return_sequences", harmless},
    {"output_scores", harmless},
    {"prefix", harmless},
    {"remove_invalid_values", harmless},
    {"repetition_penalty", harmless},
    {"return_dict_in_generate", harmless},
    {"sep_token_id", harmless},
    {"suppress_tokens", harmless},
    {"temperature", harmless},
    {"top_k", harmless},
    {"top_p", harmless},
    {"typical_p", harmless},
});

// Keys of the config.json of every decoder.
inline constexpr auto decoder_config_keys = std::to_array<ModelKey>({
    {"model_type", honoured},
    {"vocab_size", honoured},
    {"initializer_range", honoured},
    {"tie_word_embeddings", honoured},
    {"eos_token_id", honoured},
    {"add_cross_attention", refused},
    {"is_encoder_decoder", refused},
    {"pruned_heads", refused},
    {"quantization_config", refused},
    {"auto_map", refused},  // the model is code of its own
    {"adapters", refused},
    {"num_experts", refused},
    {"num_experts_per_tok", refused},
    {"num_local_experts", refused},
    {"is_decoder", harmless},
    {"bos_token_id", harmless},
    {"pad_token_id", harmless},
    {"tokenizer_class", harmless},
    {"architectures", harmless},
    // Keys of classifiers.
    {"id2label", harmless},
    {"num_labels", harmless},
    {"problem_type", harmless},
});

inline constexpr auto gpt2_config_keys = std::to_array<ModelKey>({
    {"n_embd", honoured},
    {"n_layer", honoured},
    {"n_head", honoured},
    {"n_inner", honoured},
    {"n_positions", honoured},
    {"activation_function", honoured},
    {"resid_pdrop", honoured},
    {"embd_pdrop", honoured},
    {"attn_pdrop", honoured},
    {"layer_norm_epsilon", honoured},
    {"scale_attn_weights", honoured},
    {"scale_attn_by_inverse_layer_idx", refused},
    {"n_ctx", harmless},                    // n_positions, once more
    {"reorder_and_upcast_attn", harmless},  // the order of products in half precision
    {"summary_activation", harmless},       // for classifiers
    {"summary_first_dropout", harmless},
    {"summary_proj_to_labels", harmless},
    {"summary_type", harmless},
    {"summary_use_proj", harmless},
});

// Keys of the config.json of every decoder with rotary positions.
inline constexpr auto rotary_config_keys = std::to_array<ModelKey>({
    {"hidden_size", honoured},
    {"intermediate_size", honoured},
    {"num_hidden_layers", honoured},
    {"num_attention_heads", honoured},
    {"num_key_value_heads", honoured},
    {"head_dim", honoured},
    {"hidden_act", honoured},
    {"max_position_embeddings", honoured},
    {"rms_norm_eps", honoured},
    {"rope_theta", honoured},
    {"rope_scaling", honoured},
    {"rope_parameters", honoured},
    {"attention_dropout", honoured},
    {"layer_types", honoured},
    {"partial_rotary_factor", refused, "1.0"},
    {"rope_interleaved", refused},
});

inline constexpr auto llama_config_keys = std::to_array<ModelKey>({
    {"attention_bias", honoured},
    {"mlp_bias", honoured},
    {"sliding_window", honoured},
    {"pretraining_tp", refused, "1"},
});

inline constexpr auto qwen2_config_keys = std::to_array<ModelKey>({
    {"use_sliding_window", refused},
    {"sliding_window", harmless},  // without use_sliding_window no layer has one
    {"max_window_layers", harmless},
    {"use_mrope", refused},
});

inline constexpr auto bert_config_keys = std::to_array<ModelKey>({
    {"hidden_size", honoured},
    {"num_hidden_layers", honoured},
    {"num_attention_heads", honoured},
    {"intermediate_size", honoured},
    {"type_vocab_size", honoured},
    {"hidden_act", honoured},
    {"hidden_dropout_prob", honoured},
    {"attention_probs_dropout_prob", honoured},
    {"classifier_dropout", honoured},
    {"layer_norm_eps", honoured},
    {"position_embedding_type", refused, "\"absolute\""},
    {"directionality", refused, "\"bidi\""},
    {"pooler_type", refused, "\"first_token_transform\""},
    // Keys of the first implementation, which the usual library does not read.
    {"pooler_fc_size", harmless},
    {"pooler_num_attention_heads", harmless},
    {"pooler_num_fc_layers", harmless},
    {"pooler_size_per_head", harmless},
});

inline constexpr auto distilbert_config_keys = std::to_array<ModelKey>({
    {"dim", honoured},
    {"n_layers", honoured},
    {"n_heads", honoured},
    {"hidden_dim", honoured},
    {"activation", honoured},
    {"dropout", honoured},
    {"attention_dropout", honoured},
    {"seq_classif_dropout", honoured},
    {"qa_dropout", harmless},
    // The weights hold the table of positions; training continues from it.
    {"sinusoidal_pos_embds", harmless},
    {"tie_weights_", harmless},
});

inline constexpr auto tokenizer_config_keys = std::to_array<ModelKey>({
    {"tokenizer_class", honoured},
    {"do_lower_case", honoured},
    {"strip_accents", honoured},
    {"tokenize_chinese_chars", honoured},
    {"split_special_tokens", honoured},
    {"model_max_length", honoured},
    {"max_len", honoured},  // the same before version 3
    {"truncation_side", honoured},
    {"unk_token", honoured},
    {"cls_token", honoured},
    {"sep_token", honoured},
    {"pad_token", honoured},
    {"mask_token", honoured},
    {"bos_token", honoured},
    {"eos_token", honoured},
    {"additional_special_tokens", honoured},
    {"extra_special_tokens", honoured},
    {"model_specific_special_tokens", honoured},
    {"added_tokens_decoder", honoured},
    // Keys that change how text is split.
    {"auto_map", refused},  // the tokenizer is code of its own
    {"do_basic_tokenize", refused, "true"},
    {"do_split_on_punc", refused, "true"},
    {"never_split", refused},
    {"do_word_tokenize", refused, "true"},
    {"do_subword_tokenize", refused, "true"},
    {"word_tokenizer_type", refused, "\"basic\""},
    {"subword_tokenizer_type", refused, "\"wordpiece\""},
    {"mecab_kwargs", refused},
    {"sudachi_kwargs", refused},
    {"jumanpp_kwargs", refused},
    {"spm_file", refused},
    {"sp_model_kwargs", refused},
    {"merges_file", refused},
    {"add_prefix_space", refused},
    {"add_bos_token", refused},
    {"add_eos_token", refused},
    {"keep_accents", refused},
    // Choices of a call, names, and settings of the way back to text.
    {"_commit_hash", harmless},
    {"backend", harmless},
    {"chat_template", harmless},
    {"clean_text", harmless},  // no class reads it: cleaning is in tokenizer.json
    {"clean_up_tokenization_spaces", harmless},
    {"errors", harmless},
    {"full_tokenizer_file", harmless},
    {"is_local", harmless},
    {"legacy", harmless},
    {"local_files_only", harmless},
    {"max_length", harmless},
    {"model_input_names", harmless},  // types of one text are 0 either way
    {"name_or_path", harmless},
    {"pad_to_multiple_of", harmless},
    {"pad_token_type_id", harmless},
    {"padding", harmless},
    {"padding_side", harmless},  // soma pads nothing
    {"processor_class", harmless},
    {"remove_space", harmless},
    {"spaces_between_special_tokens", harmless},
    {"special_tokens_map_file", harmless},
    {"stride", harmless},
    {"tokenizer_file", harmless},
    {"transformers_version", harmless},
    {"trim_offsets", harmless},
    {"truncation", harmless},
    {"truncation_strategy", harmless},
    {"use_fast", harmless},
    {"verbose", harmless},
    {"vocab_file", harmless},
    {"wordpieces_prefix", harmless},  // no class reads it: the prefix is in tokenizer.json
});

inline constexpr auto tokenizer_keys = std::to_array<ModelKey>({
    {"version", harmless},
    {"truncation", honoured},  // the direction is honoured; the length is a choice of a call
    {"padding", honoured},     // its token
    {"added_tokens", honoured},
    {"normalizer", honoured},
    {"pre_tokenizer", honoured},
    {"post_processor", honoured},
    {"decoder", honoured},
    {"model", honoured},
});

inline constexpr auto tokenizer_model_keys = std::to_array<ModelKey>({
    {"type", honoured},
    {"vocab", honoured},
    {"unk_token", honoured},
    {"continuing_subword_prefix", honoured},
    {"max_input_chars_per_word", honoured},
    // Keys of other kinds of models.
    {"merges", refused},
    {"dropout", refused},
    {"end_of_word_suffix", refused},
    {"fuse_unk", refused},
    {"byte_fallback", refused},
    {"ignore_merges", refused},
    {"unk_id", refused},
});

inline constexpr auto byte_tokenizer_config_keys = std::to_array<ModelKey>({
    {"bos_token", honoured},
    {"eos_token", honoured},
    {"add_bos_token", honoured},
    {"add_eos_token", honoured},
    {"added_tokens_decoder", honoured},
    {"model_max_length", honoured},
    {"auto_map", refused},  // the tokenizer is code of its own
    {"add_prefix_space", refused, "false"},
    {"split_special_tokens", refused, "false"},
    {"sp_model_kwargs", refused},
    // Names, templates of conversations, and settings of the way back to text.
    {"additional_special_tokens", harmless},  // they are among the added tokens
    {"backend", harmless},
    {"chat_template", harmless},
    {"clean_up_tokenization_spaces", harmless},
    {"errors", harmless},
    {"extra_special_tokens", harmless},
    {"from_slow", harmless},
    {"is_local", harmless},
    {"legacy", harmless},
    {"local_files_only", harmless},
    {"mask_token", harmless},
    {"max_length", harmless},
    {"model_input_names", harmless},
    {"name_or_path", harmless},
    {"pad_token", harmless},  // soma pads nothing
    {"padding_side", harmless},
    {"special_tokens_map_file", harmless},
    {"tokenizer_class", harmless},  // tokenizer.json says it all
    {"tokenizer_file", harmless},
    {"transformers_version", harmless},
    {"truncation_side", harmless},
    {"unk_token", harmless},
    {"use_default_system_prompt", harmless},
    {"use_fast", harmless},
    {"vocab_file", harmless},
    {"vocab_size", harmless},
});

inline constexpr auto byte_tokenizer_model_keys = std::to_array<ModelKey>({
    {"type", honoured},
    {"vocab", honoured},
    {"merges", honoured},
    {"byte_fallback", honoured},
    {"ignore_merges", honoured},
    {"dropout", refused, "0.0"},
    {"continuing_subword_prefix", refused},
    {"end_of_word_suffix", refused},
    // No text is unknown: a byte without a piece is left out.
    {"unk_token", harmless},
    {"fuse_unk", harmless},
});

inline constexpr auto added_token_keys = std::to_array<ModelKey>({
    {"content", honoured},
    {"id", honoured},
    {"special", honoured},
    {"single_word", refused},
    {"lstrip", refused},
    {"rstrip", refused},
    {"normalized", refused},
    {"__type", harmless},
});

inline constexpr auto special_tokens_keys = std::to_array<ModelKey>({
    {"unk_token", honoured},
    {"cls_token", honoured},
    {"sep_token", honoured},
    {"pad_token", honoured},
    {"mask_token", honoured},
    {"bos_token", honoured},
    {"eos_token", honoured},
    {"additional_special_tokens", honoured},
    {"extra_special_tokens", honoured},
});

}  // namespace detail

// Calls visit(key) for each key of the table of that file.
template <class Visit>
constexpr void for_each_model_key(ModelFile file, const Visit& visit) {
  const auto all = [&](const auto& keys) {
    for (const ModelKey& key : keys) visit(key);
  };
  switch (file) {
    case ModelFile::bert_config:
      all(detail::encoder_config_keys);
      all(detail::any_config_keys);
      return all(detail::bert_config_keys);
    case ModelFile::distilbert_config:
      all(detail::encoder_config_keys);
      all(detail::any_config_keys);
      return all(detail::distilbert_config_keys);
    case ModelFile::gpt2_config:
      all(detail::decoder_config_keys);
      all(detail::any_config_keys);
      return all(detail::gpt2_config_keys);
    case ModelFile::llama_config:
      all(detail::decoder_config_keys);
      all(detail::any_config_keys);
      all(detail::rotary_config_keys);
      return all(detail::llama_config_keys);
    case ModelFile::qwen2_config:
      all(detail::decoder_config_keys);
      all(detail::any_config_keys);
      all(detail::rotary_config_keys);
      return all(detail::qwen2_config_keys);
    case ModelFile::tokenizer_config:
      return all(detail::tokenizer_config_keys);
    case ModelFile::tokenizer:
      return all(detail::tokenizer_keys);
    case ModelFile::tokenizer_model:
      return all(detail::tokenizer_model_keys);
    case ModelFile::byte_tokenizer_config:
      return all(detail::byte_tokenizer_config_keys);
    case ModelFile::byte_tokenizer_model:
      return all(detail::byte_tokenizer_model_keys);
    case ModelFile::added_token:
      return all(detail::added_token_keys);
    case ModelFile::special_tokens:
      return all(detail::special_tokens_keys);
    case ModelFile::generation_config:
      return all(detail::generation_config_keys);
    case ModelFile::adapter_config:
      return all(detail::adapter_config_keys);
  }
}

namespace detail {

// Calls refuse(key, value) for each key of the object `root` that its file's table refuses, unless
// the value is empty or neutral. `Json` is nlohmann's.
template <class Json, class Refuse>
void check_model_keys(ModelFile file, const Json& root, const Refuse& refuse) {
  for_each_model_key(file, [&](const ModelKey& key) {
    if (key.use != KeyUse::refused) return;
    const auto found = root.find(std::string(key.key));
    if (found == root.end()) return;
    const Json& value = *found;
    const bool says_nothing =
        value.is_null() || value == Json(false) || value == Json("") ||
        (value.is_structured() && value.empty()) ||
        (!key.neutral.empty() && value == Json::parse(key.neutral, nullptr, false));
    if (!says_nothing) refuse(key, value);
  });
}

}  // namespace detail
}  // namespace SOMA_NAMESPACE
