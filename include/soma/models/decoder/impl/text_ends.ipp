#pragma once
// ShownText: the characters of a text that may be shown while it is being written. Those that may
// begin a stop text are held back.

#include <soma/text/byte_pairs/byte_tokenizer.hpp>
#include <soma/text/byte_pairs/text_stream.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models::detail {

class ShownText {
 public:
  // Tokenizer and stop texts outlive the object. `prompt`: the tokens before the text, because a
  // space before the first token of all is no part of a text.
  ShownText(const text::ByteTokenizer& tokenizer, const std::vector<std::string>& stop_texts,
            std::span<const std::int32_t> prompt)
      : stream_(tokenizer), stop_texts_(&stop_texts) {
    for (const std::int32_t id : prompt) stream_.add(id);
  }

  // The further characters that are shown with this token.
  std::string add(std::int32_t id) {
    held_ += stream_.add(id);
    return release();
  }

  // The rest, at the end of the text.
  std::string finish() {
    if (stopped_) return {};
    held_ += stream_.finish();
    std::string shown = release();
    if (!stopped_) shown += std::exchange(held_, {});
    return shown;
  }

  // True once a stop text has come: no character behind its beginning was shown.
  bool stopped() const { return stopped_; }

 private:
  std::string release() {
    std::size_t end = held_.npos;
    for (const std::string& text : *stop_texts_) end = (std::min)(end, held_.find(text));
    if (end != held_.npos) {
      stopped_ = true;
      held_.resize(end);
      return std::exchange(held_, {});
    }
    std::size_t kept = 0;  // bytes at the end that may begin a stop text
    for (const std::string& text : *stop_texts_)
      for (std::size_t length = (std::min)(text.size() - 1, held_.size()); length > kept; --length)
        if (held_.ends_with(std::string_view(text).substr(0, length))) kept = length;
    std::string shown = held_.substr(0, held_.size() - kept);
    held_.erase(0, shown.size());
    return shown;
  }

  text::TextStream stream_;
  const std::vector<std::string>* stop_texts_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace SOMA_NAMESPACE::models::detail
