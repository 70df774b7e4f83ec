#pragma once
// Byte-level tokenizers in files: tokenizer.json, vocab.json with merges.txt, and
// tokenizer_config.json. Every form that is equivalent to one of the kinds of word_scanner.hpp is
// read; an error quotes any other.

#include <soma/text/byte_pairs/byte_tokenizer.hpp>
#include <soma/text/tokenizer_settings.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace SOMA_NAMESPACE::text {

// The files of a folder that make its tokenizer; a model that is saved carries them along byte for
// byte.
inline constexpr std::string_view byte_tokenizer_files[] = {"tokenizer.json",
                                                            "vocab.json",
                                                            "merges.txt",
                                                            "tokenizer.model",
                                                            "tokenizer_config.json",
                                                            "special_tokens_map.json",
                                                            "added_tokens.json"};

// The content of a tokenizer.json. Error text.tokenizer_file.
ByteTokenizerParts read_byte_tokenizer_json(std::string_view content,
                                            std::string_view name = "memory");

// The contents of vocab.json and merges.txt, with GPT-2's words. Error text.tokenizer_file.
ByteTokenizerParts read_vocab_and_merges(std::string_view vocab, std::string_view merges,
                                         std::string_view name = "memory");

// Adds what a tokenizer_config.json says: bos_token and eos_token, whether texts get them
// (add_bos_token, add_eos_token), and further added tokens. Error text.tokenizer_file.
void read_byte_tokenizer_config(std::string_view content, ByteTokenizerParts& parts,
                                std::string_view name = "memory");

namespace detail {

class ByteTokenizerReader {
 public:
  static constexpr std::string_view wanted =
      "a byte-level tokenizer as GPT-2's, SmolLM's, Qwen2's or Llama's";

  ByteTokenizerReader(std::string_view content, std::string_view name)
      : settings_("ByteTokenizer::from_files", name, wanted), root_(settings_.parse(content)) {}

  ByteTokenizerParts read();
  ByteTokenizerParts read_vocab(std::string_view merges);
  void read_config(ByteTokenizerParts& parts);

 private:
  void read_normalizer();
  void read_pre_tokenizer();
  void read_metaspace(const Json& stage);
  WordPattern pattern_of(const Json& stage) const;
  void check_byte_level(const Json& stage, bool splits) const;
  void read_model();
  void number_pieces(const Json& vocab);
  void add_merge(std::string_view left, std::string_view right);
  void add_merge(std::string_view pair);
  void read_merges(const Json& list);
  void read_added();
  ByteAddedToken added_token(const Json& entry, std::int32_t id) const;
  void read_post_processor();
  void read_template(const Json& processor);
  void check_decoder() const;
  // The bytes of a piece as the file writes it; empty: characters that stand for no bytes.
  std::string bytes_of(std::string_view piece) const;
  std::int32_t token_id(const ByteTokenizerParts& parts, std::string_view token) const;

  SettingsReader settings_;
  Json root_;
  ByteTokenizerParts parts_{};
  std::unordered_map<std::string_view, std::int32_t> ids_;  // by piece as written
};

}  // namespace detail
}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/byte_pairs/impl/byte_tokenizer_json.ipp>
#endif
