#pragma once
// The functions of special_tokens.hpp.

#include <soma/text/special_tokens.hpp>

#include <soma/text/word_splitter.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE void SpecialTokenFinder::add(std::string token, std::int32_t id) {
  begins_[static_cast<unsigned char>(token[0])] = true;
  tokens_.emplace_back(std::move(token), id);
  // Longer tokens first: the first match is the longest.
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
}

SOMA_INLINE auto SpecialTokenFinder::next(std::string_view text, std::size_t at) const -> Found {
  for (; at < text.size(); ++at) {
    if (!begins_[static_cast<unsigned char>(text[at])]) continue;
    for (const auto& [token, id] : tokens_)
      if (text.substr(at).starts_with(token)) return {{at, at + token.size()}, id};
  }
  return {{text.size(), text.size()}, -1};
}

}  // namespace SOMA_NAMESPACE::text
