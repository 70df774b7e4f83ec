#pragma once
// The functions of tokenizer_json.hpp.

#include <soma/base/contains.hpp>
#include <soma/text/tokenizer_json.hpp>

#include <soma/system/files.hpp>
#include <soma/text/added_tokens.hpp>
#include <soma/text/tokenizer.hpp>
#include <soma/text/tokenizer_settings.hpp>
#include <soma/text/tokenizer_stages.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text::detail {

SOMA_INLINE TokenizerParts TokenizerJsonReader::read() {
  settings_.check_keys(ModelFile::tokenizer, root_);
  read_model();
  const bool plain = read_normalizer(settings_, root_, options_.split);
  check_pre_tokenizer(settings_, root_);
  if (const Json* padding = settings_.object(root_, "padding"); padding != nullptr)
    settings_.read(*padding, "pad_token", options_.padding);
  if (const Json* truncation = settings_.object(root_, "truncation"); truncation != nullptr)
    settings_.read_side(*truncation, "direction", options_.truncation_side);
  if (const Json* decoder = settings_.object(root_, "decoder");
      decoder != nullptr && settings_.type_of(*decoder) != "WordPiece")
    refuse_stage(settings_, "decoder", settings_.type_of(*decoder), "WordPiece");
  const std::vector<AddedToken> added = read_added();
  Vocabulary vocabulary = with_added(settings_, read_vocabulary(), added);
  PostProcessorReader(settings_, vocabulary, options_).read(root_);
  find_special(vocabulary, added);
  return {std::move(vocabulary), std::move(options_), plain};
}

SOMA_INLINE void TokenizerJsonReader::read_model() {
  const Json* model = settings_.object(root_, "model");
  if (model == nullptr) settings_.refuse("which has no model");
  const std::string type = settings_.type_of(*model);
  const bool untyped = !model->contains("type") && (model->contains("continuing_subword_prefix") ||
                                                    model->contains("max_input_chars_per_word"));
  if (type != "WordPiece" && !untyped) refuse_stage(settings_, "model", type, "WordPiece");
  settings_.check_keys(ModelFile::tokenizer_model, *model);
  settings_.read(*model, "unk_token", options_.unknown);
  settings_.read(*model, "continuing_subword_prefix", options_.continuing);
  settings_.read(*model, "max_input_chars_per_word", options_.split.max_word_chars);
}

SOMA_INLINE Vocabulary TokenizerJsonReader::read_vocabulary() {
  const Json* pieces = settings_.object(*settings_.object(root_, "model"), "vocab");
  if (pieces == nullptr) settings_.refuse("whose model has no vocab");
  const std::size_t most = most_ids(pieces->size());
  std::vector<std::string_view> by_id;
  for (const auto& [piece, id] : pieces->get_ref<const Json::object_t&>()) {
    const bool fits = id.is_number_unsigned() && id.get<std::uint64_t>() < most;
    const std::size_t index = fits ? id.get<std::size_t>() : 0;
    if (fits && index >= by_id.size()) by_id.resize(index + 1);
    if (!fits || by_id[index].data() != nullptr)
      settings_.refuse("whose vocab gives " + soma::quoted(piece) + " the id " +
                       SettingsReader::shown(id) + ", not one of its own from 0 to " +
                       std::to_string(pieces->size()));
    by_id[index] = piece;
  }
  return Vocabulary::from_list(by_id, {}, settings_.name());
}

SOMA_INLINE std::vector<AddedToken> TokenizerJsonReader::read_added() const {
  std::vector<AddedToken> added;
  const Json list = root_.value("added_tokens", Json());
  for (const Json& token : list.is_array() ? list : Json::array())
    added.push_back(added_token(settings_, token, 0));
  return added;
}

