// The unit that makes a context, and prints what another unit makes of it.
#include SOMA_HEADERS

#include <cstdint>
#include <cstdio>

float loss_after(soma::Context& context, const soma::Tensor& x, int steps);
soma::Tensor labels_in(soma::Context& context);

#ifndef SOMA_THREE_UNITS
soma::Tensor labels_in(soma::Context& context) {
  return soma::Tensor::from<std::int64_t>(context, {0, 1, 1, 0}, {4});
}
#endif

int main() {
  auto context = soma::make_context({.threads = 1});
  const auto x = soma::Tensor::from<float>(context, {0, 0, 0, 1, 1, 0, 1, 1}, {4, 2});
  std::printf("%.9g\n", static_cast<double>(loss_after(context, x, 40)));
}
