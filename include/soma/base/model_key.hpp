#pragma once
// A key of a file in a model's folder, and what is done with it. The tables are in model_keys.hpp.

#include <soma/base/config.hpp>

#include <cstdint>
#include <string_view>

namespace SOMA_NAMESPACE {

enum class ModelFile : std::uint8_t {
  bert_config,        // config.json of model_type bert
  distilbert_config,  // config.json of model_type distilbert
  gpt2_config,        // config.json of model_type gpt2
  llama_config,       // for llama and mistral
  qwen2_config,       // for qwen2
  tokenizer_config,
  tokenizer,              // tokenizer.json
  tokenizer_model,        // its "model"
  byte_tokenizer_config,  // tokenizer_config.json of a byte-level tokenizer
  byte_tokenizer_model,   // "model" of its tokenizer.json
  added_token,        // an entry of added_tokens or added_tokens_decoder, or a token as an object
  special_tokens,     // special_tokens_map.json
  generation_config,  // generation_config.json
  adapter_config,     // adapter_config.json
};

enum class KeyUse : std::uint8_t {
  honoured,  // read; a value that cannot be honoured is an error
  harmless,  // no influence on what soma computes
  refused,   // an error, except for empty values: null, false, "", [], {} and `neutral`
};

struct ModelKey {
  std::string_view key;
  KeyUse use;
  std::string_view neutral = {};  // for a refused key: one more value without effect, as JSON
};

namespace detail {

inline constexpr auto honoured = KeyUse::honoured, harmless = KeyUse::harmless,
                      refused = KeyUse::refused;

}  // namespace detail
}  // namespace SOMA_NAMESPACE
