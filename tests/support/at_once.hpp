// The machine without the cost of a launch, for tests of times.
#pragma once

#include <soma/neuroncore/machine.hpp>

namespace soma_test {

// trn1() with programs that begin at time 0.
constexpr soma::neuroncore::Machine at_once() {
  soma::neuroncore::Machine machine = soma::neuroncore::trn1();
  machine.launch_ns = 0;
  return machine;
}

}  // namespace soma_test
