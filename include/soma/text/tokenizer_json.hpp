#pragma once
// Tokenizers in files, as the `tokenizers` and `transformers` packages keep them: tokenizer.json
// (all of it), vocab.txt (the pieces) and tokenizer_config.json (the options).
//
// Contents are passed as texts; the caller chooses how to write them (soma/io has AtomicFile).

#include <soma/text/added_tokens.hpp>
#include <soma/text/tokenizer.hpp>
#include <soma/text/tokenizer_settings.hpp>
#include <soma/text/tokenizer_stages.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text {

// The content of tokenizer.json: everything except the maximum length of a sequence.
struct TokenizerParts {
  Vocabulary vocabulary;
  TokenizerOptions options;
  bool plain_normalizer = false;  // a BertNormalizer alone, not its parts
};

namespace detail {

class TokenizerJsonReader {
 public:
  TokenizerJsonReader(std::string_view content, std::string_view name)
      : settings_("read_tokenizer_json", name), root_(settings_.parse(content)) {}

  TokenizerParts read();

 private:
  // Before version 0.9 the package wrote no type: then a model with a prefix of inner pieces, or
  // with a longest word, is WordPiece.
  void read_model();

  // Ids may have holes.
  Vocabulary read_vocabulary();

  std::vector<AddedToken> read_added() const;
  void find_special(const Vocabulary& vocabulary, const std::vector<AddedToken>& added);

  SettingsReader settings_;
  Json root_;
  TokenizerOptions options_;
};

}  // namespace detail

// The content of a tokenizer.json with a WordPiece model, BERT's normalizer and pre-tokenizer, and
// BERT's special tokens around texts, in every equivalent form (see tokenizer_stages.hpp). Only the
// direction of truncation is read: the length is a choice of a call here. Errors
// text.tokenizer_file: not JSON, or another kind of tokenizer (the message names the kind);
// text.vocabulary.
TokenizerParts read_tokenizer_json(std::string_view content, std::string_view name = "memory");

// The content of a tokenizer.json that these packages load. The file has no place for
// TokenizerOptions::special_in_text and model_max_length: to_tokenizer_config has them.
std::string to_tokenizer_json(const Tokenizer& tokenizer);

namespace detail {

// The name of tokenizer_class, or of config.json's. Error if it names another kind, or if it says
// nothing and there is no tokenizer.json to determine the kind.
std::string checked_tokenizer_class(const SettingsReader& reader, const Json& settings,
                                    std::string_view model_class, bool has_tokenizer_json);

// Special tokens without an id in any file follow the last id, in their order, as in transformers;
// but not bos_token and eos_token, which BERT does not use: a model has no rows for them.
void number_special(const Vocabulary& vocabulary, const std::vector<std::string>& unused,
                    TokenizerOptions& options, std::vector<AddedToken>& added);

// The implementation of load_tokenizer.
class TokenizerFolder {
 public:
  // `notes` gets lines for the user; nullptr: nobody.
  TokenizerFolder(std::string_view folder, std::vector<std::string>* notes)
      : folder_(folder), notes_(notes) {}

  Tokenizer load(std::string_view model_class);

 private:
  void read_config(TokenizerParts& parts, std::string_view model_class, bool whole);
  // How texts are split, by the class. A note names what versions of transformers do differently.
  void split_by_class(const SettingsReader& reader, const Json& settings, const std::string& name,
                      TokenizerParts& parts, bool whole);
  void read_maps(TokenizerOptions& options);
  void find_unused(const SettingsReader& reader, const Json& root);

  std::string path(const char* name) const;
  bool exists(const char* name) const;
  std::string content(const char* name) const;

  std::string folder_;
  std::vector<std::string>* notes_;
  std::vector<AddedToken> added_;
  std::vector<std::string> unused_;  // bos_token, eos_token
  bool decoder_ = false;             // true: there is an added_tokens_decoder
};

}  // namespace detail

// The tokenizer of a folder: tokenizer.json if it exists, otherwise vocab.txt. Settings in
// tokenizer_config.json override tokenizer.json as its class in transformers 4 reads them, with the
// class's defaults (tokenizer_classes.hpp); `notes` gets a line where transformers 5 would split
// texts in another way. In a folder without added_tokens_decoder, the special tokens of
// special_tokens_map.json and added_tokens.json win. `model_class` is the tokenizer_class of
// config.json, which counts if tokenizer_config.json has none. Errors file.read, and those of the
// readers.
Tokenizer load_tokenizer(std::string_view folder, std::string_view model_class = "",
                         std::vector<std::string>* notes = nullptr);

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/tokenizer_json.ipp>
#endif
