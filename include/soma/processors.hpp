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

namespace SOMA_NAMESPACE {

namespace detail {

struct ProcessorRegistrar : PluginRegistrar {
  std::shared_ptr<ProcessorLibrary> kernels = std::make_shared<ProcessorLibrary>();
  bool has_kernels = false;

  static int add_kernel(const soma_registrar* registrar, const soma_kernel_operator* op) noexcept;
  void check(Context& context, std::string_view operation, std::string_view path) const;
};

}  // namespace detail

// The load_operators() of soma/plugin.hpp, which also loads kernels of processors and runs them
// with these options. The same errors, and neuroncore.rule_broken: a second library of kernels in
// the context, or options that no hardware has.
std::vector<const Operator*> load_operators(Context& context, std::string_view path,
                                            const neuroncore::ProcessorOptions& options = {});

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/impl/processors.ipp>
#endif
