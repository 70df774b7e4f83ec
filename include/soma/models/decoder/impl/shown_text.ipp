#pragma once
// The functions of shown_text.hpp.

#include <soma/models/decoder/shown_text.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

SOMA_INLINE ShownText::ShownText(const text::ByteTokenizer& tokenizer,
                                 const std::vector<std::string>& stop_texts,
                                 std::span<const std::int32_t> prompt)
    : stream_(tokenizer), stop_texts_(&stop_texts) {
  for (const std::int32_t id : prompt) stream_.add(id);
}

SOMA_INLINE std::string ShownText::add(std::int32_t id) {
  if (stopped_) return {};
  held_ += stream_.add(id);
  return release();
}

SOMA_INLINE std::string ShownText::finish() {
  if (stopped_) return {};
  held_ += stream_.finish();
  std::string shown = release();
  if (!stopped_) shown += std::exchange(held_, {});
  return shown;
}

SOMA_INLINE std::string ShownText::release() {
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

}  // namespace SOMA_NAMESPACE::models
