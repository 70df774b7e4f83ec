#include "torchneuron/register.h"

static torch::Tensor same(torch::Tensor x, double, double, double, double, double, double, double,
                          double, double, double, double, double, double) {
  return torch::zeros(x.sizes(), torch::kFloat);
}
NEURON_LIBRARY(mine, m) { m.def("scale", &same, "scale"); }
