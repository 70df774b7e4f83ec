#pragma once
// The functions of byte_tokenizer_json.hpp, and ByteTokenizer::from_files.

#include <soma/text/byte_pairs/byte_tokenizer_json.hpp>

#include <soma/system/files.hpp>
#include <soma/text/added_tokens.hpp>
#include <soma/text/read_file.hpp>
#include <soma/text/tokenizer_stages.hpp>
#include <soma/text/utf8.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text::detail {

// Files write a byte as a character that can be seen: its own, or the next one from U+0100 on.
class ByteCharacters {
 public:
  ByteCharacters() {
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool seen = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      const char32_t character = seen ? byte : next++;
      bytes_[character] = static_cast<std::int16_t>(byte);
    }
  }
  // -1: it stands for none.
  int byte_of(char32_t character) const {
    return character < bytes_.size() ? bytes_[character] : -1;
  }

 private:
  static constexpr std::array<std::int16_t, 0x144> nothing() {
    std::array<std::int16_t, 0x144> all{};
    for (auto& each : all) each = -1;
    return all;
  }
  std::array<std::int16_t, 0x144> bytes_ = nothing();
};

// The patterns of Split as files write them.
inline constexpr std::string_view qwen2_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

SOMA_INLINE ByteTokenizerParts ByteTokenizerReader::read() {
  settings_.check_keys(ModelFile::tokenizer, root_);
  read_normalizer();
  read_pre_tokenizer();
  check_decoder();
  read_model();
  read_added();
  read_post_processor();
  return std::move(parts_);
}

SOMA_INLINE void ByteTokenizerReader::read_normalizer() {
  bool prepends = false, replaces = false;
  for (const Json* element : stage_elements(settings_, root_, "normalizer", "normalizers")) {
    const std::string type = settings_.type_of(*element);
    std::string text;
    if (type == "NFC") {
      parts_.normalization.compose = true;
      continue;
    }
    if (type == "Prepend") {
      settings_.read(*element, "prepend", text);
      prepends = text == space_mark;
      if (prepends) continue;
    }
    if (type == "Replace") {
      std::string from;
      if (const Json* pattern = settings_.object(*element, "pattern"); pattern != nullptr)
        settings_.read(*pattern, "String", from);
      settings_.read(*element, "content", text);
      replaces = from == " " && text == space_mark;
      if (replaces) continue;
    }
    refuse_stage(settings_, "normalizer", SettingsReader::shown(*element), "NFC");
  }
  if (prepends && !replaces) refuse_stage(settings_, "normalizer", "Prepend", "NFC");
  if (replaces && parts_.normalization.compose)
    refuse_stage(settings_, "normalizer", "Replace", "NFC");
  parts_.normalization.prepend = prepends;
  parts_.normalization.marks = replaces;
}

SOMA_INLINE void ByteTokenizerReader::read_pre_tokenizer() {
  const auto stages = stage_elements(settings_, root_, "pre_tokenizer", "pretokenizers");
  std::vector<std::string> types;
  for (const Json* stage : stages) types.push_back(settings_.type_of(*stage));
  if (parts_.normalization.marks || types == std::vector<std::string>{"Metaspace"}) {
    parts_.byte_level = false;
    parts_.pattern = WordPattern::whole;
    if (stages.size() == 1 && types[0] == "Metaspace") return read_metaspace(*stages[0]);
    if (!stages.empty())
      refuse_stage(settings_, "pre_tokenizer", SettingsReader::shown(*stages[0]), "Metaspace");
    return;
  }
  if (types.empty() || types.back() != "ByteLevel" || types.size() > 2)
    refuse_stage(settings_, "pre_tokenizer",
                 types.empty() ? "(none)" : SettingsReader::shown(root_["pre_tokenizer"]),
                 "ByteLevel");
  check_byte_level(*stages.back(), types.size() == 1 || types[0] == "Digits");
  if (types.size() == 2) parts_.pattern = pattern_of(*stages[0]);
}

SOMA_INLINE void ByteTokenizerReader::read_metaspace(const Json& stage) {
  std::string replacement(space_mark), scheme;
  bool adds_prefix = true, splits = true;
  settings_.read(stage, "replacement", replacement);
  settings_.read(stage, "add_prefix_space", adds_prefix);
  settings_.read(stage, "prepend_scheme", scheme);
  settings_.read(stage, "split", splits);
  if (scheme.empty()) scheme = adds_prefix ? "always" : "never";
  if (replacement != space_mark || (scheme != "always" && scheme != "first" && scheme != "never") ||
      parts_.normalization.marks)
    refuse_stage(settings_, "pre_tokenizer", SettingsReader::shown(stage), "Metaspace");
  parts_.normalization.marks = true;
  parts_.normalization.prepend = parts_.normalization.prepend_once = scheme != "never";
  parts_.begins_text = scheme == "first";
  if (splits) parts_.pattern = WordPattern::marks;
}

