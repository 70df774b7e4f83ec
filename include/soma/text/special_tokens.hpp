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

namespace SOMA_NAMESPACE::text {

class SpecialTokenFinder {
 public:
  struct Found {
    Span source;
    std::int32_t id = -1;
  };

  // `token` is not empty.
  void add(std::string token, std::int32_t id);

  // The first special token at `at` or later; id -1 and the text's end if there is none.
  Found next(std::string_view text, std::size_t at) const;

 private:
  std::vector<std::pair<std::string, std::int32_t>> tokens_;
  std::array<bool, 256> begins_{};
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/special_tokens.ipp>
#endif
