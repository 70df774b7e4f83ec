#pragma once
// The functions of safetensors_header.hpp.

#include <soma/io/safetensors_header.hpp>

#include <soma/base/error.hpp>
#include <soma/base/json_limits.hpp>
#include <soma/base/sizes.hpp>
#include <soma/io/json_text.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE bool SafetensorsHeaderReader::read(std::string_view text) {
  if (has_zero_byte(text)) return refuse("has a zero byte");
  const bool good = Json::sax_parse(text.begin(), text.end(), this);
  if (!good && problem.empty()) problem = "is no JSON";
  return good && no_duplicates();
}

SOMA_INLINE bool SafetensorsHeaderReader::start_object(std::size_t) {
  if (place_ == Place::outside) return enter(Place::names);
  if (place_ == Place::value && in_metadata_) return enter(Place::metadata);
  if (place_ == Place::value) return enter(Place::fields);
  return refuse("has an object where none belongs");
}

SOMA_INLINE bool SafetensorsHeaderReader::end_object() {
  if (place_ == Place::fields && seen_ != 7)
    return refuse("has a tensor without dtype, shape or data_offsets");
  return enter(place_ == Place::names ? Place::done : Place::names);
}

SOMA_INLINE bool SafetensorsHeaderReader::key(std::string& name) {
  if (place_ == Place::metadata) {
    metadata.emplace_back(name, "");
    return true;
  }
  if (place_ == Place::names) {
    in_metadata_ = name == "__metadata__";
    if (in_metadata_ && std::exchange(has_metadata_, true)) return refuse("has __metadata__ twice");
    if (!in_metadata_) entries.push_back({.name = name, .dtype = {}, .sizes = {}});
    seen_ = 0;
    return enter(Place::value);
  }
  const unsigned bit = name == "dtype" ? 1 : name == "shape" ? 2 : name == "data_offsets" ? 4 : 0;
  if (bit == 0 || (seen_ & bit) != 0)
    return refuse("has a tensor with an unknown field, or with one twice");
  seen_ |= bit;
  field_ = bit;
  return true;
}

SOMA_INLINE bool SafetensorsHeaderReader::string(std::string& text) {
  if (place_ == Place::metadata) {
    metadata.back().second = std::move(text);
    return true;
  }
  if (place_ != Place::fields || field_ != 1) return refuse("has a text where none belongs");
  entries.back().dtype = std::move(text);
  return true;
}

SOMA_INLINE bool SafetensorsHeaderReader::start_array(std::size_t) {
  if (place_ != Place::fields || field_ == 1) return refuse("has a list where none belongs");
  offsets_ = 0;
  return enter(Place::numbers);
}

SOMA_INLINE bool SafetensorsHeaderReader::end_array() {
  if (field_ == 4 && offsets_ != 2) return refuse("has data_offsets that are not two numbers");
  return enter(Place::fields);
}

SOMA_INLINE bool SafetensorsHeaderReader::number_unsigned(std::uint64_t number) {
  if (place_ != Place::numbers) return refuse("has a number where none belongs");
  SafetensorsEntry& entry = entries.back();
  if (field_ == 2)
    entry.sizes.push_back(number);
  else if (offsets_++ == 0)
    entry.begin = number;
  else
    entry.end = number;
  return true;
}

SOMA_INLINE bool SafetensorsHeaderReader::number_integer(std::int64_t) {
  return refuse("has a negative number");
}

SOMA_INLINE bool SafetensorsHeaderReader::number_float(double, const std::string&) {
  return refuse("has a number that is no integer below 2^64");
}

SOMA_INLINE bool SafetensorsHeaderReader::null() { return refuse("has a null"); }

SOMA_INLINE bool SafetensorsHeaderReader::boolean(bool) { return refuse("has a true or false"); }

SOMA_INLINE bool SafetensorsHeaderReader::binary(Json::binary_t&) {
  return refuse("has binary data");
}

SOMA_INLINE bool SafetensorsHeaderReader::parse_error(std::size_t position, const std::string&,
                                                      const nlohmann::detail::exception&) {
  return refuse("is no JSON at byte " + std::to_string(position));
}

SOMA_INLINE bool SafetensorsHeaderReader::enter(Place place) {
  place_ = place;
  return true;
}

SOMA_INLINE bool SafetensorsHeaderReader::refuse(std::string why) {
  if (problem.empty()) problem = std::move(why);
  return false;
}

SOMA_INLINE bool SafetensorsHeaderReader::no_duplicates() {
  std::vector<std::string_view> names;
  for (const SafetensorsEntry& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  if (std::adjacent_find(names.begin(), names.end()) != names.end())
    return refuse("has a name twice");
  std::sort(metadata.begin(), metadata.end());
  for (std::size_t i = 1; i < metadata.size(); ++i)
    if (metadata[i].first == metadata[i - 1].first)
      return refuse("has a key of __metadata__ twice");
  return true;
}

SOMA_INLINE std::string safetensors_text(std::string_view operation, std::string_view content) {
  std::optional<std::string> text = json_text(content);
  if (!text)
    fail(error_id::safetensors_name, operation, "name", soma::quoted(content), "valid UTF-8");
  return *std::move(text);
}

SOMA_INLINE std::string safetensors_header(std::string_view operation,
                                           const std::vector<SafetensorsEntry>& entries,
                                           const SafetensorsMetadata& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    text.append("\"__metadata__\":{");
    for (const auto& [key, value] : metadata) {
      text.append(safetensors_text(operation, key)).push_back(':');
      text.append(safetensors_text(operation, value)).push_back(',');
    }
    text.back() = '}';
    text.push_back(',');
  }
  for (const SafetensorsEntry& entry : entries) {
    text.append(safetensors_text(operation, entry.name)).append(":{\"dtype\":\"");
    text.append(entry.dtype).append("\",\"shape\":[");
    for (const std::size_t size : entry.sizes) text.append(std::to_string(size)).push_back(',');
    if (text.back() == ',') text.pop_back();
    text.append("],\"data_offsets\":[").append(std::to_string(entry.begin)).push_back(',');
    text.append(std::to_string(entry.end)).append("]},");
  }
  if (text.back() == ',') text.pop_back();
  text.push_back('}');
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace SOMA_NAMESPACE::detail
