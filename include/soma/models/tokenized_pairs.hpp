#pragma once
// Texts, or pairs of texts, as the token lists of a batch.

#include <soma/base/error.hpp>
#include <soma/runtime/parallel.hpp>
#include <soma/runtime/stop_flag.hpp>
#include <soma/text/tokenizer.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models::detail {

// The tokens of text i are ids[offsets[i]] up to ids[offsets[i + 1]].
struct TokenizedPairs {
  std::vector<std::int32_t> ids{};
  std::vector<std::int32_t> types{};  // for pairs: 0 for tokens of the first text, 1 for the second
  std::vector<std::size_t> offsets{};
};

// Uses all threads of the context; the result does not depend on their number. `pairs`: empty, or
// the second text of each. Errors data.labels (another number of pairs), runtime.stopped, and those
// of Tokenizer::encode.
TokenizedPairs tokenize_pairs(Context& context, const text::Tokenizer& tokenizer,
                              std::span<const std::string_view> texts,
                              std::span<const std::string_view> pairs, std::size_t max_length,
                              const StopFlag* stop = nullptr);

}  // namespace SOMA_NAMESPACE::models::detail

#ifndef SOMA_DISPATCH
#include <soma/models/impl/tokenized_pairs.ipp>
#endif
