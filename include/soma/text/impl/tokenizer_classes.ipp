#pragma once
// The functions of tokenizer_classes.hpp.

#include <soma/text/tokenizer_classes.hpp>

#include <soma/base/error.hpp>
#include <soma/text/tokenizer_options.hpp>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::text::detail {

SOMA_INLINE const TokenizerClass* find_tokenizer_class(std::string_view name) {
  if (name.ends_with("Fast")) name.remove_suffix(4);
  const auto* found = std::find_if(std::begin(tokenizer_classes), std::end(tokenizer_classes),
                                   [&](const TokenizerClass& known) { return known.name == name; });
  return found == std::end(tokenizer_classes) ? nullptr : found;
}

SOMA_INLINE TokenizerOptions apply_split_rule(SplitRule rule, TokenizerOptions options,
                                              const SplitKeys& keys, bool whole, bool plain) {
  if (whole && (rule == SplitRule::file || (rule == SplitRule::normalizer && !plain)))
    return options;
  if (!whole || rule != SplitRule::normalizer) {
    options.split = {};
    options.continuing = TokenizerOptions{}.continuing;
  }
  options.split.lowercase = rule == SplitRule::accent_keys || keys.lowercase.value_or(true);
  options.split.strip_accents = keys.strip_accents.value_or(std::nullopt);
  options.split.chinese_chars = keys.chinese_chars.value_or(true);
  return options;
}

SOMA_INLINE std::string difference_of_splits(const TokenizerOptions& first,
                                             const TokenizerOptions& second) {
  std::string text;
  const auto compare = [&](std::string_view what, const std::string& one,
                           const std::string& other) {
    if (one != other)
      text.append(text.empty() ? "" : ", ")
          .append(what)
          .append(" ")
          .append(one)
          .append(" and not " + other);
  };
  const auto said = [](bool value) { return std::string(value ? "true" : "false"); };
  const SplitOptions &a = first.split, &b = second.split;
  compare("lower case", said(a.lowercase), said(b.lowercase));
  compare("stripped accents", said(a.strips_accents()), said(b.strips_accents()));
  compare("ideographs apart", said(a.chinese_chars), said(b.chinese_chars));
  compare("cleaned text", said(a.clean_text), said(b.clean_text));
  compare("the longest word", std::to_string(a.max_word_chars), std::to_string(b.max_word_chars));
  compare("the prefix", soma::quoted(first.continuing), soma::quoted(second.continuing));
  return text;
}

}  // namespace SOMA_NAMESPACE::text::detail
