#include <helper.hpp>
#include "torchneuron/register.h"

static torch::Tensor same(torch::Tensor x) { return like(x); }
static torch::Tensor same_by(torch::Tensor x, double) { return like(x); }

NEURON_LIBRARY(stranger, m) {
  m.def("scale", &same, "scale");
  m.def("shift", &same_by, "shift");
}
