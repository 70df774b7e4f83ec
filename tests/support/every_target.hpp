// Runs a test on every target that the program was compiled for and the CPU has, as parallel()
// would call kernels: in soma's floating-point environment.
#pragma once

#include <soma/runtime/float_environment.hpp>
#include <soma/soma.hpp>

#include <string>

#include "catch.hpp"

namespace soma_test {

template <class Test>
void on_every_target(const Test& test) {
  auto any = soma::make_context();
  for (const soma::Target& target : any.targets().targets) {
    auto context = soma::make_context({.threads = 1, .target = target.name});
    const soma::FloatEnvironment environment;
    INFO(std::string(target.name));
    test(context);
  }
}

}  // namespace soma_test
