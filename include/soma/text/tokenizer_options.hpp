#pragma once
// Options of a tokenizer, and options of its calls.

#include <soma/text/word_splitter.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::text {

inline constexpr std::size_t no_limit = (std::numeric_limits<std::size_t>::max)();

// The end of a text that is cut off if the text is too long.
enum class TruncationSide : std::uint8_t { right, left };

struct TokenizerOptions {
  SplitOptions split = {};
  // Pieces with a meaning of their own. The vocabulary must have the first four.
  std::string unknown = "[UNK]", start = "[CLS]", separator = "[SEP]", padding = "[PAD]";
  std::string mask = "[MASK]";
  std::vector<std::string> more_special = {};  // the vocabulary has to have them
  // true: special tokens that a text spells out, in exactly this case, become the token, as in the
  // packages named above. false: they are ordinary text, which is the safe choice for text from
  // strangers.
  bool special_in_text = true;
  std::string continuing = "##";  // before pieces inside of a word
  // The most tokens of a sequence for the model: for callers, and written to files. Nothing is cut
  // unless a call asks for it.
  std::size_t model_max_length = no_limit;
  TruncationSide truncation_side = TruncationSide::right;

  friend bool operator==(const TokenizerOptions&, const TokenizerOptions&) = default;
};

struct EncodeOptions {
  std::size_t max_length = no_limit;  // tokens, the special ones included; the rest is cut off
  bool special_tokens = true;         // [CLS] and [SEP] around the text
  bool offsets = false;               // where tokens stand in the text
};

struct DecodeOptions {
  bool skip_special_tokens = true;
  bool clean_up = true;  // no space before . , ? ! and the short forms of English
};

}  // namespace SOMA_NAMESPACE::text
