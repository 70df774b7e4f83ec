#include <stdint.h>
#include <stdlib.h>
#include <torch/torch.h>
#include "torchneuron/register.h"

static torch::Tensor same(torch::Tensor x) { return torch::zeros(x.sizes(), torch::kFloat); }
static torch::Tensor same_as_second(torch::Tensor, torch::Tensor x) {
  return torch::zeros(x.sizes(), torch::kFloat);
}
static torch::Tensor same_with_number(torch::Tensor x, double) {
  return torch::zeros(x.sizes(), torch::kFloat);
}
static torch::Tensor same_with_scalar(torch::Tensor x, torch::Scalar) {
  return torch::zeros(x.sizes(), torch::kFloat);
}
static torch::Tensor second_with_scalar(torch::Tensor, torch::Tensor x, torch::Scalar) {
  return torch::zeros(x.sizes(), torch::kFloat);
}

NEURON_LIBRARY(many, m) {
  m.def("relu", &same, "relu");
  m.def("relu_back", &same_as_second, "relu_back");
  m.def("scaled", &same_with_scalar, "scaled");
  m.def("scaled_back", &second_with_scalar, "scaled_back");
  m.def("wrong", &same_with_number, "wrong");
}