SOMA_INLINE WordPattern ByteTokenizerReader::pattern_of(const Json& stage) const {
  const std::string type = settings_.type_of(stage);
  if (type == "Digits") {
    bool individual = false;
    settings_.read(stage, "individual_digits", individual);
    if (individual) return WordPattern::digits_gpt2;
  }
  if (type == "Split") {
    std::string regex, behavior;
    bool invert = false;
    if (const Json* pattern = settings_.object(stage, "pattern"); pattern != nullptr)
      settings_.read(*pattern, "Regex", regex);
    settings_.read(stage, "behavior", behavior);
    settings_.read(stage, "invert", invert);
    if (behavior == "Isolated" && !invert) {
      if (regex == qwen2_pattern) return WordPattern::qwen2;
      if (regex == llama3_pattern) return WordPattern::llama3;
      settings_.refuse("whose pattern of words is " + soma::quoted(regex));
    }
  }
  settings_.refuse("whose pre_tokenizer begins with " + SettingsReader::shown(stage));
}

SOMA_INLINE void ByteTokenizerReader::check_byte_level(const Json& stage, bool splits) const {
  bool prefix = true, regex = true;
  settings_.read(stage, "add_prefix_space", prefix);
  settings_.read(stage, "use_regex", regex);
  if (prefix || regex != splits)
    settings_.refuse("whose ByteLevel is " + SettingsReader::shown(stage));
}

SOMA_INLINE void ByteTokenizerReader::check_decoder() const {
  const Json* decoder = settings_.object(root_, "decoder");
  const std::string type = decoder == nullptr ? "(none)" : settings_.type_of(*decoder);
  const bool fits =
      parts_.byte_level ? type == "ByteLevel" : type == "Sequence" || type == "Metaspace";
  if (!fits) refuse_stage(settings_, "decoder", type, parts_.byte_level ? "ByteLevel" : "Sequence");
}

SOMA_INLINE void ByteTokenizerReader::read_model() {
  const Json* model = settings_.object(root_, "model");
  if (model == nullptr) settings_.refuse("which has no model");
  const std::string type = settings_.type_of(*model);
  if (type != "BPE" && (model->contains("type") || !model->contains("merges")))
    refuse_stage(settings_, "model", type, "BPE");
  settings_.check_keys(ModelFile::byte_tokenizer_model, *model);
  bool fallback = false;
  settings_.read(*model, "byte_fallback", fallback);
  settings_.read(*model, "ignore_merges", parts_.whole_words);
  if (fallback == parts_.byte_level)
    settings_.refuse(std::string("whose model has byte_fallback ") + (fallback ? "true" : "false"));
  const Json* vocab = settings_.object(*model, "vocab");
  if (vocab == nullptr) settings_.refuse("whose model has no vocab");
  number_pieces(*vocab);
  const auto merges = model->find("merges");
  if (merges == model->end() || !merges->is_array()) settings_.refuse("whose model has no merges");
  read_merges(*merges);
}

SOMA_INLINE std::string ByteTokenizerReader::bytes_of(std::string_view piece) const {
  if (!parts_.byte_level) return std::string(piece);
  static const ByteCharacters characters;
  std::string bytes;
  for (std::size_t at = 0; at < piece.size();) {
    const CodePoint point = decode_utf8(piece, at);
    const int byte = characters.byte_of(point.value);
    if (byte < 0) return {};
    bytes += static_cast<char>(byte);
    at += point.bytes;
  }
  return bytes;
}

SOMA_INLINE void ByteTokenizerReader::number_pieces(const Json& vocab) {
  const std::size_t most = most_ids(vocab.size());
  std::vector<bool> taken;
  ids_.reserve(vocab.size());
  for (const auto& [piece, id] : vocab.get_ref<const Json::object_t&>()) {
    const bool fits = id.is_number_unsigned() && id.get<std::uint64_t>() < most;
    const std::size_t index = fits ? id.get<std::size_t>() : 0;
    if (fits && index >= taken.size()) {
      taken.resize(index + 1);
      parts_.pieces.resize(index + 1);
    }
    if (!fits || taken[index])
      settings_.refuse("whose vocab gives " + soma::quoted(piece) + " the id " +
                       SettingsReader::shown(id) + ", not one of its own from 0 to " +
                       std::to_string(vocab.size()));
    taken[index] = true;
    parts_.pieces[index] = bytes_of(piece);
    ids_.emplace(piece, static_cast<std::int32_t>(index));
  }
}

