// The program of a user who has read the first page only.
#include <soma/soma.hpp>

#include <cstdio>
#include <span>
#include <vector>

int main() {
  auto context = soma::make_context();
  // Exact; a tie that goes to even, down; a tie that goes up; negative; large.
  const std::vector<float> values{1.0f, 1.00390625f, 1.01171875f, -2.5f, 3.0e38f};
  const std::vector<float> wanted{1.0f, 1.0f, 1.015625f, -2.5f, 0x1.c4p127f};
  std::vector<soma::bf16> codes(values.size());
  soma::convert(context, std::span<const float>(values), std::span(codes));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto got = static_cast<float>(codes[i]);
    if (got != wanted[i]) {
      std::printf("value %zu: got %.9g, wanted %.9g\n", i, static_cast<double>(got),
                  static_cast<double>(wanted[i]));
      return 1;
    }
  }
  if (codes[0].bits() != 0x3F80u) return 1;
  std::puts("converted");
  return 0;
}
