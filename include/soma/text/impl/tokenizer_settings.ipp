#pragma once
// The functions of tokenizer_settings.hpp.

#include <soma/base/contains.hpp>
#include <soma/text/tokenizer_settings.hpp>

#include <soma/base/error.hpp>
#include <soma/base/json_limits.hpp>
#include <soma/base/model_keys.hpp>
#include <soma/text/tokenizer.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::text::detail {

SOMA_INLINE bool has_role(const TokenizerOptions& options, std::string_view token) {
  for (const std::string* role :
       {&options.unknown, &options.start, &options.separator, &options.padding, &options.mask})
    if (*role == token) return true;
  return false;
}

SOMA_INLINE Json SettingsReader::parse(std::string_view content) const {
  Json root(Json::value_t::discarded);
  if (soma::may_be_tree(content))
    root = Json::parse(content.begin(), content.end(), nullptr, false);
  if (!root.is_object()) refuse("which is no JSON object");
  return root;
}

SOMA_INLINE void SettingsReader::check_keys(ModelFile file, const Json& root) const {
  soma::detail::check_model_keys(file, root, [&](const ModelKey& key, const Json& value) {
    refuse("whose " + soma::quoted(key.key) + " is " + shown(value) +
           (key.neutral.empty() ? "" : ", not " + std::string(key.neutral)));
  });
}

SOMA_INLINE const Json* SettingsReader::object(const Json& parent, const char* key) const {
  const Json* found = field(parent, key);
  if (found != nullptr && !found->is_object()) refuse_field(key, *found, "an object");
  return found;
}

SOMA_INLINE std::string SettingsReader::type_of(const Json& object) const {
  std::string type = "(none)";
  read(object, "type", type);
  return type;
}

SOMA_INLINE void SettingsReader::read(const Json& parent, const char* key,
                                      std::string& target) const {
  const Json* found = field(parent, key);
  if (found == nullptr) return;
  if (!found->is_string()) refuse_field(key, *found, "a text");
  target = found->get_ref<const std::string&>();
}

SOMA_INLINE void SettingsReader::read(const Json& parent, const char* key, bool& target) const {
  const Json* found = field(parent, key);
  if (found == nullptr) return;
  if (!found->is_boolean()) refuse_field(key, *found, "true or false");
  target = found->get<bool>();
}

SOMA_INLINE void SettingsReader::read(const Json& parent, const char* key,
                                      std::optional<bool>& target) const {
  if (!parent.contains(key)) return;
  target.reset();
  if (field(parent, key) != nullptr) read(parent, key, target.emplace());
}

SOMA_INLINE void SettingsReader::read(const Json& parent, const char* key,
                                      std::size_t& target) const {
  const Json* found = field(parent, key);
  if (found == nullptr) return;
  if (!found->is_number_unsigned()) refuse_field(key, *found, "a whole number");
  target = found->get<std::uint64_t>();
}

SOMA_INLINE void SettingsReader::read_token(const Json& parent, const char* key,
                                            std::string& target) const {
  if (const Json* found = field(parent, key); found != nullptr) target = token_text(*found, key);
}

SOMA_INLINE void SettingsReader::read_length(const Json& parent, const char* key,
                                             std::size_t& target) const {
  const Json* found = field(parent, key);
  const double length = found != nullptr && found->is_number_float() ? found->get<double>() : -1;
  if (length >= 1e18)
    target = no_limit;
  else if (length >= 0 && length == std::floor(length))
    target = static_cast<std::size_t>(length);
  else
    read(parent, key, target);
}

SOMA_INLINE void SettingsReader::check_token(const Json& token, std::string_view which) const {
  soma::detail::check_model_keys(
      ModelFile::added_token, token, [&](const ModelKey& key, const Json&) {
        refuse("whose token " + soma::quoted(which) + " is " + std::string(key.key));
      });
}

SOMA_INLINE void SettingsReader::read_side(const Json& parent, const char* key,
                                           TruncationSide& target) const {
  std::string side;
  read(parent, key, side);
  if (side.empty()) return;
  const bool left = side == "left" || side == "Left";
  if (!left && side != "right" && side != "Right")
    refuse("whose " + soma::quoted(key) + " is " + soma::quoted(side));
  target = left ? TruncationSide::left : TruncationSide::right;
}

SOMA_INLINE std::string SettingsReader::shown(const Json& value) {
  constexpr std::size_t most = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > most) text.replace(most, text.npos, "...");
  return text;
}

SOMA_INLINE void SettingsReader::refuse(const std::string& problem) const {
  std::string given = soma::quoted(name_);
  fail(error_id::text_tokenizer_file, operation_, "file", given.append(", ").append(problem),
       wanted_);
}

SOMA_INLINE std::string SettingsReader::token_text(const Json& token, const char* key) const {
  if (token.is_string()) return token.get<std::string>();
  if (!token.is_object()) refuse_field(key, token, "a text");
  check_token(token, key);
  std::string content;
  read(token, "content", content);
  return content;
}

