#pragma once
// Settings of tokenizers in JSON: fields read with care, and tokenizer_config.json. The only place
// in text/ that includes the JSON library.

#include <soma/base/error.hpp>
#include <soma/base/json_limits.hpp>
#include <soma/text/tokenizer.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace soma::text {

namespace detail {

using Json = nlohmann::json;

// Reads fields of a file's objects. A field that is absent leaves its target as it is, and so does
// null, but for targets that can be nothing.
class SettingsReader {
 public:
  // Both outlive the reader.
  SettingsReader(std::string_view operation, std::string_view name)
      : operation_(operation), name_(name) {}

  std::string_view name() const { return name_; }

  Json parse(std::string_view content) const {
    Json root(Json::value_t::discarded);
    if (soma::detail::may_be_tree(content))
      root = Json::parse(content.begin(), content.end(), nullptr, false);
    if (!root.is_object()) refuse("which is no JSON object");
    return root;
  }

  // Null if there is none.
  const Json* object(const Json& parent, const char* key) const {
    const Json* found = field(parent, key);
    if (found != nullptr && !found->is_object()) refuse_field(key, *found, "an object");
    return found;
  }
  // The object of that key, whose "type" is the one given.
  const Json& require_type(const Json& parent, const char* key, std::string_view type) const {
    const Json* found = object(parent, key);
    if (found == nullptr) refuse("which has no " + std::string(key));
    std::string given = "(none)";
    read(*found, "type", given);
    if (given != type)
      refuse("whose " + std::string(key) + " is " + soma::quoted(given) + ", not " +
             soma::quoted(type));
    return *found;
  }

  void read(const Json& parent, const char* key, std::string& target) const {
    const Json* found = field(parent, key);
    if (found == nullptr) return;
    if (!found->is_string()) refuse_field(key, *found, "a text");
    target = found->get_ref<const std::string&>();
  }
  void read(const Json& parent, const char* key, bool& target) const {
    const Json* found = field(parent, key);
    if (found == nullptr) return;
    if (!found->is_boolean()) refuse_field(key, *found, "true or false");
    target = found->get<bool>();
  }
  void read(const Json& parent, const char* key, std::optional<bool>& target) const {
    if (!parent.contains(key)) return;
    target.reset();
    if (field(parent, key) != nullptr) read(parent, key, target.emplace());
  }
  void read(const Json& parent, const char* key, std::size_t& target) const {
    const Json* found = field(parent, key);
    if (found == nullptr) return;
    if (!found->is_number_unsigned()) refuse_field(key, *found, "a whole number");
    target = found->get<std::uint64_t>();
  }
  // A text, or an object with its text in "content".
  void read_token(const Json& parent, const char* key, std::string& target) const {
    const Json* found = field(parent, key);
    if (found != nullptr && found->is_object())
      read(*found, "content", target);
    else
      read(parent, key, target);
  }
  // Also as a float, 512.0; transformers writes 10^30 for "no limit".
  void read_length(const Json& parent, const char* key, std::size_t& target) const {
    const Json* found = field(parent, key);
    const double length = found != nullptr && found->is_number_float() ? found->get<double>() : -1;
    if (length >= 1e18)
      target = no_limit;
    else if (length >= 0 && length == std::floor(length))
      target = static_cast<std::size_t>(length);
    else
      read(parent, key, target);
  }

  [[noreturn]] void refuse(const std::string& problem) const {
    std::string given = soma::quoted(name_);
    fail(error_id::text_tokenizer_file, operation_, "file", given.append(", ").append(problem),
         "a WordPiece tokenizer as BERT's");
  }

 private:
  const Json* field(const Json& parent, const char* key) const {
    if (!parent.is_object()) refuse("which has no object around " + soma::quoted(key));
    const auto found = parent.find(key);
    return found == parent.end() || found->is_null() ? nullptr : &*found;
  }
  [[noreturn]] void refuse_field(const char* key, const Json& given, const char* wanted) const {
    refuse("whose " + soma::quoted(key) + " is " + given.type_name() + " and not " + wanted);
  }

  std::string_view operation_, name_;
};

}  // namespace detail

// `options` with what the content of a tokenizer_config.json says about them: do_lower_case,
// strip_accents, tokenize_chinese_chars, clean_text, split_special_tokens (the opposite of
// special_in_text), model_max_length and the five special tokens. Everything else in it is passed
// over. Error text.tokenizer_file.
inline TokenizerOptions read_tokenizer_config(std::string_view content,
                                              TokenizerOptions options = {},
                                              std::string_view name = "memory") {
  const detail::SettingsReader settings("read_tokenizer_config", name);
  const detail::Json root = settings.parse(content);
  settings.read(root, "do_lower_case", options.split.lowercase);
  settings.read(root, "strip_accents", options.split.strip_accents);
  settings.read(root, "tokenize_chinese_chars", options.split.chinese_chars);
  settings.read(root, "clean_text", options.split.clean_text);
  bool split_special = !options.special_in_text;
  settings.read(root, "split_special_tokens", split_special);
  options.special_in_text = !split_special;
  settings.read_length(root, "model_max_length", options.model_max_length);
  settings.read_token(root, "unk_token", options.unknown);
  settings.read_token(root, "cls_token", options.start);
  settings.read_token(root, "sep_token", options.separator);
  settings.read_token(root, "pad_token", options.padding);
  settings.read_token(root, "mask_token", options.mask);
  return options;
}

// The content of a tokenizer_config.json that `transformers` reads.
inline std::string to_tokenizer_config(const TokenizerOptions& options) {
  using Json = nlohmann::ordered_json;
  const auto strip = options.split.strip_accents;
  Json file = {{"tokenizer_class", "BertTokenizer"},
               {"do_lower_case", options.split.lowercase},
               {"strip_accents", strip ? Json(*strip) : Json(nullptr)},
               {"tokenize_chinese_chars", options.split.chinese_chars},
               {"clean_text", options.split.clean_text},
               {"unk_token", options.unknown},
               {"cls_token", options.start},
               {"sep_token", options.separator},
               {"pad_token", options.padding}};
  if (!options.mask.empty()) file["mask_token"] = options.mask;
  if (!options.special_in_text) file["split_special_tokens"] = true;
  if (options.model_max_length != no_limit) file["model_max_length"] = options.model_max_length;
  return file.dump(2) + "\n";
}

}  // namespace soma::text