SOMA_INLINE void ByteTokenizerReader::read_merges(const Json& list) {
  parts_.merges.reserve(list.size());
  for (const Json& merge : list) {
    if (merge.is_string())
      add_merge(merge.get_ref<const std::string&>());
    else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>());
    else
      settings_.refuse("with the merge " + SettingsReader::shown(merge));
  }
}

// "a b". A piece may contain a space itself: both sides have to be pieces.
SOMA_INLINE void ByteTokenizerReader::add_merge(std::string_view pair) {
  for (std::size_t space = pair.find(' '); space != pair.npos; space = pair.find(' ', space + 1)) {
    const std::string_view left = pair.substr(0, space), right = pair.substr(space + 1);
    if (ids_.contains(left) && ids_.contains(right)) return add_merge(left, right);
  }
  settings_.refuse("with the merge " + soma::quoted(pair) + ", whose parts are no pieces");
}

SOMA_INLINE void ByteTokenizerReader::add_merge(std::string_view left, std::string_view right) {
  const std::string joined = std::string(left).append(right);
  const auto first = ids_.find(left), second = ids_.find(right), result = ids_.find(joined);
  if (first == ids_.end() || second == ids_.end() || result == ids_.end())
    settings_.refuse("with a merge of " + soma::quoted(left) + " and " + soma::quoted(right) +
                     ", which are no pieces or make none");
  parts_.merges.push_back({first->second, second->second, result->second});
}

SOMA_INLINE ByteAddedToken ByteTokenizerReader::added_token(const Json& entry,
                                                            std::int32_t id) const {
  ByteAddedToken token;
  token.id = id;
  token.special = false;
  if (!entry.is_object()) settings_.refuse("with an added token that is no object");
  settings_.read(entry, "content", token.content);
  settings_.read(entry, "special", token.special);
  settings_.read(entry, "normalized", token.normalized);
  settings_.read(entry, "lstrip", token.strip_left);
  settings_.read(entry, "rstrip", token.strip_right);
  bool single_word = false;
  settings_.read(entry, "single_word", single_word);
  if (single_word)
    settings_.refuse("whose added token " + soma::quoted(token.content) + " is single_word");
  // As in the package, a token that is a piece has the piece's id.
  if (const auto piece = ids_.find(token.content); piece != ids_.end()) token.id = piece->second;
  // In a text whose spaces are marks the token is looked for with marks of its own.
  if (token.normalized && parts_.normalization.marks)
    settings_.refuse("whose added token " + soma::quoted(token.content) + " is normalized");
  return token;
}

SOMA_INLINE void ByteTokenizerReader::read_added() {
  const Json list = root_.value("added_tokens", Json());
  for (const Json& entry : list.is_array() ? list : Json::array()) {
    const std::size_t most = most_ids(parts_.pieces.size() + list.size());
    std::size_t id = most;
    if (entry.is_object()) settings_.read(entry, "id", id);
    if (id >= most) settings_.refuse("with the added token " + SettingsReader::shown(entry));
    parts_.added.push_back(added_token(entry, static_cast<std::int32_t>(id)));
  }
}

SOMA_INLINE void ByteTokenizerReader::read_post_processor() {
  for (const Json* stage : stage_elements(settings_, root_, "post_processor", "processors")) {
    const std::string type = settings_.type_of(*stage);
    if (type == "TemplateProcessing")
      read_template(*stage);
    else if (type != "ByteLevel")  // which moves offsets only
      refuse_stage(settings_, "post_processor", type, "TemplateProcessing");
  }
}

SOMA_INLINE void ByteTokenizerReader::read_template(const Json& processor) {
  const Json list = processor.value("single", Json());
  const Json* tokens = settings_.object(processor, "special_tokens");
  bool behind = false;
  for (const Json& place : list.is_array() ? list : Json::array()) {
    const Json* token = settings_.object(place, "SpecialToken");
    if (token == nullptr) {
      if (behind) settings_.refuse("whose template has two texts");
      behind = true;
      continue;
    }
    std::string name;
    settings_.read(*token, "id", name);
    const Json* known = tokens == nullptr ? nullptr : settings_.object(*tokens, name.c_str());
    const Json ids = known == nullptr ? Json() : known->value("ids", Json());
    if (!ids.is_array()) settings_.refuse("whose template has no ids for " + soma::quoted(name));
    for (const Json& id : ids) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= (std::uint64_t{1} << 24))
        settings_.refuse("whose template has the id " + SettingsReader::shown(id));
      (behind ? parts_.after : parts_.before).push_back(id.get<std::int32_t>());
    }
  }
  if (!behind) settings_.refuse("whose template has no text");
}

