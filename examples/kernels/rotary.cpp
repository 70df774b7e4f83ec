// Rotary embedding by halves beside double arithmetic.

#include "kernels/rotary.hpp"

using namespace kernels;

namespace {

// The cosines or sines of the angles: token * 10000^(-i / half).
template <class Of>
Tensor of_angles(soma::Context& context, std::size_t tokens, std::size_t half, const Of& of) {
  const Tensor result = Tensor::empty(context, {tokens, half});
  for (std::size_t token = 0; token < tokens; ++token)
    for (std::size_t i = 0; i < half; ++i)
      result.mutable_span<float>()[token * half + i] =
          float(of(double(token) * std::pow(10000.0, -double(i) / double(half))));
  return result;
}

}  // namespace

int main() {
  auto context = soma::make_context();
  const std::size_t tokens = 150, heads = 3, half = 16, all = heads * 2 * half;
  const Tensor x = normal(context, {tokens, all}, 1), y = Tensor::empty(context, {tokens, all});
  const Tensor cosines = of_angles(context, tokens, half, [](double a) { return std::cos(a); });
  const Tensor sines = of_angles(context, tokens, half, [](double a) { return std::sin(a); });
  run(context, [&](nc::Core& core) { rotary(core, x, cosines, sines, y, heads); });

  // Two products and their sum: two roundings for each product.
  const std::vector<double> in = numbers(x), cos = numbers(cosines), sin = numbers(sines),
                            out = numbers(y);
  Errors errors;
  for (std::size_t token = 0; token < tokens; ++token)
    for (std::size_t head = 0; head < heads; ++head)
      for (std::size_t i = 0; i < half; ++i) {
        const std::size_t first = token * all + head * 2 * half + i, second = first + half;
        const double c = cos[token * half + i], s = sin[token * half + i];
        const auto check = [&](std::size_t at, double a, double b) {
          errors.add(out[at], a + b, roundings(2) * (std::fabs(a) + std::fabs(b)));
        };
        check(first, in[first] * c, -in[second] * s);
        check(second, in[second] * c, in[first] * s);
      }

  const Tensor large = Tensor::empty(context, {2048, 1024}),
               to = Tensor::empty(context, {2048, 1024});
  const Tensor table = Tensor::empty(context, {2048, 64});
  print_time("2048 tokens, 8 heads of 128, fp32", microseconds(context, [&](nc::Core& core) {
               rotary(core, large, table, table, to, 8);
             }));
  return verdict(errors);
}
