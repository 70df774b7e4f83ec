#pragma once
// Tokenizers in files, as the `tokenizers` and `transformers` packages keep them: tokenizer.json
// (all of it), vocab.txt (the pieces) and tokenizer_config.json (the options).
//
// Contents come and go as texts; whoever writes them chooses how (soma/io has AtomicFile).

#include <soma/text/tokenizer.hpp>
#include <soma/text/tokenizer_settings.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace soma::text {

// What tokenizer.json says: everything but how long a sequence may be.
struct TokenizerParts {
  Vocabulary vocabulary;
  TokenizerOptions options;
};

namespace detail {

class TokenizerJsonReader {
 public:
  TokenizerJsonReader(std::string_view content, std::string_view name)
      : settings_("read_tokenizer_json", name), root_(settings_.parse(content)) {}

  TokenizerParts read() {
    read_model();
    read_normalizer();
    settings_.require_type(root_, "pre_tokenizer", "BertPreTokenizer");
    if (const Json* padding = settings_.object(root_, "padding"); padding != nullptr)
      settings_.read(*padding, "pad_token", options_.padding);
    read_post_processor();
    if (settings_.object(root_, "decoder") != nullptr)
      settings_.require_type(root_, "decoder", "WordPiece");
    Vocabulary vocabulary = read_vocabulary();
    read_added_tokens(vocabulary);
    return {std::move(vocabulary), std::move(options_)};
  }

 private:
  void read_model() {
    const Json& model = settings_.require_type(root_, "model", "WordPiece");
    settings_.read(model, "unk_token", options_.unknown);
    settings_.read(model, "continuing_subword_prefix", options_.continuing);
    settings_.read(model, "max_input_chars_per_word", options_.split.max_word_chars);
  }

  void read_normalizer() {
    const Json& normalizer = settings_.require_type(root_, "normalizer", "BertNormalizer");
    settings_.read(normalizer, "clean_text", options_.split.clean_text);
    settings_.read(normalizer, "handle_chinese_chars", options_.split.chinese_chars);
    settings_.read(normalizer, "strip_accents", options_.split.strip_accents);
    settings_.read(normalizer, "lowercase", options_.split.lowercase);
  }

  void read_post_processor() {
    const Json* processor = settings_.object(root_, "post_processor");
    if (processor != nullptr && processor->value("type", Json()) == "TemplateProcessing") {
      read_template(*processor);
      return;
    }
    const Json& bert = settings_.require_type(root_, "post_processor", "BertProcessing");
    for (const auto& [key, token] :
         {std::pair("cls", &options_.start), std::pair("sep", &options_.separator)}) {
      const Json pair = bert.value(key, Json());
      if (!pair.is_array() || pair.empty() || !pair[0].is_string())
        settings_.refuse("whose post_processor has no token " + soma::quoted(key));
      *token = pair[0].get<std::string>();
    }
  }

  // Accepts [CLS] A [SEP] and [CLS] A [SEP] B [SEP] with these types, and no other.
  void read_template(const Json& processor) {
    const std::vector<std::string> single = places(processor, "single");
    const std::vector<std::string> pair = places(processor, "pair");
    if (single.size() != 3 || !single[0].starts_with("0 ") || single[1] != "A0" ||
        !single[2].starts_with("0 "))
      settings_.refuse("whose template of one text is not [CLS] A [SEP]");
    options_.start = single[0].substr(2);
    options_.separator = single[2].substr(2);
    const std::vector<std::string> wanted{single[0], "A0", single[2], "B1",
                                          "1 " + options_.separator};
    if (pair != wanted)
      settings_.refuse("whose template of two texts is not [CLS] A [SEP] B [SEP]");
  }

  // "A0" or "B1" for a text and its type, "0 [CLS]" for a special token of that type.
  std::vector<std::string> places(const Json& processor, const char* key) const {
    std::vector<std::string> found;
    const Json list = processor.value(key, Json());
    for (const Json& place : list.is_array() ? list : Json::array()) {
      const Json* token = settings_.object(place, "SpecialToken");
      const Json* text = settings_.object(place, "Sequence");
      std::string id;
      std::size_t type = 2;
      if (const Json* either = token != nullptr ? token : text; either != nullptr) {
        settings_.read(*either, "id", id);
        settings_.read(*either, "type_id", type);
      }
      const std::string digit = std::to_string(type);
      found.push_back(token != nullptr ? digit + " " + id : id + digit);
    }
    return found;
  }

