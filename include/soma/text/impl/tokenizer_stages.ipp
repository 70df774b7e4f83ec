#pragma once
// The functions of tokenizer_stages.hpp.

#include <soma/text/tokenizer_stages.hpp>

#include <soma/text/tokenizer_settings.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text::detail {

SOMA_INLINE void flatten_stage(const SettingsReader& settings, const Json& stage, const char* key,
                               const char* list, std::vector<const Json*>& elements) {
  if (settings.type_of(stage) != "Sequence") return elements.push_back(&stage);
  const auto found = stage.find(list);
  if (found == stage.end() || !found->is_array())
    settings.refuse("whose " + std::string(key) + " is a Sequence without " + soma::quoted(list));
  for (const Json& element : *found) {
    if (!element.is_object()) settings.refuse("whose " + std::string(key) + " holds no objects");
    flatten_stage(settings, element, key, list, elements);
  }
}

SOMA_INLINE std::vector<const Json*> stage_elements(const SettingsReader& settings,
                                                    const Json& root, const char* key,
                                                    const char* list) {
  std::vector<const Json*> elements;
  if (const Json* stage = settings.object(root, key); stage != nullptr)
    flatten_stage(settings, *stage, key, list, elements);
  return elements;
}

SOMA_INLINE void refuse_stage(const SettingsReader& settings, const char* key,
                              std::string_view type, std::string_view wanted) {
  settings.refuse("whose " + std::string(key) + " is " + soma::quoted(type) + ", not " +
                  soma::quoted(wanted));
}

SOMA_INLINE bool read_normalizer(const SettingsReader& settings, const Json& root,
                                 SplitOptions& split) {
  split.clean_text = split.chinese_chars = split.lowercase = false;
  split.strip_accents = false;
  bool decomposed = false, first = true;
  for (const Json* element : stage_elements(settings, root, "normalizer", "normalizers")) {
    const std::string type = settings.type_of(*element);
    if (type == "BertNormalizer" && first) {
      split = SplitOptions{.max_word_chars = split.max_word_chars};
      settings.read(*element, "clean_text", split.clean_text);
      settings.read(*element, "handle_chinese_chars", split.chinese_chars);
      settings.read(*element, "strip_accents", split.strip_accents);
      settings.read(*element, "lowercase", split.lowercase);
    } else if (type == "Lowercase") {
      // An unset value follows the lower case: from here on it is set.
      split.strip_accents = split.strip_accents.value_or(split.lowercase);
      split.lowercase = true;
    } else if (type == "NFD") {
      decomposed = true;
    } else if (type == "StripAccents" && decomposed) {
      split.strip_accents = true;
    } else if (type != "Strip") {
      refuse_stage(settings, "normalizer", type, "BertNormalizer");
    }
    first = first && type == "Strip";
  }
  if (decomposed && !split.strip_accents.value_or(split.lowercase))
    refuse_stage(settings, "normalizer", "NFD", "BertNormalizer");
  const Json* stage = settings.object(root, "normalizer");
  return stage != nullptr && settings.type_of(*stage) == "BertNormalizer";
}

SOMA_INLINE void check_pre_tokenizer(const SettingsReader& settings, const Json& root) {
  bool spaces = false, punctuation = false;
  const auto elements = stage_elements(settings, root, "pre_tokenizer", "pretokenizers");
  if (elements.empty()) settings.refuse("which has no pre_tokenizer");
  for (const Json* element : elements) {
    const std::string type = settings.type_of(*element);
    std::string behavior = "Isolated";
    settings.read(*element, "behavior", behavior);
    const bool isolated = type == "Punctuation" && behavior == "Isolated";
    if (type != "BertPreTokenizer" && type != "WhitespaceSplit" && !isolated)
      refuse_stage(settings, "pre_tokenizer", type, "BertPreTokenizer");
    spaces = spaces || type != "Punctuation";
    punctuation = punctuation || type != "WhitespaceSplit";
  }
  if (!spaces || !punctuation)
    refuse_stage(settings, "pre_tokenizer", spaces ? "WhitespaceSplit" : "Punctuation",
                 "BertPreTokenizer");
}

SOMA_INLINE void PostProcessorReader::read(const Json& root) {
  const auto elements = stage_elements(settings_, root, "post_processor", "processors");
  if (elements.empty()) settings_.refuse("which has no post_processor");
  if (elements.size() > 1)
    settings_.refuse("whose post_processor is a Sequence of several, not one \"BertProcessing\"");
  const std::string type = settings_.type_of(*elements.front());
  if (type == "TemplateProcessing") return read_template(*elements.front());
  if (type != "BertProcessing") refuse_stage(settings_, "post_processor", type, "BertProcessing");
  for (const auto& [key, token] :
       {std::pair("cls", &options_.start), std::pair("sep", &options_.separator)}) {
    const Json pair = elements.front()->value(key, Json());
    if (!pair.is_array() || pair.empty() || !pair[0].is_string())
      settings_.refuse("whose post_processor has no token " + soma::quoted(key));
    *token = pair[0].get<std::string>();
    if (pair.size() > 1) check_id(*token, pair[1]);
  }
}

SOMA_INLINE void PostProcessorReader::read_template(const Json& processor) {
  const std::vector<std::string> single = places(processor, "single");
  const std::vector<std::string> pair = places(processor, "pair");
  if (single.size() != 3 || !single[0].starts_with("0 ") || single[1] != "A0" ||
      !single[2].starts_with("0 "))
    settings_.refuse("whose template of one text is not [CLS] A [SEP]");
  options_.start = single[0].substr(2);
  options_.separator = single[2].substr(2);
  const std::vector<std::string> wanted{single[0], "A0", single[2], "B1",
                                        "1 " + options_.separator};
  if (pair != wanted) settings_.refuse("whose template of two texts is not [CLS] A [SEP] B [SEP]");
  const Json* tokens = settings_.object(processor, "special_tokens");
  for (const std::string* token : {&options_.start, &options_.separator}) {
    if (tokens == nullptr || !tokens->contains(*token)) continue;
    const Json ids =
        (*tokens)[*token].is_object() ? (*tokens)[*token].value("ids", Json()) : Json();
    if (!ids.is_array() || ids.size() != 1)
      settings_.refuse("whose template puts several ids for " + soma::quoted(*token));
    check_id(*token, ids[0]);
  }
}

SOMA_INLINE std::vector<std::string> PostProcessorReader::places(const Json& processor,
                                                                 const char* key) const {
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

SOMA_INLINE void PostProcessorReader::check_id(const std::string& token, const Json& id) const {
  if (vocabulary_.contains(token) && id != Json(vocabulary_.find(token)))
    settings_.refuse("whose post_processor puts " + SettingsReader::shown(id) + " for " +
                     soma::quoted(token) + ", which its vocab gives the id " +
                     std::to_string(vocabulary_.find(token)));
}

}  // namespace SOMA_NAMESPACE::text::detail
