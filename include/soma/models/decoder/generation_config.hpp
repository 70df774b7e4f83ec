#pragma once
// Settings of generating text: how a token is chosen, and where a text ends. Reads and writes the
// generation_config.json of the usual libraries; the table in base/model_keys.hpp defines the
// treatment of each key.

#include <soma/models/config_reader.hpp>
#include <soma/models/decoder/sampling.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::models {

struct GenerationConfig {
  SamplingOptions sampling{};
  std::vector<std::int32_t> end_ids{};    // eos_token_id: each of them ends a text
  std::vector<std::string> stop_texts{};  // stop_strings: each of them ends a text before it
  std::size_t max_new = 0;                // max_new_tokens: the most tokens of a text; 0: not said
  std::size_t most_rows = 0;  // max_length: the most tokens of prompt and text; 0: not said
  // The file as it was: keys that change no text are written back.
  std::string file = "{}";
};

// Reads a generation_config.json. `do_sample` false or missing: greedy, whatever temperature,
// top_k, top_p and min_p say, as in the usual library; true: its defaults are temperature 1,
// top_k 50, top_p 1. max_new_tokens wins over max_length. null means missing. Keys in no table are
// kept and not read. `name`: of the file, for messages. Errors models.config_json,
// models.config_type, models.config_value: a value out of range, or a key that would change the
// text otherwise, such as num_beams above 1.
GenerationConfig generation_config_from_json(std::string_view text,
                                             std::string_view name = "generation_config.json");

// The text of a generation_config.json that the usual libraries read with the same meaning.
std::string to_json(const GenerationConfig& config);

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/decoder/impl/generation_config.ipp>
#endif
