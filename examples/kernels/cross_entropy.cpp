// Cross entropy in chunks beside double arithmetic.

#include "kernels/cross_entropy.hpp"

using namespace kernels;

int main() {
  auto context = soma::make_context();
  const std::size_t rows = 140, classes = 500, chunk = 200;
  const Tensor logits = normal(context, {rows, classes}, 1);
  const Tensor labels = Tensor::empty(context, {rows, 1}, DType::int32);
  for (std::size_t row = 0; row < rows; ++row)
    labels.mutable_span<std::int32_t>()[row] = std::int32_t(row * 37 % classes);
  const Tensor losses = Tensor::empty(context, {rows, 1});
  run(context, [&](nc::Core& core) { cross_entropy(core, logits, labels, losses, chunk); });

  const std::vector<double> in = numbers(logits), out = numbers(losses);
  const double chunks = std::ceil(double(classes) / double(chunk));
  Errors errors;
  for (std::size_t row = 0; row < rows; ++row) {
    const double* x = &in[row * classes];
    const auto [least, largest] = std::minmax_element(x, x + classes);
    double sum = 0;
    for (std::size_t i = 0; i < classes; ++i) sum += std::exp(x[i] - *largest);
    const double picked = x[row * 37 % classes];
    const double wanted = std::log(sum) + *largest - picked;
    // A term: exp() of a difference that was rounded, scaled once for each later chunk, and added.
    const double of_exp = function_error + fp32_unit * (*largest - *least);
    const double of_sum = 1.01 * (1 + chunks) * of_exp + roundings(double(chunk) + 2 * chunks);
    // The logarithm makes the relative error of the sum an absolute one; two roundings follow.
    errors.add(out[row], wanted,
               1.01 * of_sum + function_error * std::log(sum) +
                   fp32_unit * (std::fabs(std::log(sum) + *largest) + std::fabs(wanted)));
  }

  const Tensor large = Tensor::empty(context, {512, 32768}, DType::bf16);
  const Tensor l = Tensor::empty(context, {512, 1}, DType::int32),
               y = Tensor::empty(context, {512, 1});
  print_time("512 rows of 32,768 classes, bf16",
             microseconds(context, [&](nc::Core& core) { cross_entropy(core, large, l, y); }));
  return verdict(errors);
}
