// Resizing by gather: copies, so the results are equal, bit for bit.

#include "kernels/resize.hpp"

using namespace kernels;

namespace {

struct Size {
  std::size_t height, width;
};

// For each pixel of `count` results, the nearest pixel of its image, as resize() wants them.
Tensor nearest(soma::Context& context, std::size_t count, Size from, Size to) {
  const std::size_t steps = (count * to.height * to.width + lanes - 1) / lanes;
  const Tensor rows = Tensor::zeros(context, {lanes, steps}, DType::int32);
  std::size_t at = 0;
  for (std::size_t image = 0; image < count; ++image)
    for (std::size_t h = 0; h < to.height; ++h)
      for (std::size_t w = 0; w < to.width; ++w) {
        const std::size_t y = h * from.height / to.height, x = w * from.width / to.width;
        rows.mutable_span<std::int32_t>()[at++] =
            std::int32_t((image * from.height + y) * from.width + x);
      }
  return rows;
}

}  // namespace

int main() {
  auto context = soma::make_context();
  const std::size_t images = 2, channels = 40;
  const Size from{9, 7}, to{16, 11};
  const Tensor x = normal(context, {images * from.height * from.width, channels}, 1, DType::bf16);
  const Tensor rows = nearest(context, images, from, to);
  const Tensor y = Tensor::empty(context, {images * to.height * to.width, channels}, DType::bf16);
  run(context, [&](nc::Core& core) { resize(core, x, rows, y); });

  const std::vector<double> in = numbers(x), out = numbers(y);
  Errors errors;
  for (std::size_t image = 0; image < images; ++image)
    for (std::size_t h = 0; h < to.height; ++h)
      for (std::size_t w = 0; w < to.width; ++w)
        for (std::size_t c = 0; c < channels; ++c) {
          const std::size_t y0 = std::size_t(std::floor(double(h) * 9 / 16)),
                            x0 = std::size_t(std::floor(double(w) * 7 / 11));
          errors.add(out[((image * to.height + h) * to.width + w) * channels + c],
                     in[((image * from.height + y0) * from.width + x0) * channels + c], 0);
        }

  const Size small{30, 20}, larger{59, 38};
  const auto print = [&](const char* name, std::size_t count, DType dtype) {
    const Tensor a = Tensor::empty(context, {count * 600, 1280}, dtype);
    const Tensor of = nearest(context, count, small, larger);
    const Tensor b = Tensor::empty(context, {count * 2242, 1280}, dtype);
    print_time(name, microseconds(context, [&](nc::Core& core) { resize(core, a, of, b); }));
  };
  print("1 image of 30 x 20 to 59 x 38, 1280 channels, fp16", 1, DType::fp16);
  print("10 images, fp32", 10, DType::fp32);
  return verdict(errors);
}