  Vocabulary read_vocabulary() {
    const Json* pieces = settings_.object(*settings_.object(root_, "model"), "vocab");
    if (pieces == nullptr) settings_.refuse("whose model has no vocab");
    std::vector<std::string_view> by_id(pieces->size());
    for (const auto& [piece, id] : pieces->get_ref<const Json::object_t&>()) {
      const bool fits = id.is_number_unsigned() && id.get<std::uint64_t>() < by_id.size();
      if (!fits || by_id[id.get<std::size_t>()].data() != nullptr)
        settings_.refuse("whose vocab gives " + soma::quoted(piece) + " the id " + id.dump() +
                         ", not one of its own from 0 to " + std::to_string(pieces->size()));
      by_id[id.get<std::size_t>()] = piece;
    }
    return Vocabulary::from_pieces(by_id, settings_.name());
  }

  void read_added_tokens(const Vocabulary& vocabulary) {
    std::vector<std::string> added;
    const Json list = root_.value("added_tokens", Json());
    for (const Json& token : list.is_array() ? list : Json::array()) {
      std::string content;
      std::size_t id = 0;
      settings_.read(token, "content", content);
      settings_.read(token, "id", id);
      const std::string which = "whose added token " + soma::quoted(content);
      for (const char* key : {"single_word", "lstrip", "rstrip", "normalized"})
        if (flag(token, key)) settings_.refuse(which + " is " + key);
      if (!flag(token, "special")) settings_.refuse(which + " is not special");
      const std::int32_t known = vocabulary.find(content);
      if (known == Vocabulary::absent || static_cast<std::size_t>(known) != id)
        settings_.refuse(which + " is not in its vocab under the id " + std::to_string(id));
      added.push_back(std::move(content));
    }
    // Only added tokens are looked for in texts.
    options_.special_in_text = !added.empty();
    const auto listed = [&](const std::string& token) {
      return std::find(added.begin(), added.end(), token) != added.end();
    };
    for (const std::string* token : roles(options_))
      if (!added.empty() && !listed(*token) && vocabulary.contains(*token))
        settings_.refuse("whose added tokens lack " + soma::quoted(*token));
    for (const std::string& token : added) {
      bool has_role = false;
      for (const std::string* role : roles(options_)) has_role = has_role || *role == token;
      if (!has_role) options_.more_special.push_back(token);
    }
  }

  static std::vector<const std::string*> roles(const TokenizerOptions& options) {
    return {&options.unknown, &options.start, &options.separator, &options.padding, &options.mask};
  }
  bool flag(const Json& object, const char* key) const {
    bool value = false;
    settings_.read(object, key, value);
    return value;
  }

  SettingsReader settings_;
  Json root_;
  TokenizerOptions options_;
};

}  // namespace detail

// The content of a tokenizer.json with a WordPiece model, BERT's normalizer and pre-tokenizer, and
// BERT's special tokens around texts. Its truncation and padding are not read: they are choices of
// a call here. Errors text.tokenizer_file: not JSON, or another kind of tokenizer (the message
// names what was found); text.vocabulary.
inline TokenizerParts read_tokenizer_json(std::string_view content,
                                          std::string_view name = "memory") {
  return detail::TokenizerJsonReader(content, name).read();
}

// The content of a tokenizer.json that those packages load. TokenizerOptions::special_in_text and
// model_max_length have no place in it: to_tokenizer_config has them.
inline std::string to_tokenizer_json(const Tokenizer& tokenizer) {
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
  // An ordered object looks through all of its keys to add one; the pieces, known to differ, are
  // written into its end as text.
  std::string text = file.dump();
  text.resize(text.size() - 3);  // }}}
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    if (i != 0) text.push_back(',');
    text.append(Json(vocabulary.piece(static_cast<std::int32_t>(i))).dump());
    text.append(":").append(std::to_string(i));
  }
  return text.append("}}}\n");
}

// The tokenizer of a folder: tokenizer.json if it is there, otherwise vocab.txt; and what
// tokenizer_config.json says, if it is there (it wins over tokenizer.json, as in transformers).
// Errors file.read, and those of the readers.
inline Tokenizer load_tokenizer(std::string_view folder) {
  const std::filesystem::path place(folder);
  const auto path = [&](const char* name) { return (place / name).string(); };
  const auto exists = [&](const char* name) {
    std::error_code problem;
    return std::filesystem::exists(place / name, problem);
  };
  const auto content = [&](const char* name) { return read_file("load_tokenizer", path(name)); };
  const bool whole = exists("tokenizer.json");
  TokenizerParts parts =
      whole ? read_tokenizer_json(content("tokenizer.json"), path("tokenizer.json"))
            : TokenizerParts{Vocabulary::read(path("vocab.txt")), {}};
  if (exists("tokenizer_config.json"))
    parts.options = read_tokenizer_config(content("tokenizer_config.json"), parts.options,
                                          path("tokenizer_config.json"));
  return Tokenizer(std::move(parts.vocabulary), std::move(parts.options));
}

}  // namespace soma::text
