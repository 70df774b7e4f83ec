#pragma once
// NEURON_LIBRARY(library, m) { m.def("operator", &shape_function, "kernel"); }

#include <soma/compat/torch/torch.h>