SOMA_INLINE void TokenizerJsonReader::find_special(const Vocabulary& vocabulary,
                                                   const std::vector<AddedToken>& added) {
  // Texts are searched for added tokens only.
  options_.special_in_text = !added.empty();
  const auto listed = [&](const std::string& token) {
    return std::any_of(added.begin(), added.end(),
                       [&](const AddedToken& known) { return known.content == token; });
  };
  for (const std::string* token :
       {&options_.unknown, &options_.start, &options_.separator, &options_.padding, &options_.mask})
    if (!added.empty() && !listed(*token) && vocabulary.contains(*token))
      settings_.refuse("whose added tokens lack " + soma::quoted(*token));
  add_special(options_, added);
}

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE TokenizerParts read_tokenizer_json(std::string_view content, std::string_view name) {
  return detail::TokenizerJsonReader(content, name).read();
}

SOMA_INLINE std::string to_tokenizer_json(const Tokenizer& tokenizer) {
  using Json = nlohmann::ordered_json;
  const TokenizerOptions& options = tokenizer.options();
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  Json added = Json::array();
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (!tokenizer.is_special(id)) continue;
    added.push_back({{"id", id},
                     {"content", vocabulary.piece(id)},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const auto strip = options.split.strip_accents;
  Json file = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer",
       {{"type", "BertNormalizer"},
        {"clean_text", options.split.clean_text},
        {"handle_chinese_chars", options.split.chinese_chars},
        {"strip_accents", strip ? Json(*strip) : Json(nullptr)},
        {"lowercase", options.split.lowercase}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor",
       {{"type", "BertProcessing"},
        {"sep", Json::array({options.separator, tokenizer.separator_id()})},
        {"cls", Json::array({options.start, tokenizer.start_id()})}}},
      {"decoder", {{"type", "WordPiece"}, {"prefix", options.continuing}, {"cleanup", true}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", options.unknown},
        {"continuing_subword_prefix", options.continuing},
        {"max_input_chars_per_word", options.split.max_word_chars},
        {"vocab", Json::object()}}}};
  // An ordered object searches all of its keys to add one. The pieces are known to differ, so they
  // are written into its end as text.
  std::string text = file.dump();
  text.resize(text.size() - 3);  // }}}
  std::string_view comma;
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (!vocabulary.is_piece(id)) continue;
    text.append(comma).append(Json(vocabulary.piece(id)).dump());
    text.append(":").append(std::to_string(i));
    comma = ",";
  }
  return text.append("}}}\n");
}

}  // namespace SOMA_NAMESPACE::text

