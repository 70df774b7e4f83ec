#pragma once
// The functions of plugin.hpp.

#include <soma/plugin.hpp>

#include <soma/plugin.h>
#include <soma/autograd/custom.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE soma_tensor to_plugin(const Tensor& tensor, std::byte* data) {
  soma_tensor result{};
  result.data = data;
  result.dtype = static_cast<std::int32_t>(tensor.dtype());
  result.rank = static_cast<std::int32_t>(tensor.rank());
  for (std::size_t i = 0; i < tensor.rank(); ++i) {
    result.sizes[i] = tensor.size(i);
    result.strides[i] = tensor.strides()[i];
  }
  return result;
}

SOMA_INLINE std::vector<soma_tensor> to_plugin(std::span<const Tensor> tensors, bool written) {
  std::vector<soma_tensor> all;
  all.reserve(tensors.size());
  for (const Tensor& tensor : tensors)
    all.push_back(to_plugin(tensor, !tensor.defined() ? nullptr
                                    : written         ? tensor.mutable_raw()
                                                      : const_cast<std::byte*>(tensor.raw())));
  return all;
}

SOMA_INLINE PluginCall::PluginCall(const PluginOperator& op, Context* context,
                                   const Attributes& attributes, std::vector<soma_tensor> inputs,
                                   std::vector<soma_tensor> outputs)
    : op_(op), context_(context), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
  const bool defaults = attributes.empty() && !op.default_attributes.empty();
  const std::span<const std::byte> bytes =
      defaults ? std::span<const std::byte>(op.default_attributes) : attributes.bytes();
  if (bytes.size() != op.record.attribute_bytes)
    fail(error_id::operator_attributes, op.name, "attributes",
         std::to_string(bytes.size()) + " bytes", std::to_string(op.record.attribute_bytes));
  if (!bytes.empty()) std::memcpy(attributes_, bytes.data(), bytes.size());
}

SOMA_INLINE void PluginCall::run(std::string_view what, soma_function function,
                                 const std::vector<soma_tensor>& output_gradients,
                                 std::vector<soma_tensor>* input_gradients) {
  soma_call call{};
  call.attributes = attributes_;
  call.inputs = inputs_.data();
  call.input_count = inputs_.size();
  call.outputs = outputs_.data();
  call.output_count = outputs_.size();
  call.output_gradients = output_gradients.data();
  call.input_gradients = input_gradients == nullptr ? nullptr : input_gradients->data();
  call.message = message_;
  call.message_bytes = sizeof message_;
  call.parallel = &parallel;
  call.host = context_;
  const int status = function(&call);
  if (status == 0) return;
  message_[sizeof message_ - 1] = '\0';
  std::string given = "status " + std::to_string(status);
  if (message_[0] != '\0') given.append(": ").append(quoted(message_));
  fail(error_id::plugin_failed, op_.name, what, given, "status 0");
}

SOMA_INLINE int PluginCall::parallel(const soma_call* call, int tasks,
                                     void (*task)(void*, int) noexcept, void* argument) noexcept {
  auto* context = static_cast<Context*>(call->host);
  if (context == nullptr) return 1;  // a shape rule does not compute
#if SOMA_HAS_EXCEPTIONS
  try {
#endif
    soma::parallel(*context, tasks, [&](int index) { task(argument, index); });
    return 0;
#if SOMA_HAS_EXCEPTIONS
  } catch (...) {  // the host could not start its threads
    return 1;
  }
#endif
}

SOMA_INLINE const PluginOperator& plugin_of(const void* state) {
  return *static_cast<const PluginOperator*>(state);
}

SOMA_INLINE void plugin_shape(const ShapeCall& call) {
  const PluginOperator& op = plugin_of(call.state);
  soma_tensor not_set{};
  not_set.rank = -1;
  PluginCall plugin(op, nullptr, call.attributes, to_plugin(call.inputs),
                    std::vector<soma_tensor>(call.outputs.size(), not_set));
  plugin.run("shape rule", op.record.shape);
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const soma_tensor& output = plugin.outputs()[i];
    if (output.rank < 0 || output.rank > SOMA_PLUGIN_MAX_RANK || output.dtype < 0 ||
        output.dtype >= static_cast<int>(dtypes.size()))
      fail(error_id::plugin_malformed, op.name, "shape rule",
           "rank " + std::to_string(output.rank) + " and dtype " + std::to_string(output.dtype),
           "a rank and a dtype of soma/plugin.h");
    std::vector<std::size_t> sizes(output.sizes, output.sizes + output.rank);
    call.outputs[i] = {Shape(std::span<const std::size_t>(sizes)),
                       static_cast<DType>(output.dtype)};
  }
}

