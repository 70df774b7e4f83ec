// Cumulative sum beside double arithmetic: the first kernel to read.

#include "kernels/cumulative_sum.hpp"

using namespace kernels;

int main() {
  auto context = soma::make_context();
  const std::size_t rows = 130, columns = 700;  // a whole tile and a short one; chunks of 300
  const Tensor x = normal(context, {rows, columns}, 1);
  const Tensor y = Tensor::empty(context, {rows, columns});
  run(context, [&](nc::Core& core) { cumulative_sum(core, x, y, 300); });

  // Each of i additions rounds once: the error is at most roundings(i) of the sum of magnitudes.
  const std::vector<double> in = numbers(x), out = numbers(y);
  Errors errors;
  for (std::size_t row = 0; row < rows; ++row) {
    double sum = 0, magnitude = 0;
    for (std::size_t i = 0; i < columns; ++i) {
      const double value = in[row * columns + i];
      sum += value;
      magnitude += std::fabs(value);
      errors.add(out[row * columns + i], sum, roundings(double(i) + 1) * magnitude);
    }
  }

  const Tensor large = Tensor::empty(context, {1024, 4096});
  const Tensor sums = Tensor::empty(context, {1024, 4096});
  print_time("[1024, 4096] in fp32",
             microseconds(context, [&](nc::Core& core) { cumulative_sum(core, large, sums); }));
  return verdict(errors);
}
