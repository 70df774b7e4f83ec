#include "torchneuron/register.h"

static torch::Tensor one(torch::Tensor) { return torch::zeros({}, torch::kFloat); }
NEURON_LIBRARY(mine, m) { m.def("sum", &one, "sum"); }
