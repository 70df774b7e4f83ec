// Depthwise convolution beside double arithmetic.

#include "kernels/depthwise.hpp"

using namespace kernels;

int main() {
  auto context = soma::make_context();
  const std::size_t channels = 6, taps = 3, height = 64 + taps - 1, width = 20;
  const std::size_t out_height = height - taps + 1, out_width = width - taps + 1;
  const Tensor x = normal(context, {channels, height, width}, 1);
  const Tensor k = normal(context, {channels, taps, taps}, 2);
  const Tensor y = Tensor::empty(context, {channels, out_height, out_width});
  run(context, [&](nc::Core& core) { depthwise(core, x, k, y); });

  // Each of taps * taps terms is a product, and takes part in up to as many additions.
  const std::vector<double> in = numbers(x), factors = numbers(k), out = numbers(y);
  Errors errors;
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t h = 0; h < out_height; ++h)
      for (std::size_t w = 0; w < out_width; ++w) {
        double sum = 0, magnitude = 0;
        for (std::size_t i = 0; i < taps; ++i)
          for (std::size_t j = 0; j < taps; ++j) {
            const double term =
                factors[(c * taps + i) * taps + j] * in[(c * height + h + i) * width + w + j];
            sum += term;
            magnitude += std::fabs(term);
          }
        errors.add(out[(c * out_height + h) * out_width + w], sum,
                   roundings(double(taps * taps)) * magnitude);
      }

  const Tensor large = Tensor::empty(context, {64, 130, 130}),
               all = Tensor::empty(context, {64, 3, 3});
  const Tensor to = Tensor::empty(context, {64, 128, 128});
  print_time("64 channels of 130 x 130, 3 x 3 taps, fp32",
             microseconds(context, [&](nc::Core& core) { depthwise(core, large, all, to); }));
  return verdict(errors);
}
