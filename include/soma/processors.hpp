#pragma once
// Opt-in: kernels of custom operators for the accelerator's GPSIMD processors, from shared
// libraries that soma_add_custom_operators() builds (docs/custom_operators.md).
//
//   soma::load_operators(context, "./libmy_ops.so");
//   auto relu = soma::register_differentiable(context.operators(), "my::relu",
//                                             "my_ops::relu_forward", {"my_ops::relu_backward"});
//   soma::Var y = relu(tape, x);
//   soma::processor_report(context.operators().at("my_ops::relu_forward")).nanoseconds;

#include <soma/autograd/differentiable.hpp>
#include <soma/ops/processor_operator.hpp>
#include <soma/plugin.hpp>

#include <memory>
#include <string_view>
#include <vector>

namespace soma {

namespace detail {

struct ProcessorRegistrar : PluginRegistrar {
  std::shared_ptr<ProcessorLibrary> kernels = std::make_shared<ProcessorLibrary>();
  bool has_kernels = false;

  static int add_kernel(const soma_registrar* registrar, const soma_kernel_operator* op) noexcept {
    auto& self = static_cast<ProcessorRegistrar&>(*static_cast<PluginRegistrar*>(registrar->host));
    if (!self.problem.empty()) return 1;
    self.problem = detail::problem_of(op);
    if (!self.problem.empty()) return 1;
    self.kernels->handle = self.library;
    self.operators.push_back(make_processor_operator(*op, self.kernels));
    self.has_kernels = true;
    return 0;
  }
  void check(Context& context, std::string_view operation, std::string_view path) const {
    if (has_kernels) check_processor_library(context, operation, path, kernels->options);
  }
};

}  // namespace detail

// The load_operators() of soma/plugin.hpp, which also loads kernels of processors and runs them
// with these options. The same errors, and neuroncore.rule_broken: a second library of kernels in
// the context, or options that no hardware has.
inline std::vector<const Operator*> load_operators(
    Context& context, std::string_view path, const neuroncore::ProcessorOptions& options = {}) {
  detail::ProcessorRegistrar collected;
  collected.kernels->options = options;
  return detail::load_library(context, path, collected);
}

}  // namespace soma
