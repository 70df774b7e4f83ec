#include "torchneuron/register.h"

NEURON_LIBRARY(mine, m) {
  static_cast<void>(m);
  throw std::runtime_error("not today");
}
