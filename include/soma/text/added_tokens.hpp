#pragma once
// Tokens that were added to a tokenizer after its vocabulary was made, from added_tokens of
// tokenizer.json, added_tokens_decoder of tokenizer_config.json, or added_tokens.json.

#include <soma/text/tokenizer_settings.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text {

// A token that is found in a text as written, and is no piece of a word.
struct AddedToken {
  std::string content;
  std::size_t id = 0;

  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

namespace detail {

// Reads an entry of a list. Tokens here are special, and are found in the text as written: a token
// that is searched in normalized text, or takes the spaces around it, is an error.
AddedToken added_token(const SettingsReader& settings, const Json& entry, std::size_t id);

}  // namespace detail

// The tokens of added_tokens_decoder in the content of a tokenizer_config.json, an object of ids to
// tokens; `present`: true if there is one. Error text.tokenizer_file.
std::vector<AddedToken> read_added_tokens(std::string_view content, bool& present,
                                          std::string_view name = "memory");

// The same for an added_tokens.json, an object of tokens to ids. Tokens that are not special in
// `options` are searched in normalized text, which is an error.
std::vector<AddedToken> read_added_tokens_map(std::string_view content,
                                              const TokenizerOptions& options,
                                              std::string_view name = "memory");

namespace detail {

// The most ids that a file's list may name: lists have few holes, and a number in a file is not
// trusted.
std::size_t most_ids(std::size_t count);

// The vocabulary with further tokens under their ids. Tokens that it already has are pieces, or
// added tokens. Errors text.tokenizer_file (another piece has the id, or the token has another id),
// text.vocabulary.
Vocabulary with_added(const SettingsReader& settings, const Vocabulary& vocabulary,
                      const std::vector<AddedToken>& tokens);

// Adds special tokens without a role, each once.
void add_special(TokenizerOptions& options, const std::vector<AddedToken>& tokens);

}  // namespace detail
}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/added_tokens.ipp>
#endif
