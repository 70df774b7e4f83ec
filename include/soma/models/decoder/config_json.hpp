#pragma once
// Reads and writes the config.json of GPT-2, Llama, Mistral and Qwen2 in the forms of the usual
// libraries. The tables in base/model_keys.hpp define the treatment of each key.

#include <soma/models/config_reader.hpp>
#include <soma/models/decoder/decoder.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::models {

// The content of a config.json.
struct DecoderConfigFile {
  DecoderConfig config{};
  std::vector<std::int32_t> end_ids{};  // eos_token_id: the ids that end a text
  // The file as it was: keys that soma does not compute with are written back.
  std::string text = "{}";
};

namespace detail {

class DecoderConfigReader : private ConfigReader {
 public:
  DecoderConfigReader(std::string_view text, std::string_view name)
      : ConfigReader("decoder_config_from_json", text, name) {}

  DecoderConfigFile read() const;

 private:
  // The values of rope_scaling or rope_parameters.
  class Rotary;

  DecoderKind check_kind() const;
  void read_gpt2(DecoderConfig& config) const;
  void read_llama(DecoderConfig& config) const;
  void read_rotary(DecoderConfig& config) const;
  void read_windows(DecoderConfig& config) const;
  std::vector<std::int32_t> end_ids() const;
};

}  // namespace detail

// Reads a config.json. Missing keys have the family's defaults (DecoderConfig::of). null means
// missing. Keys in no table are kept and not read. `name`: of the file, for messages. Errors
// models.config_json, models.config_type, models.config_value: they name the key, its value and the
// accepted values.
DecoderConfigFile decoder_config_from_json(std::string_view text,
                                           std::string_view name = "config.json");

// The text of a config.json for weights of that type, for old and new versions of the usual
// library: both forms of the rotary keys, torch_dtype and dtype.
std::string to_json(const DecoderConfigFile& file, DType weights = DType::fp32);

// Reads the config.json at `path`, or in the folder `path`. Errors file.read, and those of
// decoder_config_from_json.
DecoderConfigFile load_decoder_config(std::string_view path);

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/decoder/impl/config_json.ipp>
#endif
