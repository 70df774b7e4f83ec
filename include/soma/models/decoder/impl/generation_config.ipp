#pragma once
// The functions of generation_config.hpp.

#include <soma/models/decoder/generation_config.hpp>

#include <soma/base/fixed.hpp>
#include <soma/base/model_keys.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::models::detail {

class GenerationConfigReader : private ConfigReader {
 public:
  GenerationConfigReader(std::string_view text, std::string_view name)
      : ConfigReader("generation_config_from_json", text, name) {}

  GenerationConfig read() const {
    check_keys(ModelFile::generation_config);
    GenerationConfig config;
    SamplingOptions& sampling = config.sampling;
    sampling.repetition_penalty = positive("repetition_penalty", 1);
    // Values that sampling alone reads are checked even where nothing is sampled.
    const float temperature = number_from_0("temperature", 1);
    const std::size_t top_k = count("top_k", usual_top_k);
    const float top_p = share("top_p", 1), min_p = share("min_p", 0);
    if (flag("do_sample", false)) {
      sampling.temperature = temperature;
      sampling.top_k = top_k;
      sampling.top_p = top_p;
      sampling.min_p = min_p;
    }
    config.max_new = count("max_new_tokens", 0);
    config.most_rows = count("max_length", 0);
    config.end_ids = ids("eos_token_id");
    config.stop_texts = texts("stop_strings");
    config.file = root_.dump(-1, ' ', false, Json::error_handler_t::replace);
    return config;
  }

 private:
  static constexpr std::size_t usual_top_k = 50;

  std::size_t count(const char* key, std::size_t otherwise) const {
    return find(key) == nullptr
               ? otherwise
               : static_cast<std::size_t>(whole(key, 0, (std::uint64_t{1} << 31) - 1));
  }
  float number_from_0(const char* key, float otherwise) const {
    const float value = number(key, otherwise);
    if (!(value >= 0 && std::isfinite(value)))
      bad_value(key, find(key)->dump(), "a number from 0 that a float holds");
    return value;
  }
  float share(const char* key, float otherwise) const {
    const float value = number(key, otherwise);
    if (!(value >= 0 && value <= 1)) bad_value(key, find(key)->dump(), "0 to 1");
    return value;
  }
  std::vector<std::int32_t> ids(const char* key) const {
    std::vector<std::int32_t> result;
    const Json* given = find(key);
    if (given == nullptr) return result;
    const Json list = given->is_array() ? *given : Json::array({*given});
    for (const Json& id : list) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() >> 31 != 0)
        bad_type(key, id, "a token's id, or a list of ids");
      result.push_back(static_cast<std::int32_t>(id.get<std::uint64_t>()));
    }
    return result;
  }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> result;
    const Json* given = find(key);
    if (given == nullptr) return result;
    const Json list = given->is_array() ? *given : Json::array({*given});
    for (const Json& text : list) {
      if (!text.is_string() || text.get_ref<const std::string&>().empty())
        bad_type(key, text, "a text that is not empty, or a list of texts");
      result.push_back(text.get<std::string>());
    }
    return result;
  }
};

}  // namespace SOMA_NAMESPACE::models::detail

namespace SOMA_NAMESPACE::models {

SOMA_INLINE GenerationConfig generation_config_from_json(std::string_view text,
                                                         std::string_view name) {
  return detail::GenerationConfigReader(text, name).read();
}

SOMA_INLINE std::string to_json(const GenerationConfig& config) {
  using Json = nlohmann::json;
  const auto number = [](float value) { return Json::parse(soma::float_text(value)); };
  Json root = Json::parse(config.file);
  const auto put = [&](const char* key, bool given, const Json& value) {
    if (given)
      root[key] = value;
    else
      root.erase(key);
  };
  const SamplingOptions& sampling = config.sampling;
  const bool samples = sampling.temperature > 0;
  root["do_sample"] = samples;
  put("temperature", samples, number(sampling.temperature));
  put("top_k", samples, sampling.top_k);
  put("top_p", samples, number(sampling.top_p));
  put("min_p", samples && sampling.min_p > 0, number(sampling.min_p));
  put("repetition_penalty", sampling.repetition_penalty != 1, number(sampling.repetition_penalty));
  put("max_new_tokens", config.max_new != 0, config.max_new);
  put("max_length", config.most_rows != 0, config.most_rows);
  put("stop_strings", !config.stop_texts.empty(), config.stop_texts);
  put("eos_token_id", !config.end_ids.empty(),
      config.end_ids.size() == 1 ? Json(config.end_ids.front()) : Json(config.end_ids));
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace SOMA_NAMESPACE::models
