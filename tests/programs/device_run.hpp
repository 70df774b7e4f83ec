// An operator on a core and on the host, for tests of programs at sizes that samples do not have.
#pragma once

#include <soma/ops/all.hpp>
#include <soma/soma.hpp>
#include <soma/testing.hpp>

#include "catch.hpp"
#include "support/on_device.hpp"
#include "support/tensors.hpp"

#include <string_view>
#include <vector>

namespace soma_test {

inline soma::Tensor random_of(soma::Context& context, const soma::Shape& shape, soma::DType dtype,
                              std::string_view name, float range = 1) {
  const soma::Tensor plain = random_tensor(context, shape, name, range);
  if (dtype == soma::DType::fp32) return plain;
  return soma::run(context, *context.built_in().cast, soma::CastSetting{.dtype = dtype},
                   {plain})[0];
}

// Runs the operator's program, and nothing of it on the host; transfers end as late as they may.
inline soma::Outputs run_on_device(soma::Context& context, const soma::Operator& op,
                                   const soma::Attributes& attributes,
                                   const std::vector<soma::Tensor>& inputs,
                                   const soma::Sequences& sequences = {},
                                   const soma::neuroncore::Machine& machine = at_once()) {
  const OnDevice on(context, stressed(7), {}, machine);
  const soma::Outputs outputs = soma::run(context, op, attributes, inputs, sequences);
  CHECK(on.device().counts().size() == 1);
  return outputs;
}

// Compares two tensors: they may differ by `bound` times the largest element (at least 1), or by
// one rounding of each to its type. Empty if they agree; else the place.
inline std::string difference(soma::Context& context, const soma::Tensor& given,
                              const soma::Tensor& wanted, double bound) {
  const double rounding = 2 * soma::testing::detail::rounding_of(wanted.dtype());
  return soma::testing::detail::compare(soma::testing::detail::to_reference(context, given).values,
                                        soma::testing::detail::to_reference(context, wanted).values,
                                        bound + rounding);
}

}  // namespace soma_test
