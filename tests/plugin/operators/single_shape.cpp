#include <stdint.h>
#include <stdlib.h>
#include <torch/torch.h>
#include "torchneuron/register.h"

torch::Tensor same(torch::Tensor x) { return torch::zeros(x.sizes(), torch::kFloat); }
torch::Tensor same_type(torch::Tensor x) { return torch::empty(x.sizes(), x.options()); }
torch::Tensor same_as_second(torch::Tensor, torch::Tensor x) {
  return torch::zeros(x.sizes(), torch::kFloat);
}
torch::Tensor same_type_as_first(torch::Tensor x, torch::Tensor) {
  return torch::zeros(x.sizes(), torch::dtype(x.scalar_type()));
}
torch::Tensor flat(torch::Tensor a, torch::Tensor) {
  size_t count = a.numel();
  return torch::zeros({count}, torch::kFloat);
}
torch::Tensor layer_shape(torch::Tensor x, torch::Tensor w, torch::Tensor) {
  size_t rows = x.size(0);
  return torch::zeros({rows, w.size(0)}, torch::kFloat);  // the list mixes two integer types
}
torch::Tensor clamped(torch::Tensor x, double, torch::Scalar, torch::Scalar, int64_t) {
  return torch::zeros(x.sizes(), torch::kFloat);
}

NEURON_LIBRARY(single, m) {
  m.def("relu_elements", &same, "relu_elements");
  m.def("relu_elements_back", &same_as_second, "relu_elements_back");
  m.def("layer", &layer_shape, "layer");
  m.def("add_streams", &flat, "add_streams");
  m.def("negate_tcm", &same, "negate_tcm");
  m.def("clamp_and_scale", &clamped, "clamp_and_scale");
  m.def("integer_bits", &same_type_as_first, "integer_bits");
  m.def("prints", &same_type, "prints");
  m.def("halves", &same_type, "halves");
}
