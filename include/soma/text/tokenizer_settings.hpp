#pragma once
// Settings of tokenizers in JSON: checked reading of fields, and tokenizer_config.json. The only
// place in text/ that includes the JSON library.

#include <soma/base/error.hpp>
#include <soma/base/json_limits.hpp>
#include <soma/base/model_keys.hpp>
#include <soma/text/tokenizer.hpp>
#include <soma/text/tokenizer_classes.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace SOMA_NAMESPACE::text {

namespace detail {

using Json = nlohmann::json;

// True if the tokenizer itself uses the token.
bool has_role(const TokenizerOptions& options, std::string_view token);

// Reads fields of a file's objects. A field that is absent or null leaves its target unchanged,
// except that null empties an optional target.
class SettingsReader {
 public:
  // The arguments must outlive the reader. `wanted`: the kind of tokenizer, for messages.
  SettingsReader(std::string_view operation, std::string_view name,
                 std::string_view wanted = "a WordPiece tokenizer as BERT's")
      : operation_(operation), name_(name), wanted_(wanted) {}

  std::string_view name() const { return name_; }

  Json parse(std::string_view content) const;

  // Error: a key that the table refuses (base/model_keys.hpp).
  void check_keys(ModelFile file, const Json& root) const;

  // nullptr if there is none.
  const Json* object(const Json& parent, const char* key) const;
  // The object's "type"; "(none)" if it has none.
  std::string type_of(const Json& object) const;

  void read(const Json& parent, const char* key, std::string& target) const;
  void read(const Json& parent, const char* key, bool& target) const;
  void read(const Json& parent, const char* key, std::optional<bool>& target) const;
  void read(const Json& parent, const char* key, std::size_t& target) const;
  // A text, or an object with its text in "content".
  void read_token(const Json& parent, const char* key, std::string& target) const;
  // Accepts a float such as 512.0; transformers writes 10^30 for "no limit".
  void read_length(const Json& parent, const char* key, std::size_t& target) const;

  // A token object must have no flag that changes where the token is found in a text: a token that
  // takes the spaces around it, or is searched in normalized text, is an error.
  void check_token(const Json& token, std::string_view which) const;
  // "right" or "left", in any case.
  void read_side(const Json& parent, const char* key, TruncationSide& target) const;
  // Calls take for a list of tokens, or for an object whose values are tokens.
  template <class Take>
  void for_each_token(const Json& parent, const char* key, const Take& take) const {
    const Json* all = field(parent, key);
    if (all == nullptr) return;
    if (!all->is_structured()) refuse_field(key, *all, "a list of tokens");
    for (const Json& each : *all) take(token_text(each, key));
  }

  // The value as JSON, or its beginning.
  static std::string shown(const Json& value);
  [[noreturn]] void refuse(const std::string& problem) const;

 private:
  std::string token_text(const Json& token, const char* key) const;

  const Json* field(const Json& parent, const char* key) const;
  [[noreturn]] void refuse_field(const char* key, const Json& given, const char* wanted) const;

  std::string_view operation_, name_, wanted_;
};

// The class that tokenizer_config.json names, or BertTokenizer. Error: another kind of tokenizer.
const TokenizerClass& class_of(const SettingsReader& settings, const Json& root);
// The keys of tokenizer_config.json that decide how texts are split.
SplitKeys read_split_keys(const SettingsReader& settings, const Json& root);

// Reads the special tokens of tokenizer_config.json or special_tokens_map.json. Tokens without a
// role here are added to more_special.
void read_special_tokens(const SettingsReader& settings, const Json& root,
                         TokenizerOptions& options);

}  // namespace detail

// `options` with the settings of a tokenizer_config.json, by the table of base/model_keys.hpp: how
// text is split (if its class reads that, see tokenizer_classes.hpp), special tokens,
// split_special_tokens (the opposite of special_in_text), model_max_length and truncation_side.
// read_added_tokens reads added_tokens_decoder. Error text.tokenizer_file: another kind of
// tokenizer, or settings that BERT's tokenizer here does not have.
TokenizerOptions read_tokenizer_config(std::string_view content, TokenizerOptions options = {},
                                       std::string_view name = "memory");

// `options` with the special tokens of a special_tokens_map.json. Error text.tokenizer_file.
TokenizerOptions read_special_tokens_map(std::string_view content, TokenizerOptions options = {},
                                         std::string_view name = "memory");

// The content of a tokenizer_config.json that `transformers` reads.
std::string to_tokenizer_config(const TokenizerOptions& options);

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/tokenizer_settings.ipp>
#endif
