#include <soma/soma.hpp>

#include <span>
#include <vector>

int main() {
  auto context = soma::make_context();
  const std::vector<float> values{1.0f, -2.5f};
  std::vector<soma::bf16> codes(values.size());
  soma::convert(context, std::span<const float>(values), std::span(codes));
  return codes[0].bits() == 0x3F80u && static_cast<float>(codes[1]) == -2.5f ? 0 : 1;
}
