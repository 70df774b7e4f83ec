#pragma once
// The stages of a tokenizer.json around its model: normalizer, pre-tokenizer, post-processor. Each
// stage may be written in several ways, alone or as a Sequence. Every form that is equivalent to
// BERT's stage is accepted; an error names any other.

#include <soma/text/tokenizer_settings.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text::detail {

// The elements of a stage, with nested sequences flattened. Error if there is no such stage; `key`
// is its name, `list` the name of a Sequence's elements.
void flatten_stage(const SettingsReader& settings, const Json& stage, const char* key,
                   const char* list, std::vector<const Json*>& elements);
std::vector<const Json*> stage_elements(const SettingsReader& settings, const Json& root,
                                        const char* key, const char* list);
[[noreturn]] void refuse_stage(const SettingsReader& settings, const char* key,
                               std::string_view type, std::string_view wanted);

// BertNormalizer, or its parts: NFD followed by StripAccents, and Lowercase. These two commute with
// each other and with the steps of a BertNormalizer before them. Strip removes only spaces that
// separate words anyway. No normalizer means no change. Returns true for a BertNormalizer alone.
bool read_normalizer(const SettingsReader& settings, const Json& root, SplitOptions& split);

// BertPreTokenizer, or its parts: WhitespaceSplit and isolated Punctuation.
void check_pre_tokenizer(const SettingsReader& settings, const Json& root);

// [CLS] A [SEP] and [CLS] A [SEP] B [SEP], as BertProcessing or as a template, with the
// vocabulary's ids.
class PostProcessorReader {
 public:
  // The arguments must outlive the reader.
  PostProcessorReader(const SettingsReader& settings, const Vocabulary& vocabulary,
                      TokenizerOptions& options)
      : settings_(settings), vocabulary_(vocabulary), options_(options) {}

  void read(const Json& root);

 private:
  void read_template(const Json& processor);
  // "A0" or "B1" for a text and its type, "0 [CLS]" for a special token of that type.
  std::vector<std::string> places(const Json& processor, const char* key) const;
  void check_id(const std::string& token, const Json& id) const;

  const SettingsReader& settings_;
  const Vocabulary& vocabulary_;
  TokenizerOptions& options_;
};

}  // namespace SOMA_NAMESPACE::text::detail

#ifndef SOMA_DISPATCH
#include <soma/text/impl/tokenizer_stages.ipp>
#endif
