#pragma once
// TextStream: the text of tokens that come one by one, in whole characters.

#include <soma/text/byte_pairs/byte_tokenizer.hpp>

#include <cstdint>
#include <string>

namespace SOMA_NAMESPACE::text {

class TextStream {
 public:
  // The tokenizer must outlive the stream.
  explicit TextStream(const ByteTokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // The characters that are complete with this token, in UTF-8; up to three bytes of an incomplete
  // one are held back. Special tokens have no text. What add() and finish() return makes together
  // what ByteTokenizer::decode returns for the same tokens. Error text.token_id.
  std::string add(std::int32_t id);

  // The end: U+FFFD for a character that stayed incomplete.
  std::string finish();

 private:
  const ByteTokenizer& tokenizer_;
  std::string held_;  // bytes without their last
  bool begun_ = false;
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/byte_pairs/impl/text_stream.ipp>
#endif
