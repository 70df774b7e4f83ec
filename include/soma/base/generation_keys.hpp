#pragma once
// The keys of generation_config.json. Source: the class GenerationConfig of Hugging Face
// transformers 4 and 5.

#include <soma/base/model_key.hpp>

#include <array>

namespace SOMA_NAMESPACE::detail {

inline constexpr auto generation_config_keys = std::to_array<ModelKey>({
    {"do_sample", honoured},
    {"temperature", honoured},
    {"top_k", honoured},
    {"top_p", honoured},
    {"min_p", honoured},
    {"repetition_penalty", honoured},
    {"max_new_tokens", honoured},
    {"max_length", honoured},
    {"eos_token_id", honoured},
    {"stop_strings", honoured},
    // Keys that change the text.
    {"num_beams", refused, "1"},
    {"num_beam_groups", refused, "1"},
    {"num_return_sequences", refused, "1"},
    {"guidance_scale", refused, "1"},
    {"penalty_alpha", refused, "0"},
    {"dola_layers", refused},
    {"typical_p", refused, "1"},
    {"top_h", refused},
    {"epsilon_cutoff", refused, "0"},
    {"eta_cutoff", refused, "0"},
    {"encoder_repetition_penalty", refused, "1"},
    {"diversity_penalty", refused, "0"},
    {"no_repeat_ngram_size", refused, "0"},
    {"encoder_no_repeat_ngram_size", refused, "0"},
    {"bad_words_ids", refused},
    {"force_words_ids", refused},
    {"constraints", refused},
    {"sequence_bias", refused},
    {"suppress_tokens", refused},
    {"begin_suppress_tokens", refused},
    {"forced_bos_token_id", refused},
    {"forced_eos_token_id", refused},
    {"forced_decoder_ids", refused},
    {"exponential_decay_length_penalty", refused},
    {"min_length", refused, "0"},
    {"min_new_tokens", refused, "0"},
    {"max_time", refused},
    {"token_healing", refused},
    {"watermarking_config", refused},
    {"remove_invalid_values", refused},  // NaN would become numbers
    {"assistant_early_exit", refused},
    // Without beams these have no meaning.
    {"early_stopping", harmless},
    {"length_penalty", harmless},
    {"renormalize_logits", harmless},  // probabilities add to 1 either way
    // Names, caches, and ways to the same text.
    {"_from_model_config", harmless},
    {"assistant_confidence_threshold", harmless},
    {"assistant_ensemble_weight", harmless},
    {"assistant_lookbehind", harmless},
    {"bos_token_id", harmless},
    {"cache_config", harmless},
    {"cache_implementation", harmless},
    {"compile_config", harmless},
    {"continuous_batching_config", harmless},
    {"decoder_start_token_id", harmless},
    {"disable_compile", harmless},
    {"is_assistant", harmless},
    {"low_memory", harmless},
    {"max_cache_len", harmless},
    {"max_matching_ngram_size", harmless},
    {"num_assistant_tokens", harmless},
    {"num_assistant_tokens_schedule", harmless},
    {"output_attentions", harmless},
    {"output_hidden_states", harmless},
    {"output_logits", harmless},
    {"output_scores", harmless},
    {"pad_token_id", harmless},
    {"prefill_chunk_size", harmless},
    {"prompt_lookup_num_tokens", harmless},
    {"return_dict_in_generate", harmless},
    {"speculation_type", harmless},
    {"target_lookbehind", harmless},
    {"transformers_version", harmless},
    {"use_cache", harmless},
    {"use_mtp", harmless},
});

}  // namespace SOMA_NAMESPACE::detail
