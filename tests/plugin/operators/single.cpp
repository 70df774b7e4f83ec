// Kernels in the vendor's style, for one processor: every accessor, the parameters, the integers.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <torch/torch.h>

// ---- element accessors

torch::Tensor relu_elements(const torch::Tensor& x) {
  torch::Tensor y = torch::zeros(x.sizes(), torch::kFloat);
  auto in = x.accessor<float, 2>();
  auto out = y.accessor<float, 2>();
  for (int row = 0; row < x.size(0); row++)
    for (int column = 0; column < x.size(-1); column++)
      out[row][column] = in[row][column] > 0.0 ? in[row][column] : 0.0;
  return y;
}
torch::Tensor relu_elements_back(const torch::Tensor& dy, const torch::Tensor& x) {
  torch::Tensor dx = torch::zeros(x.sizes(), torch::kFloat);
  auto in = x.accessor<float, 2>();
  auto up = dy.accessor<float, 2>();
  auto out = dx.accessor<float, 2>();
  for (int row = 0; row < x.size(0); row++)
    for (int column = 0; column < x.size(1); column++)
      out[row][column] = in[row][column] > 0.0 ? up[row][column] : 0.0;
  return dx;
}

// y = x w^T + b, straight into the output: x [B, K], w [M, K], b [M].
torch::Tensor layer(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  torch::Tensor y = get_dst_tensor();
  const auto in = x.accessor<float, 2>();
  const auto weight = w.accessor<float, 2>();
  const auto bias = b.accessor<float, 1>();
  auto out = y.accessor<float, 2>();
  for (int64_t i = 0; i < x.size(0); i++)
    for (int64_t j = 0; j < w.size(0); j++) {
      float sum = bias[j];
      for (int64_t k = 0; k < x.size(1); k++) sum += in[i][k] * weight[j][k];
      out[i][j] = sum;
    }
  return y;
}

// ---- streams

torch::Tensor add_streams(const torch::Tensor& a, const torch::Tensor& b) {
  assert(a.sizes() == b.sizes());
  size_t count = a.numel();
  torch::Tensor y = torch::empty({count}, torch::kFloat);
  auto left = a.read_stream_accessor<float>();
  auto right = b.read_stream_accessor<float>();
  auto out = y.write_stream_accessor<float>();
  for (size_t i = 0; i < count; i++) out.write(left.read() + right.read());
  return y;
}

// ---- local memory

torch::Tensor negate_tcm(const torch::Tensor& x) {
  size_t count = x.numel();
  torch::Tensor y = torch::empty(x.sizes(), x.options());
  static constexpr size_t room = 1024;
  float* buffer = (float*)torch::neuron::tcm_malloc(sizeof(float) * room);
  if (buffer != nullptr) {
    auto in = x.tcm_accessor();
    auto out = y.tcm_accessor();
    for (size_t i = 0; i < count; i += room) {
      size_t part = count - i > room ? room : count - i;
      in.tensor_to_tcm<float>(buffer, i, part);
      for (size_t j = 0; j < part; j++) buffer[j] *= -1;
      out.tcm_to_tensor<float>(buffer, i, part);
    }
  }
  torch::neuron::tcm_free(buffer);
  return y;
}

// ---- numbers

// (clamp(x, low, high) + shift) * scale
torch::Tensor clamp_and_scale(const torch::Tensor& x, double low, const torch::Scalar& high,
                              torch::Scalar scale, int64_t shift) {
  torch::Tensor clamped = torch::clamp(x, low, high);
  return torch::mul(torch::add(clamped, shift), scale);
}

// ---- integers: y = (a & b) | ~a, into the output, of any integer type

template <class T>
static void bits_of(torch::Tensor& y, const torch::Tensor& a, const torch::Tensor& b) {
  auto left = a.accessor<T, 1>();
  auto right = b.accessor<T, 1>();
  auto out = y.accessor<T, 1>();
  for (int i = 0; i < a.numel(); i++) out[i] = (left[i] & right[i]) | ~left[i];
}
torch::Tensor integer_bits(const torch::Tensor& a, const torch::Tensor& b) {
  torch::Tensor y = get_dst_tensor();
  if (a.scalar_type() == torch::kShort) {
    bits_of<int16_t>(y, a, b);
  } else if (a.scalar_type() == torch::kByte) {
    bits_of<uint8_t>(y, a, b);
  } else {
    torch::Tensor not_a = torch::empty(a.sizes(), a.options());
    torch::bitwise_not(not_a, a);
    torch::Tensor both = torch::bitwise_and(a, b);
    torch::bitwise_or_out(y, both, not_a);
  }
  return y;
}

// ---- printf in each of its forms

torch::Tensor prints(const torch::Tensor& x) {
  printf("%d elements of %s\n", (int)x.numel(), "x");
  printf("a line\n");
  printf("%c", 'c');
  putchar('d');
  printf("\n");
  puts("put");
  for (int i = 0; i < x.numel(); i++) printf("%s\n", "0123456789");
  return x;
}

// ---- 16-bit floats, and an exception

torch::Tensor halves(const torch::Tensor& x) {
  torch::Tensor y = torch::empty(x.sizes(), x.options());
  if (x.scalar_type() == torch::kHalf) {
    auto in = x.read_stream_accessor<at::Half>();
    auto out = y.write_stream_accessor<at::Half>();
    for (int i = 0; i < x.numel(); i++) out.write(in.read() * 0.5f);
    out.close();
  } else {
    auto in = x.accessor<c10::BFloat16, 1>();
    auto out = y.accessor<c10::BFloat16, 1>();
    for (int i = 0; i < x.numel(); i++) out[i] = in[i] * 0.5f;
  }
  if (x.numel() == 13) throw std::runtime_error("thirteen elements");
  return y;
}
