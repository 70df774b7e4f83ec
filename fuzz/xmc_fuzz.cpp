// Reads arbitrary bytes as sparse points: points or a soma::Error, and nothing else. The first byte
// chooses the options. What is delivered keeps the reader's promises.

#include <soma/text/xmc_reader.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace soma;
  if (size == 0) return 0;
  text::XmcOptions options;
  if ((data[0] & 1) != 0) options.features = 20;
  if ((data[0] & 2) != 0) options.classes = 10;
  if ((data[0] & 4) != 0) options.first_feature = 1;
  if ((data[0] & 8) != 0) options.max_line_bytes = 30;
  const std::string_view content(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const data::SparsePoints points = text::read_xmc_text(content, "fuzz", options);
    if (points.count() == 0 || points.offsets.back() != points.ids.size()) std::abort();
    if (points.values.size() != points.ids.size() || points.labels.count() != points.count())
      std::abort();
    for (std::size_t i = 0; i < points.ids.size(); ++i)
      if (points.ids[i] < 0 || static_cast<std::size_t>(points.ids[i]) >= points.features ||
          !std::isfinite(points.values[i]))
        std::abort();
    for (std::size_t i = 0; i < points.count(); ++i) {
      const auto labels = points.labels.list(i);
      if (std::adjacent_find(labels.begin(), labels.end(), std::greater_equal<>()) != labels.end())
        std::abort();
      for (const std::int32_t label : labels)
        if (label < 0 || static_cast<std::size_t>(label) >= points.classes) std::abort();
    }
  } catch (const Error&) {
  }
  return 0;
}
