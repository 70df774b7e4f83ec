#include <stdint.h>
#include <stdlib.h>
#include <torch/torch.h>
#include "torchneuron/register.h"

static torch::Tensor same(torch::Tensor x, double) {
  return torch::zeros(x.sizes(), torch::kFloat);
}
static torch::Tensor sized(torch::Tensor x, double which) {
  switch ((int)which) {
    case 0:
      return torch::zeros({x.numel() << 33}, torch::kFloat);
    case 1:
      return torch::zeros({1, 1, 1, 1, 65536}, torch::kFloat);
    case 2:
      x.accessor<float, 2>()[0][0];
      break;
    case 3:
      return torch::exp(x);
    case 4:
      return torch::zeros({2, 3}, torch::kLong);
    case 5:
      get_dst_tensor();
      break;
    case 6:
      throw std::runtime_error("no such shape");
    case 7:
      return torch::zeros({1, 1, 1, 1, 1, 1, 1, 1, 1}, torch::kFloat);
    case 8:
      return torch::Tensor();
  }
  return torch::zeros(x.sizes(), torch::kFloat);
}

NEURON_LIBRARY(wrong, m) {
  m.def("wrong", &same, "wrong");
  m.def("odd", &same, "odd");
  m.def("sized", &sized, "sized");
}
