// Causal attention, forward and backward, beside double arithmetic.

#include "kernels/causal_attention.hpp"

using namespace kernels;

int main() {
  auto context = soma::make_context();
  const std::size_t tokens = 256, width = 16;
  const auto matrix = [&] { return Tensor::empty(context, {tokens, width}); };
  const auto drawn = [&](std::uint32_t i) { return normal(context, {tokens, width}, i); };
  const Tensor q = drawn(1), k = drawn(2), v = drawn(3), dout = drawn(4);
  const Tensor out = matrix(), dq = matrix(), dk = matrix(), dv = matrix();
  const Tensor log_sums = Tensor::empty(context, {tokens, 1});
  run(context, [&](nc::Core& core) {
    causal_attention(core, q, k, v, out, log_sums);
    core.finish();
    causal_attention_backward(core, q, k, v, out, log_sums, dout, dq, dk, dv);
  });

  // Each quantity beside its bound. `magnitude` replaces every term of a sum by its magnitude.
  const std::vector<double> Q = numbers(q), K = numbers(k), V = numbers(v), G = numbers(dout);
  const double scale = 1 / std::sqrt(double(width)), n = double(tokens), w = double(width);
  const auto dot = [&](const std::vector<double>& a, std::size_t i, const std::vector<double>& b,
                       std::size_t j, bool magnitude) {
    double sum = 0;
    for (std::size_t c = 0; c < width; ++c) {
      const double term = a[i * width + c] * b[j * width + c];
      sum += magnitude ? std::fabs(term) : term;
    }
    return sum;
  };
  struct Sum {
    double value = 0, error = 0;
  };
  std::vector<Sum> O(tokens * width), DQ = O, DK = O, DV = O;
  for (std::size_t i = 0; i < tokens; ++i) {
    std::vector<double> p(i + 1);
    double largest = -1e300, most = 0, total = 0;
    for (std::size_t j = 0; j <= i; ++j) {
      p[j] = scale * dot(Q, i, K, j, false);
      largest = (std::max)(largest, p[j]);
      most = (std::max)(most, scale * dot(Q, i, K, j, true));
    }
    for (double& value : p) total += value = std::exp(value - largest);
    for (double& value : p) value /= total;
    // A weight: a score's additions, scaling and shift, and exp(), once more for each later block;
    // twice, because of the division; and the additions of the total.
    const double of_exp = 2 * most * roundings(w + 4) + function_error;
    const double of_p = 2 * (1 + n / lanes) * of_exp + roundings(n + 4);
    // Computed again from the logarithm of the sum.
    const double log_sum = std::fabs(std::log(total)) + std::fabs(largest);
    const double of_p_again = of_exp + of_p + function_error * log_sum + 3 * fp32_unit * log_sum;
    double inner = 0, of_inner = 0;  // sum of dout * out
    for (std::size_t c = 0; c < width; ++c) {
      Sum& o = O[i * width + c];
      double magnitude = 0;
      for (std::size_t j = 0; j <= i; ++j) {
        o.value += p[j] * V[j * width + c];
        magnitude += p[j] * std::fabs(V[j * width + c]);
      }
      o.error = 1.01 * magnitude * (of_p + roundings(n));
      inner += G[i * width + c] * o.value;
      of_inner += std::fabs(G[i * width + c]) * (roundings(w + 1) * std::fabs(o.value) + o.error);
    }
    for (std::size_t j = 0; j <= i; ++j) {
      const double dp = dot(G, i, V, j, false), of_dp = roundings(w) * dot(G, i, V, j, true);
      const double ds = p[j] * (dp - inner);
      const double of_ds =
          1.01 * (p[j] * (of_dp + of_inner) + std::fabs(ds) * (of_p_again + roundings(2)));
      const auto add = [&](Sum& sum, double factor, double of, double other, double times) {
        sum.value += times * factor * other;
        sum.error += times * (1.01 * of + roundings(n + 2) * std::fabs(factor)) * std::fabs(other);
      };
      for (std::size_t c = 0; c < width; ++c) {
        add(DV[j * width + c], p[j], p[j] * of_p_again, G[i * width + c], 1);
        add(DQ[i * width + c], ds, of_ds, K[j * width + c], scale);
        add(DK[j * width + c], ds, of_ds, Q[i * width + c], scale);
      }
    }
  }
  Errors errors;
  const auto check = [&](const Tensor& results, const std::vector<Sum>& wanted) {
    const std::vector<double> got = numbers(results);
    for (std::size_t i = 0; i < got.size(); ++i)
      errors.add(got[i], wanted[i].value, wanted[i].error);
  };
  check(out, O);
  check(dq, DQ);
  check(dk, DK);
  check(dv, DV);

  const auto large = [&] { return Tensor::empty(context, {2048, 128}); };
  const Tensor a = large(), b = large(), c = large(), d = large(), e = large();
  const Tensor sums = Tensor::empty(context, {2048, 1});
  print_time("2048 x 128 in fp32, forward", microseconds(context, [&](nc::Core& core) {
               causal_attention(core, a, a, a, b, sums);
             }));
  print_time("2048 x 128 in fp32, backward", microseconds(context, [&](nc::Core& core) {
               causal_attention_backward(core, a, a, a, b, sums, a, c, d, e);
             }));
  return verdict(errors);
}
