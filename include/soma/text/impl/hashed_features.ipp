#pragma once
// The functions of hashed_features.hpp.

#include <soma/text/hashed_features.hpp>

#include <soma/base/error.hpp>
#include <soma/base/record.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE HashedFeatures::HashedFeatures(const HashedFeatureOptions& options)
    : options_(options) {
  const auto check = [](std::string_view name, std::uint64_t value, std::uint64_t least,
                        std::uint64_t most) {
    if (value < least || value > most)
      fail(error_id::text_features, "HashedFeatures", name, std::to_string(value),
           std::to_string(least) + " to " + std::to_string(most));
  };
  check("tokens", static_cast<std::uint64_t>(options.tokens), 0, 2);
  check("window", options.window, 1, 64);
  check("ngrams", options.ngrams, 1, 8);
  if (options.parts != 0) check("parts", options.parts, 2, 64);
  check("bits", static_cast<std::uint64_t>(options.bits < 0 ? 0 : options.bits), 10, 26);
  start_ = mixed(options.seed + first);
}

SOMA_INLINE std::size_t HashedFeatures::rows() const { return std::size_t{1} << options_.bits; }

SOMA_INLINE void HashedFeatures::describe(soma::Record& record) const {
  record.set("features.version", version);
  record.set("features.tokens", to_string(options_.tokens));
  record.set("features.window", options_.window);
  record.set("features.ngrams", options_.ngrams);
  record.set("features.parts", options_.parts);
  record.set("features.bits", options_.bits);
  record.set("features.seed", options_.seed);
}

SOMA_INLINE void HashedFeatures::add(std::string_view text, std::vector<std::int32_t>& ids,
                                     std::vector<std::uint64_t>& tokens) const {
  tokens.clear();
  options_.tokens == TokenKind::characters ? add_windows(text, tokens)
                                           : add_words(text, tokens, ids);
  if (tokens.empty()) tokens.push_back(start_);
  for (const std::uint64_t token : tokens) ids.push_back(row_of(token));
  for (std::size_t size = 2; size <= options_.ngrams; ++size)
    for (std::size_t i = 0; i + size <= tokens.size(); ++i) {
      std::uint64_t hash = mixed(start_ + size);
      for (std::size_t k = i; k < i + size; ++k) hash = mixed(hash * golden + tokens[k]);
      ids.push_back(row_of(hash));
    }
}

SOMA_INLINE void HashedFeatures::add(std::string_view text, std::vector<std::int32_t>& ids) const {
  std::vector<std::uint64_t> tokens;
  add(text, ids, tokens);
}

SOMA_INLINE std::int32_t HashedFeatures::row_of(std::uint64_t hash) const {
  return static_cast<std::int32_t>(hash >> (64 - options_.bits));
}

SOMA_INLINE void HashedFeatures::add_words(std::string_view text,
                                           std::vector<std::uint64_t>& tokens,
                                           std::vector<std::int32_t>& ids) const {
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const unsigned char* const end = at + text.size();
  const bool marks = options_.tokens == TokenKind::words_and_punctuation;
  while (at != end) {
    if (is_space(*at)) {
      ++at;
      continue;
    }
    const unsigned char* const begin = at;
    std::uint64_t hash = start_;
    if (marks && class_of(*at) == Class::mark) {
      hash = added(hash, *at++);
    } else {
      for (; at != end && (marks ? class_of(*at) == Class::word : !is_space(*at)); ++at)
        hash = added(hash, *at);
      if (options_.parts != 0)
        add_parts(std::string_view(text.data() + (begin - start_of(text)),
                                   static_cast<std::size_t>(at - begin)),
                  ids);
    }
    tokens.push_back(mixed(hash));
  }
}

SOMA_INLINE const unsigned char* HashedFeatures::start_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

SOMA_INLINE void HashedFeatures::add_parts(std::string_view word,
                                           std::vector<std::int32_t>& ids) const {
  // Places where code points begin: "<" is at place 0, ">" at the last but one.
  const std::size_t bytes = word.size() + 2;
  const auto byte_at = [&](std::size_t i) {
    return i == 0           ? static_cast<unsigned char>('<')
           : i + 1 == bytes ? static_cast<unsigned char>('>')
                            : static_cast<unsigned char>(word[i - 1]);
  };
  const auto next = [&](std::size_t i) {
    do ++i;
    while (i < bytes && continues(byte_at(i)));
    return i;
  };
  std::size_t end = 0, points = 0;
  for (; end < bytes && points < options_.parts; ++points) end = next(end);
  if (points < options_.parts) return;
  for (std::size_t begin = 0;; begin = next(begin), end = next(end)) {
    std::uint64_t hash = start_ ^ golden;  // apart from the words
    for (std::size_t i = begin; i < end; ++i) hash = added(hash, byte_at(i));
    ids.push_back(row_of(mixed(hash)));
    if (end == bytes) break;
  }
}

SOMA_INLINE void HashedFeatures::add_windows(std::string_view text,
                                             std::vector<std::uint64_t>& tokens) const {
  if (text.empty()) return;
  const auto byte_at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto next = [&](std::size_t i) {
    do ++i;
    while (i < text.size() && continues(byte_at(i)));
    return i;
  };
  std::size_t end = 0;
  for (std::size_t points = 0; end < text.size() && points < options_.window; ++points)
    end = next(end);
  for (std::size_t begin = 0;; begin = next(begin), end = next(end)) {
    std::uint64_t hash = start_;
    for (std::size_t i = begin; i < end; ++i) hash = added(hash, byte_at(i));
    tokens.push_back(mixed(hash));
    if (end == text.size()) break;
  }
}

}  // namespace SOMA_NAMESPACE::text
