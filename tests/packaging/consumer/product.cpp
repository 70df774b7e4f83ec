// Prints the GFLOP/s of a product of two 256 x 256 matrices on one thread, the best of many.
#include <soma/soma.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>

int main() {
  auto context = soma::make_context({.threads = 1});
  const auto a = soma::Tensor::full(context, soma::Shape{256, 256}, 1.0f);
  soma::Tape tape(context);
  const auto x = tape.constant(a);
  double best = 0;
  for (int i = 0; i < 400; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto y = soma::matmul(tape, x, x);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    best = std::max(best, 2.0 * 256 * 256 * 256 / seconds.count() * 1e-9);
  }
  std::printf("%.1f\n", best);
}