SOMA_INLINE const Json* SettingsReader::field(const Json& parent, const char* key) const {
  if (!parent.is_object()) refuse("which has no object around " + soma::quoted(key));
  const auto found = parent.find(key);
  return found == parent.end() || found->is_null() ? nullptr : &*found;
}

SOMA_INLINE void SettingsReader::refuse_field(const char* key, const Json& given,
                                              const char* wanted) const {
  refuse("whose " + soma::quoted(key) + " is " + given.type_name() + " and not " + wanted);
}

SOMA_INLINE const TokenizerClass& class_of(const SettingsReader& settings, const Json& root) {
  std::string name = "BertTokenizer";
  settings.read(root, "tokenizer_class", name);
  const TokenizerClass* found = find_tokenizer_class(name);
  if (found == nullptr) settings.refuse("whose \"tokenizer_class\" is " + soma::quoted(name));
  return *found;
}

SOMA_INLINE SplitKeys read_split_keys(const SettingsReader& settings, const Json& root) {
  SplitKeys keys;
  const auto read = [&](const char* key, std::optional<bool>& target) {
    bool value = true;
    settings.read(root, key, value);
    if (root.contains(key) && !root[key].is_null()) target = value;
  };
  read("do_lower_case", keys.lowercase);
  read("tokenize_chinese_chars", keys.chinese_chars);
  if (root.contains("strip_accents"))
    settings.read(root, "strip_accents", keys.strip_accents.emplace());
  return keys;
}

SOMA_INLINE void read_special_tokens(const SettingsReader& settings, const Json& root,
                                     TokenizerOptions& options) {
  settings.read_token(root, "unk_token", options.unknown);
  settings.read_token(root, "cls_token", options.start);
  settings.read_token(root, "sep_token", options.separator);
  settings.read_token(root, "pad_token", options.padding);
  settings.read_token(root, "mask_token", options.mask);
  const auto add = [&](const std::string& token) {
    if (!token.empty() && !has_role(options, token) && !contains(options.more_special, token))
      options.more_special.push_back(token);
  };
  for (const char* key : {"bos_token", "eos_token"}) {
    std::string token;
    settings.read_token(root, key, token);
    add(token);
  }
  for (const char* key :
       {"additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens"})
    settings.for_each_token(root, key, add);
}

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE TokenizerOptions read_tokenizer_config(std::string_view content,
                                                   TokenizerOptions options,
                                                   std::string_view name) {
  const detail::SettingsReader settings("read_tokenizer_config", name);
  const detail::Json root = settings.parse(content);
  settings.check_keys(ModelFile::tokenizer_config, root);
  if (detail::class_of(settings, root).version_4 != detail::SplitRule::file) {
    const detail::SplitKeys keys = detail::read_split_keys(settings, root);
    options.split.lowercase = keys.lowercase.value_or(options.split.lowercase);
    options.split.strip_accents = keys.strip_accents.value_or(options.split.strip_accents);
    options.split.chinese_chars = keys.chinese_chars.value_or(options.split.chinese_chars);
  }
  bool split_special = !options.special_in_text;
  settings.read(root, "split_special_tokens", split_special);
  options.special_in_text = !split_special;
  settings.read_length(root, "max_len", options.model_max_length);
  settings.read_length(root, "model_max_length", options.model_max_length);
  settings.read_side(root, "truncation_side", options.truncation_side);
  detail::read_special_tokens(settings, root, options);
  return options;
}

SOMA_INLINE TokenizerOptions read_special_tokens_map(std::string_view content,
                                                     TokenizerOptions options,
                                                     std::string_view name) {
  const detail::SettingsReader settings("read_special_tokens_map", name);
  detail::read_special_tokens(settings, settings.parse(content), options);
  return options;
}

SOMA_INLINE std::string to_tokenizer_config(const TokenizerOptions& options) {
  using Json = nlohmann::ordered_json;
  const auto strip = options.split.strip_accents;
  Json file = {{"tokenizer_class", "BertTokenizer"},
               {"do_lower_case", options.split.lowercase},
               {"strip_accents", strip ? Json(*strip) : Json(nullptr)},
               {"tokenize_chinese_chars", options.split.chinese_chars},
               {"unk_token", options.unknown},
               {"cls_token", options.start},
               {"sep_token", options.separator},
               {"pad_token", options.padding}};
  if (!options.mask.empty()) file["mask_token"] = options.mask;
  if (!options.more_special.empty()) file["additional_special_tokens"] = options.more_special;
  if (options.truncation_side == TruncationSide::left) file["truncation_side"] = "left";
  if (!options.special_in_text) file["split_special_tokens"] = true;
  if (options.model_max_length != no_limit) file["model_max_length"] = options.model_max_length;
  return file.dump(2) + "\n";
}

}  // namespace SOMA_NAMESPACE::text
