#pragma once
// ShownText: the characters of a text that may be shown while it is being written. Characters that
// may begin a stop text are held back; a stop text may begin and end inside of tokens.

#include <soma/text/byte_pairs/byte_tokenizer.hpp>
#include <soma/text/byte_pairs/text_stream.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::models {

class ShownText {
 public:
  // Tokenizer and stop texts outlive the object. `prompt`: the tokens before the text, because a
  // space before the first token of all is no part of a text.
  ShownText(const text::ByteTokenizer& tokenizer, const std::vector<std::string>& stop_texts,
            std::span<const std::int32_t> prompt = {});

  // The further characters that are shown with this token. Error text.token_id.
  std::string add(std::int32_t id);
  // The rest, at the end of the text.
  std::string finish();
  // True once a stop text has come: no character from its beginning on is shown.
  bool stopped() const { return stopped_; }

 private:
  std::string release();

  text::TextStream stream_;
  const std::vector<std::string>* stop_texts_;
  std::string held_{};
  bool stopped_ = false;
};

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/decoder/impl/shown_text.ipp>
#endif
