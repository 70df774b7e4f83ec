#pragma once
// The classes of tokenizers in transformers that are BERT's, and what each reads: a setting of
// tokenizer_config.json counts only for a class that reads it. Checked against transformers 4.57
// and 5.24 (tests/text/tokenizer_classes.py).

#include <soma/text/tokenizer_options.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::text::detail {

// The settings that decide how texts are split: three keys of tokenizer_config.json, with the
// defaults of the class (do_lower_case true, strip_accents none, tokenize_chinese_chars true), or
// tokenizer.json.
enum class SplitRule : std::uint8_t {
  file,         // tokenizer.json. In a folder without it: as keys
  normalizer,   // tokenizer.json, but the keys replace settings of a plain BertNormalizer
  keys,         // the keys; of tokenizer.json neither normalizer, prefix nor the longest word count
  accent_keys,  // the same, except that do_lower_case is not read
};

struct TokenizerClass {
  std::string_view name;  // without "Fast" at its end
  // By the versions of transformers; fast_5: of the class with "Fast".
  SplitRule version_4, version_5, fast_5;
  bool needs_json = false;  // the class says nothing: only tokenizer.json says what it is
};

inline constexpr TokenizerClass tokenizer_classes[] = {
    {"BertTokenizer", SplitRule::normalizer, SplitRule::keys, SplitRule::keys},
    {"DistilBertTokenizer", SplitRule::normalizer, SplitRule::keys, SplitRule::keys},
    {"ElectraTokenizer", SplitRule::normalizer, SplitRule::keys, SplitRule::keys},
    {"MobileBertTokenizer", SplitRule::normalizer, SplitRule::keys, SplitRule::keys},
    {"LxmertTokenizer", SplitRule::normalizer, SplitRule::keys, SplitRule::keys},
    {"SqueezeBertTokenizer", SplitRule::normalizer, SplitRule::keys, SplitRule::keys},
    {"LayoutLMTokenizer", SplitRule::normalizer, SplitRule::keys, SplitRule::keys},
    {"ConvBertTokenizer", SplitRule::normalizer, SplitRule::file, SplitRule::file},
    {"RetriBertTokenizer", SplitRule::normalizer, SplitRule::file, SplitRule::file},
    {"DPRReaderTokenizer", SplitRule::normalizer, SplitRule::accent_keys, SplitRule::file},
    {"DPRQuestionEncoderTokenizer", SplitRule::normalizer, SplitRule::accent_keys, SplitRule::file},
    {"DPRContextEncoderTokenizer", SplitRule::normalizer, SplitRule::accent_keys, SplitRule::file},
    {"PreTrainedTokenizer", SplitRule::file, SplitRule::file, SplitRule::file, true},
    {"TokenizersBackend", SplitRule::file, SplitRule::file, SplitRule::file, true},
};

// nullptr: another kind of tokenizer. "BertTokenizerFast" is found as "BertTokenizer".
const TokenizerClass* find_tokenizer_class(std::string_view name);

// The three keys, as far as tokenizer_config.json has them.
struct SplitKeys {
  std::optional<bool> lowercase{};
  std::optional<std::optional<bool>> strip_accents{};
  std::optional<bool> chinese_chars{};
};

// The options by a rule. `whole`: `options` are those of a tokenizer.json; `plain`: its normalizer
// is a BertNormalizer alone.
TokenizerOptions apply_split_rule(SplitRule rule, TokenizerOptions options, const SplitKeys& keys,
                                  bool whole, bool plain);

// How two ways to split differ, in words; empty if they do not.
std::string difference_of_splits(const TokenizerOptions& first, const TokenizerOptions& second);

}  // namespace SOMA_NAMESPACE::text::detail

#ifndef SOMA_DISPATCH
#include <soma/text/impl/tokenizer_classes.ipp>
#endif