SOMA_INLINE ByteTokenizerParts ByteTokenizerReader::read_vocab(std::string_view merges) {
  number_pieces(root_);
  while (!merges.empty()) {
    const std::size_t end = (std::min)(merges.find('\n'), merges.size());
    std::string_view line = merges.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool is_header = parts_.merges.empty() && line.starts_with("#version");
    if (!line.empty() && !is_header) add_merge(line);
    merges.remove_prefix((std::min)(end + 1, merges.size()));
  }
  // The one special token of that time.
  const auto end_of_text = ids_.find("<|endoftext|>");
  if (end_of_text != ids_.end()) {
    parts_.added.push_back({"<|endoftext|>", end_of_text->second});
    parts_.start = parts_.end = end_of_text->second;
  }
  return std::move(parts_);
}

SOMA_INLINE std::int32_t ByteTokenizerReader::token_id(const ByteTokenizerParts& parts,
                                                       std::string_view token) const {
  for (const ByteAddedToken& added : parts.added)
    if (added.content == token) return added.id;
  const auto piece = std::find(parts.pieces.begin(), parts.pieces.end(), token);
  return piece == parts.pieces.end() ? Encoder::absent
                                     : static_cast<std::int32_t>(piece - parts.pieces.begin());
}

SOMA_INLINE void ByteTokenizerReader::read_config(ByteTokenizerParts& parts) {
  settings_.check_keys(ModelFile::byte_tokenizer_config, root_);
  parts_.normalization = parts.normalization;
  if (const Json* more = settings_.object(root_, "added_tokens_decoder"); more != nullptr)
    for (const auto& [key, entry] : more->get_ref<const Json::object_t&>()) {
      std::uint64_t id = 0;
      for (const char digit : key)
        id = digit >= '0' && digit <= '9' && id < (std::uint64_t{1} << 24)
                 ? 10 * id + static_cast<std::uint64_t>(digit - '0')
                 : std::uint64_t{1} << 24;
      if (id >= std::uint64_t{1} << 24)
        settings_.refuse("whose added_tokens_decoder has the id " + soma::quoted(key));
      const auto known = std::find_if(
          parts.added.begin(), parts.added.end(),
          [&](const ByteAddedToken& token) { return static_cast<std::uint64_t>(token.id) == id; });
      if (known == parts.added.end())
        parts.added.push_back(added_token(entry, static_cast<std::int32_t>(id)));
    }
  const auto read_token = [&](const char* key, const char* adds, std::int32_t& id,
                              std::vector<std::int32_t>& around) {
    std::string token;
    if (root_.contains(key) && root_[key].is_object())
      settings_.read(root_[key], "content", token);
    else
      settings_.read(root_, key, token);
    if (!token.empty()) {
      id = token_id(parts, token);
      if (id == Encoder::absent)
        settings_.refuse("whose " + soma::quoted(key) + " is " + soma::quoted(token) +
                         ", which is no token");
    }
    if (!root_.contains(adds) || root_[adds].is_null()) return;
    bool is_added = false;
    settings_.read(root_, adds, is_added);
    if (is_added && id == Encoder::absent)
      settings_.refuse("with " + std::string(adds) + " but without " + std::string(key));
    around.clear();
    if (is_added) around.push_back(id);
  };
  read_token("bos_token", "add_bos_token", parts.start, parts.before);
  read_token("eos_token", "add_eos_token", parts.end, parts.after);
}

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE ByteTokenizerParts read_byte_tokenizer_json(std::string_view content,
                                                        std::string_view name) {
  return detail::ByteTokenizerReader(content, name).read();
}

SOMA_INLINE ByteTokenizerParts read_vocab_and_merges(std::string_view vocab,
                                                     std::string_view merges,
                                                     std::string_view name) {
  return detail::ByteTokenizerReader(vocab, name).read_vocab(merges);
}

SOMA_INLINE void read_byte_tokenizer_config(std::string_view content, ByteTokenizerParts& parts,
                                            std::string_view name) {
  detail::ByteTokenizerReader(content, name).read_config(parts);
}

SOMA_INLINE ByteTokenizer ByteTokenizer::from_files(std::string_view folder) {
  const auto path = [&](std::string_view file) {
    return std::string(folder).append("/").append(file);
  };
  const auto content = [&](std::string_view file) {
    return read_file("ByteTokenizer::from_files", path(file));
  };
  std::string name = path("tokenizer.json");
  ByteTokenizerParts parts;
  if (system::is_regular(name)) {
    parts = read_byte_tokenizer_json(content("tokenizer.json"), name);
  } else {
    name = path("vocab.json");
    parts = read_vocab_and_merges(content("vocab.json"), content("merges.txt"), name);
  }
  const std::string config = path("tokenizer_config.json");
  if (system::is_regular(config))
    read_byte_tokenizer_config(content("tokenizer_config.json"), parts, config);
  return ByteTokenizer(std::move(parts), name);
}

}  // namespace SOMA_NAMESPACE::text