SOMA_INLINE void plugin_host(const OperatorCall& call) {
  const PluginOperator& op = plugin_of(call.state);
  const auto host = [&](const OperatorCall& given) {
    PluginCall(op, &given.context, given.attributes, to_plugin(given.inputs),
               to_plugin(given.outputs, true))
        .run("host function", op.record.host);
  };
  if ((op.record.flags & SOMA_AS_GIVEN) != 0) return host(call);
  with_plain_tensors(call, 0, host);
}

SOMA_INLINE void plugin_gradient(const GradientCall& call) {
  const PluginOperator& op = plugin_of(call.state);
  const auto gradient = [&](const GradientCall& given) {
    std::vector<Tensor> gradients(given.inputs.size());
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (given.wanted[i])
        gradients[i] =
            Tensor::zeros(given.context, given.inputs[i].shape(), given.inputs[i].dtype());
    std::vector<soma_tensor> written = to_plugin(gradients, true);
    PluginCall(op, &given.context, given.attributes, to_plugin(given.inputs),
               to_plugin(given.outputs))
        .run("gradient", op.record.gradient, to_plugin(given.output_gradients), &written);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (given.wanted[i]) given.input_gradients[i].values = gradients[i];
  };
  if ((op.record.flags & SOMA_AS_GIVEN) != 0) return gradient(call);
  with_plain_tensors(call, gradient);
}

SOMA_INLINE std::string PluginRegistrar::problem_of(const soma_operator* op) {
  if (op == nullptr) return "a null record";
  if (op->struct_bytes != sizeof(soma_operator))
    return "a record of " + std::to_string(op->struct_bytes) + " bytes, not " +
           std::to_string(sizeof(soma_operator));
  if (op->name == nullptr) return "a record without a name";
  constexpr std::size_t longest = 200;
  if (std::memchr(op->name, 0, longest) == nullptr) return "a name of more than 200 bytes";
  const std::string name = quoted(op->name);
  if (op->shape == nullptr) return name + " without a shape rule";
  if (op->host == nullptr) return name + " without a host function";
  if (op->min_inputs > op->max_inputs || op->max_inputs > most_inputs ||
      op->outputs > max_outputs || op->outputs == 0)
    return name + " with " + std::to_string(op->min_inputs) + " to " +
           std::to_string(op->max_inputs) + " inputs and " + std::to_string(op->outputs) +
           " outputs";
  if (op->attribute_bytes > Attributes::max_bytes)
    return name + " with attributes of " + std::to_string(op->attribute_bytes) + " bytes";
  if ((op->flags & ~SOMA_AS_GIVEN) != 0) return name + " with unknown flags";
  return {};
}

SOMA_INLINE int PluginRegistrar::add(const soma_registrar* registrar,
                                     const soma_operator* op) noexcept {
  auto& self = *static_cast<PluginRegistrar*>(registrar->host);
  if (!self.problem.empty()) return 1;
  self.problem = problem_of(op);
  if (!self.problem.empty()) return 1;
  PluginOperator made{self.library, op->name, *op, {}};
  if (op->default_attributes != nullptr) {
    const auto* bytes = static_cast<const std::byte*>(op->default_attributes);
    made.default_attributes.assign(bytes, bytes + op->attribute_bytes);
  }
  Owner state(std::move(made));
  const auto& kept = *static_cast<const PluginOperator*>(state.get());
  Operator record{.name = kept.name,
                  .min_inputs = op->min_inputs,
                  .max_inputs = op->max_inputs,
                  .outputs = op->outputs,
                  .keeps_inputs = op->keeps_inputs,
                  .keeps_outputs = op->keeps_outputs,
                  .shape = &plugin_shape,
                  .host = &plugin_host,
                  .gradient = op->gradient == nullptr ? nullptr : &plugin_gradient,
                  .wide_gradients = (op->flags & SOMA_AS_GIVEN) == 0,
                  .state = state.get()};
  self.operators.push_back({record, std::move(state)});
  return 0;
}

SOMA_INLINE int PluginRegistrar::add_kernel(const soma_registrar* registrar,
                                            const soma_kernel_operator*) noexcept {
  auto& self = *static_cast<PluginRegistrar*>(registrar->host);
  self.refusal = "kernels of processors: include soma/processors.hpp to load them";
  return 1;
}

SOMA_INLINE void PluginRegistrar::refuse(const soma_registrar* registrar,
                                         const char* reason) noexcept {
  auto& self = *static_cast<PluginRegistrar*>(registrar->host);
  if (self.refusal.empty() && reason != nullptr) self.refusal = reason;
}

}  // namespace SOMA_NAMESPACE::detail
