// Kernels for all processors.

#include <stdint.h>
#include <stdlib.h>
#include <torch/torch.h>
#include <neuron/neuron-utils.hpp>

// Elements of this processor: the last one has the rest.
static void share(size_t count, size_t* first, size_t* end) {
  size_t part = count / get_cpu_count();
  *first = part * get_cpu_id();
  *end = get_cpu_id() + 1 == get_cpu_count() ? count : *first + part;
}

static constexpr size_t room = 1024;

torch::Tensor relu(const torch::Tensor& x) {
  torch::Tensor y = get_dst_tensor();
  size_t first, end;
  share(x.numel(), &first, &end);
  float* buffer = (float*)torch::neuron::tcm_malloc(sizeof(float) * room);
  auto in = x.tcm_accessor();
  auto out = y.tcm_accessor();
  for (size_t i = first; i < end; i += room) {
    size_t part = end - i < room ? end - i : room;
    in.tensor_to_tcm<float>(buffer, i, part);
    for (size_t j = 0; j < part; j++) buffer[j] = buffer[j] > 0.0 ? buffer[j] : 0.0;
    out.tcm_to_tensor<float>(buffer, i, part);
  }
  torch::neuron::tcm_free(buffer);
  return y;
}
torch::Tensor relu_back(const torch::Tensor& dy, const torch::Tensor& x) {
  torch::Tensor dx = get_dst_tensor();
  size_t first, end;
  share(x.numel(), &first, &end);
  float* up = (float*)torch::neuron::tcm_malloc(sizeof(float) * room);
  float* buffer = (float*)torch::neuron::tcm_malloc(sizeof(float) * room);
  for (size_t i = first; i < end; i += room) {
    size_t part = end - i < room ? end - i : room;
    x.tcm_accessor().tensor_to_tcm<float>(buffer, i, part);
    dy.tcm_accessor().tensor_to_tcm<float>(up, i, part);
    for (size_t j = 0; j < part; j++) up[j] = buffer[j] > 0.0 ? up[j] : 0.0;
    dx.tcm_accessor().tcm_to_tensor<float>(up, i, part);
  }
  torch::neuron::tcm_free(buffer);
  torch::neuron::tcm_free(up);
  return dx;
}

// y = by x, and its gradient.
torch::Tensor scaled(const torch::Tensor& x, const torch::Scalar& by) {
  torch::Tensor y = get_dst_tensor();
  size_t first, end;
  share(x.numel(), &first, &end);
  float* buffer = (float*)torch::neuron::tcm_malloc(sizeof(float) * room);
  for (size_t i = first; i < end; i += room) {
    size_t part = end - i < room ? end - i : room;
    x.tcm_accessor().tensor_to_tcm<float>(buffer, i, part);
    for (size_t j = 0; j < part; j++) buffer[j] *= by.to<float>();
    y.tcm_accessor().tcm_to_tensor<float>(buffer, i, part);
  }
  torch::neuron::tcm_free(buffer);
  return y;
}
torch::Tensor scaled_back(torch::Tensor dy, torch::Tensor, torch::Scalar by) {
  return scaled(dy, by);
}

// Mistakes that several processors can make, each by its number.
torch::Tensor wrong(const torch::Tensor& x, double which) {
  size_t count = x.numel(), part = count / get_cpu_count();
  float* buffer = (float*)torch::neuron::tcm_malloc(sizeof(float) * room);
  torch::Tensor y = which == 0 ? torch::empty(x.sizes(), torch::kFloat) : get_dst_tensor();
  switch ((int)which) {
    case 1:  // the last processor offsets by its enlarged share
      if (get_cpu_id() + 1 == get_cpu_count()) part = count - part * (get_cpu_count() - 1);
      x.tcm_accessor().tensor_to_tcm<float>(buffer, part * get_cpu_id(), part);
      break;
    case 2:  // every processor writes all of it
      x.tcm_accessor().tensor_to_tcm<float>(buffer, 0, count);
      y.tcm_accessor().tcm_to_tensor<float>(buffer, 0, count);
      break;
    case 3:  // the rest is nobody's
      x.tcm_accessor().tensor_to_tcm<float>(buffer, part * get_cpu_id(), part);
      y.tcm_accessor().tcm_to_tensor<float>(buffer, part * get_cpu_id(), part);
      break;
    case 4:
      x.accessor<float, 1>();
      break;
    case 5:
      x.read_stream_accessor<float>();
      break;
    case 6:  // one reads what the next one writes
      x.tcm_accessor().tensor_to_tcm<float>(buffer, part * get_cpu_id(), part);
      y.tcm_accessor().tcm_to_tensor<float>(buffer, part * get_cpu_id(), part);
      if (get_cpu_id() == 2) y.tcm_accessor().tensor_to_tcm<float>(buffer, 3 * part, 1);
      break;
  }
  return y;
}
