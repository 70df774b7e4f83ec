#pragma once
// The functions of processors.hpp.

#include <soma/processors.hpp>

#include <soma/autograd/differentiable.hpp>
#include <soma/ops/processor_operator.hpp>
#include <soma/plugin.hpp>

#include <memory>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE int ProcessorRegistrar::add_kernel(const soma_registrar* registrar,
                                               const soma_kernel_operator* op) noexcept {
  auto& self = static_cast<ProcessorRegistrar&>(*static_cast<PluginRegistrar*>(registrar->host));
  if (!self.problem.empty()) return 1;
  self.problem = detail::problem_of(op);
  if (!self.problem.empty()) return 1;
  self.kernels->handle = self.library;
  self.operators.push_back(make_processor_operator(*op, self.kernels));
  self.has_kernels = true;
  return 0;
}

SOMA_INLINE void ProcessorRegistrar::check(Context& context, std::string_view operation,
                                           std::string_view path) const {
  if (has_kernels) check_processor_library(context, operation, path, kernels->options);
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE std::vector<const Operator*> load_operators(
    Context& context, std::string_view path, const neuroncore::ProcessorOptions& options) {
  detail::ProcessorRegistrar collected;
  collected.kernels->options = options;
  return detail::load_library(context, path, collected);
}

}  // namespace SOMA_NAMESPACE
