// Attention of an image model beside double arithmetic.

#include "kernels/image_attention.hpp"

#include <string>

using namespace kernels;

int main() {
  auto context = soma::make_context();
  const std::size_t width = 32, tokens = 512;
  const Tensor q = normal(context, {width, tokens}, 1, DType::bf16);
  const Tensor k = normal(context, {width, tokens}, 2, DType::bf16);
  const Tensor v = normal(context, {tokens, width}, 3, DType::bf16);
  const Tensor out = Tensor::empty(context, {tokens, width});
  run(context, [&](nc::Core& core) { image_attention(core, q, k, v, out); });

  const std::vector<double> queries = numbers(q), keys = numbers(k), values = numbers(v),
                            results = numbers(out);
  const double scale = 1 / std::sqrt(double(width));
  Errors errors;
  for (std::size_t i = 0; i < tokens; ++i) {
    std::vector<double> weights(tokens);
    double largest = -1e300, most = 0;  // scores, and sums of their terms' magnitudes
    for (std::size_t j = 0; j < tokens; ++j) {
      double score = 0, magnitude = 0;
      for (std::size_t c = 0; c < width; ++c) {
        const double product = queries[c * tokens + i] * keys[c * tokens + j];
        score += product;
        magnitude += std::fabs(product);
      }
      weights[j] = score * scale;
      largest = (std::max)(largest, weights[j]);
      most = (std::max)(most, magnitude * scale);
    }
    double total = 0;
    for (double& weight : weights) total += weight = std::exp(weight - largest);
    // A weight: the score's additions, scaling and shift (magnitudes at most twice `most`), exp(),
    // and one rounding to bf16 where it meets the values. The total has all but the last.
    const double of_weight = 2 * most * roundings(double(width) + 3) + function_error;
    const double of_total = of_weight + roundings(double(tokens) + 2);
    for (std::size_t c = 0; c < width; ++c) {
      double sum = 0, magnitude = 0;
      for (std::size_t j = 0; j < tokens; ++j) {
        sum += weights[j] / total * values[j * width + c];
        magnitude += weights[j] / total * std::fabs(values[j * width + c]);
      }
      errors.add(results[i * width + c], sum,
                 1.01 * magnitude * (bf16_unit + of_weight + of_total + roundings(double(tokens))));
    }
  }

  for (const std::size_t n : {4096, 5120})
    for (const DType dtype : {DType::bf16, DType::fp32}) {
      const Tensor columns = Tensor::empty(context, {128, n}, dtype);
      const Tensor rows = Tensor::empty(context, {n, 128}, dtype);
      const Tensor to = Tensor::empty(context, {n, 128}, dtype);
      print_time(std::to_string(n) + " x 128, " + std::string(to_string(dtype)),
                 microseconds(context, [&](nc::Core& core) {
                   image_attention(core, columns, columns, rows, to);
                 }));
    }
  return verdict(errors);
}
