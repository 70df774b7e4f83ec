// A router's top-k beside double arithmetic.

#include "kernels/router.hpp"

#include <functional>
#include <set>

using namespace kernels;

int main() {
  auto context = soma::make_context();
  const std::size_t tokens = 140, hidden = 128, experts = 24, k = 4;
  const Tensor x = normal(context, {tokens, hidden}, 1), w = normal(context, {hidden, experts}, 2);
  const Tensor weights = Tensor::empty(context, {tokens, k});
  const Tensor chosen = Tensor::empty(context, {tokens, k}, DType::int32);
  run(context, [&](nc::Core& core) { router(core, x, w, weights, chosen); });

  const std::vector<double> in = numbers(x), factors = numbers(w), shares = numbers(weights),
                            numbers_of = numbers(chosen);
  Errors errors;
  for (std::size_t token = 0; token < tokens; ++token) {
    std::vector<double> logits(experts);
    double error =
        0;  // of a logit: products are exact, each takes part in up to `hidden` additions
    for (std::size_t e = 0; e < experts; ++e) {
      double magnitude = 0;
      for (std::size_t i = 0; i < hidden; ++i) {
        const double product = in[token * hidden + i] * factors[i * experts + e];
        logits[e] += product;
        magnitude += std::fabs(product);
      }
      error = (std::max)(error, roundings(double(hidden)) * magnitude);
    }
    std::vector<double> sorted = logits;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    // Where two logits differ by less than their errors, either may come first.
    std::set<double> different;
    double total = 0;
    for (std::size_t i = 0; i < k; ++i) {
      const double number = numbers_of[token * k + i];
      errors.add(logits.at(std::size_t(number)), sorted[i], 2 * error);
      different.insert(number);
      total += std::exp(sorted[i] - sorted[0]);
    }
    errors.add(double(different.size()), double(k), 0.5);
    // exp(): its own error, the difference's rounding and twice the logits' errors; the total has
    // the same and k additions; then a reciprocal and a product.
    for (std::size_t i = 0; i < k; ++i) {
      const double wanted = std::exp(sorted[i] - sorted[0]) / total;
      const double spread = sorted[0] - sorted[k - 1];
      const double of_exp = 2 * error + fp32_unit * spread + function_error;
      errors.add(shares[token * k + i], wanted,
                 wanted * 1.01 * (2 * of_exp + roundings(double(k) + 3)));
    }
  }

  const Tensor large = Tensor::empty(context, {2048, 1024}),
               all = Tensor::empty(context, {1024, 64});
  const Tensor a = Tensor::empty(context, {2048, 8}),
               b = Tensor::empty(context, {2048, 8}, DType::int32);
  print_time("2048 tokens of 1024, 8 of 64 experts",
             microseconds(context, [&](nc::Core& core) { router(core, large, all, a, b); }));
  return verdict(errors);
}
