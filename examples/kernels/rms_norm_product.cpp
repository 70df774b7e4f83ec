// RMS norm and a product beside double arithmetic.

#include "kernels/rms_norm_product.hpp"

#include <string>

using namespace kernels;

int main() {
  auto context = soma::make_context();
  const std::size_t rows = 160, hidden = 256, columns = 48;
  const double epsilon = 1e-6;
  const Tensor x = normal(context, {rows, hidden}, 1, DType::bf16);
  const Tensor w = normal(context, {hidden, columns}, 2, DType::bf16);
  const Tensor y = Tensor::empty(context, {rows, columns}, DType::bf16);
  run(context, [&](nc::Core& core) { rms_norm_product(core, x, w, y, float(epsilon)); });

  // A normed element: the sum of squares (hidden roundings, halved by the root), the root, the
  // product, and one rounding to bf16. A result: as many additions as there are elements, and one
  // rounding to bf16.
  const std::vector<double> in = numbers(x), weights = numbers(w), out = numbers(y);
  const double of_norm =
      bf16_unit + roundings(double(hidden) / 2 + 4) + function_error + roundings(double(hidden));
  Errors errors;
  for (std::size_t row = 0; row < rows; ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < hidden; ++i) squares += std::pow(in[row * hidden + i], 2);
    const double factor = 1 / std::sqrt(squares / double(hidden) + epsilon);
    for (std::size_t column = 0; column < columns; ++column) {
      double sum = 0, magnitude = 0;
      for (std::size_t i = 0; i < hidden; ++i) {
        const double product = in[row * hidden + i] * factor * weights[i * columns + column];
        sum += product;
        magnitude += std::fabs(product);
      }
      const double before = 1.01 * of_norm * magnitude;  // 1.01: products of two errors
      errors.add(out[row * columns + column], sum, before + bf16_unit * (std::fabs(sum) + before));
    }
  }

  constexpr std::size_t shapes[][3] = {
      {128, 512, 512}, {512, 1024, 384}, {128, 1024, 512}, {1024, 8192, 512}};
  for (const auto& [m, k, n] : shapes) {
    const Tensor a = Tensor::empty(context, {m, k}, DType::bf16);
    const Tensor b = Tensor::empty(context, {k, n}, DType::bf16);
    const Tensor c = Tensor::empty(context, {m, n}, DType::bf16);
    print_time(
        std::to_string(m) + " rows of " + std::to_string(k) + ", " + std::to_string(n) + " columns",
        microseconds(context, [&, e = float(epsilon)](nc::Core& core) {
          rms_norm_product(core, a, b, c, e);
        }));
  }
  return verdict(errors);
}
