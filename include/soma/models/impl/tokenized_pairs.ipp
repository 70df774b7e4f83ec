#pragma once
// The functions of tokenized_pairs.hpp.

#include <soma/models/tokenized_pairs.hpp>

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

SOMA_INLINE TokenizedPairs tokenize_pairs(Context& context, const text::Tokenizer& tokenizer,
                                          std::span<const std::string_view> texts,
                                          std::span<const std::string_view> pairs,
                                          std::size_t max_length, const StopFlag* stop) {
  TokenizedPairs all;
  if (pairs.empty()) {
    text::TokenizedTexts tokens = tokenizer.encode_all(context, texts, max_length, stop);
    all.ids = std::move(tokens.ids);
    all.offsets = std::move(tokens.offsets);
    return all;
  }
  if (pairs.size() != texts.size())
    fail(error_id::data_labels, "TextClassifier", "second texts", std::to_string(pairs.size()),
         "none, or one for each of " + std::to_string(texts.size()) + " texts");
  const text::EncodeOptions options{.max_length = max_length};
  std::vector<text::Encoding> found(texts.size());
  const std::size_t parts = static_cast<std::size_t>(context.executor().width) * 8;
  parallel(context, static_cast<int>(parts), [&](int index) {
    const auto part = static_cast<std::size_t>(index);
    const std::size_t first = texts.size() * part / parts, end = texts.size() * (part + 1) / parts;
    for (std::size_t i = first; i < end && !(stop != nullptr && stop->requested()); ++i)
      found[i] = tokenizer.encode(texts[i], pairs[i], options);
  });
  check_stop(stop, "TextClassifier");
  all.offsets.push_back(0);
  for (const text::Encoding& encoding : found) {
    all.ids.insert(all.ids.end(), encoding.ids.begin(), encoding.ids.end());
    all.types.insert(all.types.end(), encoding.types.begin(), encoding.types.end());
    all.offsets.push_back(all.ids.size());
  }
  return all;
}

}  // namespace SOMA_NAMESPACE::models::detail
