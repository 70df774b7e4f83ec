// Shared by the tests of kernels from shared libraries.
#pragma once

#include <soma/ops/run.hpp>
#include <soma/processors.hpp>

#include "support/tensors.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace soma_test {

inline const std::string plugins = SOMA_TEST_PLUGINS;  // "…/", with the libraries

// The number of a kernel that does one of several things.
struct Which {
  double number;
};

inline std::vector<float> numbers(std::size_t count) {
  std::vector<float> result(count);
  for (std::size_t i = 0; i < count; ++i)
    result[i] = static_cast<float>(static_cast<int>(i * 7 % 23) - 11) * 0.25f;
  return result;
}
inline soma::Tensor tensor(soma::Context& context, const soma::Shape& shape) {
  return soma::Tensor::from(context, numbers(shape.elements()), shape);
}
inline soma::Tensor run_named(soma::Context& context, std::string_view name,
                              const std::vector<soma::Tensor>& inputs,
                              const soma::Attributes& attributes = {}) {
  return soma::run(context, context.operators().at(name), attributes, inputs)[0];
}

}  // namespace soma_test
