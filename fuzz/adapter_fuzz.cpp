// Reads random bytes as an adapter_config.json: the reader refuses them, or returns options in
// range that are written and read again without a change.

#include <soma/models/adapter_files.hpp>

#include "check.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace soma::models;
  try {
    const AdapterConfig config = adapter_config_from_json(
        std::string_view(reinterpret_cast<const char*>(data), size), "adapter_config.json");
    soma_fuzz::check(config.lora.rank > 0 && config.lora.dropout >= 0 && config.lora.dropout < 1,
                     "options are in range");
    const std::string text = to_json(config);
    soma_fuzz::check(to_json(adapter_config_from_json(text, "written")) == text, "reads the same");
  } catch (const soma::Error&) {
  }
  return 0;
}
