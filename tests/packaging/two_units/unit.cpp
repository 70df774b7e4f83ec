// Compiled several times with different flags. Each object makes its own context and converts.
#include <soma/soma.hpp>

#include <span>
#include <vector>

// A function per object: SOMA_UNIT is its name.
bool SOMA_UNIT();
bool SOMA_UNIT() {
  auto context = soma::make_context();
  std::vector<float> values(1001);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i) * 0.37f - 100.0f;
  }
  std::vector<soma::bf16> codes(values.size());
  soma::convert(context, std::span<const float>(values), std::span(codes));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float back = static_cast<float>(codes[i]);
    const float error = back > values[i] ? back - values[i] : values[i] - back;
    const float size = values[i] > 0 ? values[i] : -values[i];
    if (error > size / 256) return false;  // half a unit in the last place of eight bits
  }
  return true;
}
