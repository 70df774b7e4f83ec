// Any bytes as the two files of a fast classifier: refused, or a model that answers texts with
// probabilities. The input is config.json, an end of line, and model.safetensors.

#include <soma/base/error.hpp>
#include <soma/io/record_json.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/models/fast_linear.hpp>
#include <soma/models/fast_options.hpp>
#include <soma/soma.hpp>
#include <soma/sparse.hpp>

#include "check.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static soma::Context context = soma::make_context({.threads = 1});
  static const bool added = [] {
    soma::add_sparse(context);
    return true;
  }();
  static_cast<void>(added);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = (std::min)(text.find('\n'), size);
  const auto bytes = std::as_bytes(std::span(data, size)).subspan((std::min)(end + 1, size));
  const auto content = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  try {
    const soma::Record record = soma::record_from_json(text.substr(0, end), "config.json");
    const soma::models::FastOptions options =
        soma::models::fast_linear_options_of(record, "folder");
    const soma::SafetensorsFile file = soma::load_safetensors(context, *content, content);
    const soma::models::FastLinear model(context, record, file.tensors, options.labels.size(),
                                         "folder");
    for (const std::string_view one : {"", "a good film", "\xff\xfe", "good good good"}) {
      const std::vector<float> p = model.probabilities(one);
      soma_fuzz::check(p.size() == options.labels.size(), "a probability for each class");
      for (const float value : p)
        soma_fuzz::check(value >= 0 && value <= 1.0001f, "probabilities are from 0 to 1");
    }
  } catch (const soma::Error&) {
  }
  return 0;
}
