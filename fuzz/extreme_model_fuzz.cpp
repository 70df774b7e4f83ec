// Any bytes as the tensors of a linear extreme classifier: refused, or a model that answers points.
// The first byte chooses its kind, the next two say how many features and classes it has.

#include <soma/io/safetensors.hpp>
#include <soma/models/extreme_linear.hpp>
#include <soma/soma.hpp>
#include <soma/sparse.hpp>

#include "check.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace soma::models;
  static soma::Context context = soma::make_context({.threads = 1});
  static const bool added = [] {
    soma::add_sparse(context);
    return true;
  }();
  static_cast<void>(added);
  if (size < 3) return 0;
  const ExtremeFit fit{.kind = data[0] % 2 == 0 ? ExtremeKind::linear : ExtremeKind::tree};
  const std::size_t features = data[1] + std::size_t{1}, classes = data[2] + std::size_t{1};
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(3);
  const auto content = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  try {
    const soma::SafetensorsFile file = soma::load_safetensors(context, *content, content);
    const ExtremeLinear model =
        ExtremeLinear::from_state(context, file.tensors, fit, features, classes, 10);
    ExtremeLinear::Scratch scratch;
    const std::array<std::int32_t, 2> ids{0, static_cast<std::int32_t>(features - 1)};
    const std::array<float, 2> values{1, -0.5f};
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
      if (features == 1 && count == 2) continue;  // a feature is in a point once
      const auto found = model.top(context, std::span(ids).first(count),
                                   std::span(values).first(count), 5, scratch);
      soma_fuzz::check(found.size() <= 5, "as many as were asked for");
      for (const auto& one : found)
        soma_fuzz::check(one.id >= 0 && static_cast<std::size_t>(one.id) < classes, "a class");
    }
  } catch (const soma::Error&) {
  }
  return 0;
}
