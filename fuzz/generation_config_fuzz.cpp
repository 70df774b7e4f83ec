// Reads random bytes as a generation_config.json: the reader refuses them, or returns settings in
// range that are written and read again without a change.

#include <soma/models/decoder/generation_config.hpp>

#include "check.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace soma::models;
  try {
    const GenerationConfig config =
        generation_config_from_json(std::string_view(reinterpret_cast<const char*>(data), size));
    const SamplingOptions& sampling = config.sampling;
    soma_fuzz::check(sampling.temperature >= 0 && sampling.top_p >= 0 && sampling.top_p <= 1 &&
                         sampling.min_p >= 0 && sampling.min_p <= 1 &&
                         sampling.repetition_penalty > 0,
                     "settings are in range");
    for (const std::int32_t id : config.end_ids) soma_fuzz::check(id >= 0, "an id");
    const std::string text = to_json(config);
    soma_fuzz::check(to_json(generation_config_from_json(text)) == text, "reads the same");
  } catch (const soma::Error&) {
  }
  return 0;
}
