#pragma once
// Finds special tokens that are written out in a text, such as "[MASK]".

#include <soma/text/word_splitter.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace soma::text {

class SpecialTokenFinder {
 public:
  struct Found {
    Span source;
    std::int32_t id = -1;
  };

  // `token` is not empty.
  void add(std::string token, std::int32_t id) {
    begins_[static_cast<unsigned char>(token[0])] = true;
    tokens_.emplace_back(std::move(token), id);
    // Longer tokens first: the first match is the longest.
    std::stable_sort(tokens_.begin(), tokens_.end(),
                     [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  }

  // The first special token at `at` or later; id -1 and the text's end if there is none.
  Found next(std::string_view text, std::size_t at) const {
    for (; at < text.size(); ++at) {
      if (!begins_[static_cast<unsigned char>(text[at])]) continue;
      for (const auto& [token, id] : tokens_)
        if (text.substr(at).starts_with(token)) return {{at, at + token.size()}, id};
    }
    return {{text.size(), text.size()}, -1};
  }

 private:
  std::vector<std::pair<std::string, std::int32_t>> tokens_;
  std::array<bool, 256> begins_{};
};

}  // namespace soma::text
