#pragma once
// The functions of config_reader.hpp.

#include <soma/models/config_reader.hpp>

#include <soma/base/error.hpp>
#include <soma/base/json_limits.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::models::detail {

SOMA_INLINE ConfigReader::ConfigReader(std::string_view operation, std::string_view text,
                                       std::string_view name)
    : operation_(operation), name_(name) {
  if (soma::may_be_tree(text)) root_ = Json::parse(text.begin(), text.end(), nullptr, false);
  if (!root_.is_object())
    fail(error_id::config_json, operation_, "text of " + soma::quoted(name_),
         root_.is_discarded() || root_.is_null() ? "no JSON" : root_.type_name(), "a JSON object");
}

SOMA_INLINE void ConfigReader::check_keys(ModelFile file) const {
  soma::detail::check_model_keys(file, root_, [&](const ModelKey& key, const Json& value) {
    bad_value(key.key, shown(value),
              key.neutral.empty() ? "none, or false" : std::string(key.neutral));
  });
}

SOMA_INLINE std::string ConfigReader::shown(const Json& value) {
  constexpr std::size_t most = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > most) text.replace(most, text.npos, "...");
  return text;
}

SOMA_INLINE std::size_t ConfigReader::size(const char* key, std::size_t otherwise,
                                           std::uint64_t most) const {
  return find(key) == nullptr ? otherwise : static_cast<std::size_t>(whole(key, 1, most));
}

SOMA_INLINE std::uint64_t ConfigReader::whole(const char* key, std::uint64_t least,
                                              std::uint64_t most) const {
  const Json& value = *find(key);
  if (!value.is_number_integer()) bad_type(key, value, "an integer");
  // A negative number is shown as text, because it may be of any size.
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < least ||
      value.get<std::uint64_t>() > most)
    bad_value(key, value.dump(), std::to_string(least) + " to " + std::to_string(most));
  return value.get<std::uint64_t>();
}

SOMA_INLINE float ConfigReader::number(const char* key, float otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) bad_type(key, *value, "a number");
  return static_cast<float>(value->get<double>());
}

SOMA_INLINE float ConfigReader::probability(const char* key, float otherwise) const {
  const float value = number(key, otherwise);
  if (!(value >= 0 && value < 1)) bad_value(key, find(key)->dump(), "0 to below 1");
  return value;
}

SOMA_INLINE float ConfigReader::positive(const char* key, float otherwise) const {
  const float value = number(key, otherwise);
  if (!(value > 0 && std::isfinite(value)))
    bad_value(key, find(key)->dump(), "a positive number that a float holds");
  return value;
}

SOMA_INLINE bool ConfigReader::flag(const char* key, bool otherwise) const {
  const Json* value = find(key);
  if (value != nullptr && !value->is_boolean()) bad_type(key, *value, "true or false");
  return value == nullptr ? otherwise : value->get<bool>();
}

SOMA_INLINE Activation ConfigReader::activation(const char* key, Activation otherwise) const {
  const Json* value = text(key);
  if (value == nullptr) return otherwise;
  const auto& name = value->get_ref<const std::string&>();
  std::string wanted = "one of";
  for (const ActivationName& known : activation_names) {
    if (known.name == name) return known.activation;
    wanted.append(" ").append(known.name);
  }
  bad_value(key, soma::quoted(name), wanted);
}

SOMA_INLINE auto ConfigReader::find(const char* key) const -> const Json* {
  const auto value = root_.find(key);
  return value == root_.end() || value->is_null() ? nullptr : &*value;
}

SOMA_INLINE auto ConfigReader::text(const char* key) const -> const Json* {
  const Json* value = find(key);
  if (value != nullptr && !value->is_string()) bad_type(key, *value, "a text");
  return value;
}

SOMA_INLINE void ConfigReader::bad_type(std::string_view key, const Json& value,
                                        std::string_view wanted) const {
  fail(error_id::config_type, operation_, argument(key), value.type_name(), wanted);
}

SOMA_INLINE void ConfigReader::bad_value(std::string_view key, std::string_view given,
                                         std::string_view wanted) const {
  fail(error_id::config_value, operation_, argument(key), given, wanted);
}

SOMA_INLINE std::string ConfigReader::argument(std::string_view key) const {
  return std::string(key).append(" of ").append(soma::quoted(name_));
}

}  // namespace SOMA_NAMESPACE::models::detail
