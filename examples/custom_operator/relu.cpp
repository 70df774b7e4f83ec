// ReLU and its gradient in the style of the accelerator's custom operators: eight processors with a
// share of the elements each, which passes through local memory piece by piece. relu_shape.cpp has
// the shape functions.

#include <stdint.h>
#include <stdlib.h>
#include <torch/torch.h>
#include <neuron/neuron-utils.hpp>

static constexpr size_t piece = 1024;  // elements: 4 KB of the 16 KB that a kernel may have

// The first `elements % processors` processors take one element more than the other processors.
static size_t begin_of(size_t elements, uint32_t processor) {
  size_t share = elements / get_cpu_count(), rest = elements % get_cpu_count();
  return share * processor + (processor < rest ? processor : rest);
}

torch::Tensor relu(const torch::Tensor& x) {
  torch::Tensor y = get_dst_tensor();
  auto from = x.tcm_accessor();
  auto to = y.tcm_accessor();
  float* values = (float*)torch::neuron::tcm_malloc(piece * sizeof(float));
  size_t end = begin_of(x.numel(), get_cpu_id() + 1);
  for (size_t i = begin_of(x.numel(), get_cpu_id()); i < end; i += piece) {
    size_t count = end - i < piece ? end - i : piece;
    from.tensor_to_tcm<float>(values, i, count);
    for (size_t j = 0; j < count; j++) values[j] = values[j] > 0.0f ? values[j] : 0.0f;
    to.tcm_to_tensor<float>(values, i, count);
  }
  torch::neuron::tcm_free(values);
  return y;  // ignored: the output is written
}

torch::Tensor relu_gradient(const torch::Tensor& dy, const torch::Tensor& x) {
  torch::Tensor dx = get_dst_tensor();
  auto from = x.tcm_accessor();
  auto gradient = dy.tcm_accessor();
  auto to = dx.tcm_accessor();
  float* values = (float*)torch::neuron::tcm_malloc(piece * sizeof(float));
  float* slopes = (float*)torch::neuron::tcm_malloc(piece * sizeof(float));
  size_t end = begin_of(x.numel(), get_cpu_id() + 1);
  for (size_t i = begin_of(x.numel(), get_cpu_id()); i < end; i += piece) {
    size_t count = end - i < piece ? end - i : piece;
    from.tensor_to_tcm<float>(values, i, count);
    gradient.tensor_to_tcm<float>(slopes, i, count);
    for (size_t j = 0; j < count; j++) slopes[j] = values[j] > 0.0f ? slopes[j] : 0.0f;
    to.tcm_to_tensor<float>(slopes, i, count);
  }
  torch::neuron::tcm_free(slopes);
  torch::neuron::tcm_free(values);
  return dx;
}