namespace SOMA_NAMESPACE::text::detail {

SOMA_INLINE std::string checked_tokenizer_class(const SettingsReader& reader, const Json& settings,
                                                std::string_view model_class,
                                                bool has_tokenizer_json) {
  std::string name(model_class);
  reader.read(settings, "tokenizer_class", name);
  if (name.empty()) return "BertTokenizer";
  const TokenizerClass* found = find_tokenizer_class(name);
  const bool missing = found != nullptr && found->needs_json && !has_tokenizer_json;
  if (found == nullptr || missing)
    reader.refuse("whose \"tokenizer_class\"" +
                  std::string(settings.contains("tokenizer_class") ? "" : ", as config.json has,") +
                  " is " + soma::quoted(name) + (missing ? ", without a tokenizer.json" : ""));
  return name;
}

SOMA_INLINE void number_special(const Vocabulary& vocabulary,
                                const std::vector<std::string>& unused, TokenizerOptions& options,
                                std::vector<AddedToken>& added) {
  std::size_t next = vocabulary.size();
  for (const AddedToken& token : added) next = (std::max)(next, token.id + 1);
  std::vector<std::string> kept;
  const auto is_added = [&](const std::string& content) {
    return std::any_of(added.begin(), added.end(),
                       [&](const AddedToken& token) { return token.content == content; });
  };
  for (const std::string& token : options.more_special) {
    const bool known = vocabulary.contains(token) || is_added(token);
    if (!known && contains(unused, token)) continue;
    if (!known) added.push_back({token, next++});
    kept.push_back(token);
  }
  options.more_special = std::move(kept);
}

SOMA_INLINE Tokenizer TokenizerFolder::load(std::string_view model_class) {
  const bool whole = exists("tokenizer.json");
  const std::string source = path(whole ? "tokenizer.json" : "vocab.txt");
  TokenizerParts parts = whole ? read_tokenizer_json(content("tokenizer.json"), source)
                               : TokenizerParts{Vocabulary::read(source), {}};
  read_config(parts, model_class, whole);
  if (!decoder_) read_maps(parts.options);
  add_special(parts.options, added_);
  number_special(parts.vocabulary, unused_, parts.options, added_);
  parts.vocabulary = with_added(SettingsReader("load_tokenizer", source), parts.vocabulary, added_);
  return Tokenizer(std::move(parts.vocabulary), std::move(parts.options));
}

SOMA_INLINE void TokenizerFolder::read_config(TokenizerParts& parts, std::string_view model_class,
                                              bool whole) {
  const std::string name = path("tokenizer_config.json");
  const SettingsReader reader("load_tokenizer", name);
  const bool there = exists("tokenizer_config.json");
  const std::string text = there ? content("tokenizer_config.json") : std::string("{}");
  const Json root = reader.parse(text);
  const std::string kind = checked_tokenizer_class(reader, root, model_class, whole);
  if (there) {
    const TokenizerOptions by_file = parts.options;
    parts.options = read_tokenizer_config(text, parts.options, name);
    parts.options.split = by_file.split;
    added_ = read_added_tokens(text, decoder_, name);
    find_unused(reader, root);
  }
  split_by_class(reader, root, kind, parts, whole);
}

SOMA_INLINE void TokenizerFolder::split_by_class(const SettingsReader& reader, const Json& settings,
                                                 const std::string& name, TokenizerParts& parts,
                                                 bool whole) {
  const TokenizerClass& rules = *find_tokenizer_class(name);
  const SplitRule later = name.ends_with("Fast") ? rules.fast_5 : rules.version_5;
  const SplitKeys keys = read_split_keys(reader, settings);
  const auto by = [&](SplitRule rule) {
    return apply_split_rule(rule, parts.options, keys, whole, parts.plain_normalizer);
  };
  const TokenizerOptions now = by(rules.version_4);
  if (const std::string difference = difference_of_splits(now, by(later));
      notes_ != nullptr && !difference.empty())
    notes_->push_back("load_tokenizer: in " + soma::quoted(folder_) + " " + name +
                      " of transformers 4 splits texts otherwise than that of transformers 5: " +
                      difference + "; as in version 4 is taken");
  parts.options = now;
}

SOMA_INLINE void TokenizerFolder::read_maps(TokenizerOptions& options) {
  if (exists("special_tokens_map.json")) {
    const std::string name = path("special_tokens_map.json");
    const SettingsReader reader("load_tokenizer", name);
    const std::string text = content("special_tokens_map.json");
    options = read_special_tokens_map(text, options, name);
    find_unused(reader, reader.parse(text));
  }
  if (exists("added_tokens.json"))
    added_ =
        read_added_tokens_map(content("added_tokens.json"), options, path("added_tokens.json"));
}

SOMA_INLINE void TokenizerFolder::find_unused(const SettingsReader& reader, const Json& root) {
  for (const char* key : {"bos_token", "eos_token"}) {
    std::string token;
    reader.read_token(root, key, token);
    unused_.push_back(token);
  }
}

SOMA_INLINE std::string TokenizerFolder::path(const char* name) const {
  return folder_ + "/" + name;
}

SOMA_INLINE bool TokenizerFolder::exists(const char* name) const {
  return system::info_of(path(name)).kind != system::FileKind::none;
}

SOMA_INLINE std::string TokenizerFolder::content(const char* name) const {
  return read_file("load_tokenizer", path(name));
}

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE Tokenizer load_tokenizer(std::string_view folder, std::string_view model_class,
                                     std::vector<std::string>* notes) {
  return detail::TokenizerFolder(folder, notes).load(model_class);
}

}  // namespace SOMA_NAMESPACE::text
