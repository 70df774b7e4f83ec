// Reads random bytes as a BERT's config.json: the reader refuses them, or returns a possible model
// that is written and read again without a change.

#include <soma/models/bert_config_json.hpp>

#include "check.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace soma::models;
  try {
    const BertConfigFile file =
        bert_config_from_json(std::string_view(reinterpret_cast<const char*>(data), size));
    soma_fuzz::check(file.config.width % file.config.heads == 0, "heads divide the width");
    soma_fuzz::check(!file.labels.empty(), "there are labels");
    const std::string text = to_json(file);  // refuses labels that no answer can name
    soma_fuzz::check(to_json(bert_config_from_json(text)) == text, "reads the same");
  } catch (const soma::Error&) {
  }
  return 0;
}
