#include "torchneuron/register.h"

static torch::Tensor same(torch::Tensor x, double) {
  return torch::zeros(x.sizes(), torch::kFloat);
}
NEURON_LIBRARY(mine, m) {
  for (int i = 0; i < 11; i++) m.def("scale" + std::to_string(i), &same, "scale");
}
