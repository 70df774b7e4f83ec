// The unit that soma_add_custom_operators() compiles into each library of custom operators: the
// symbol that programs look up, and printf() of kernels.

#include <soma/compat/library.hpp>

#include <string>
#include <vector>

// Defined by the first generated unit: nonzero if all processors run each kernel.
extern "C" __attribute__((visibility("hidden"))) const unsigned soma_compat_multicore;

// Used by soma/compat/printf.cpp.
extern "C" __attribute__((visibility("hidden"))) soma_processor* soma_compat_processor() {
  return soma_compat::detail::current;
}

// ---- the symbols for programs

namespace {

using soma_compat::detail::Definition;

int call_shape(soma_kernel_call* call) noexcept {
  const auto& function = static_cast<const Definition*>(call->state)->function;
  return function.call(function.function, call);
}
int call_kernel(soma_kernel_call* call) noexcept {
  const auto& definition = *static_cast<const Definition*>(call->state);
  return definition.binding != nullptr ? definition.binding->call(call) : call_shape(call);
}

struct Contents {
  std::string problems;
  std::vector<Definition> definitions = soma_compat::detail::collect(problems);
  Contents() { soma_compat::detail::bind(definitions, problems); }
};

int add_operators(const soma_registrar* registrar) noexcept {
  constexpr unsigned needed = 2;
  if (registrar->version < needed) return 1;
  static const Contents contents;
  if (!contents.problems.empty()) {
    registrar->refuse(registrar, contents.problems.c_str());
    return 1;
  }
  for (const Definition& definition : contents.definitions) {
    soma_kernel_operator op{};
    op.struct_bytes = sizeof op;
    op.name = definition.name.c_str();
    op.parameters = definition.parameters.data();
    op.parameter_count = static_cast<uint32_t>(definition.parameters.size());
    op.multicore = soma_compat_multicore;
    op.shape = definition.kernel.empty() ? nullptr : &call_shape;
    op.kernel = &call_kernel;
    op.state = &definition;
    const int status = registrar->add_kernel(registrar, &op);
    if (status != 0) return status;
  }
  return 0;
}

}  // namespace

extern "C" const soma_plugin_info soma_plugin = {SOMA_PLUGIN_VERSION, sizeof(soma_plugin_info),
                                                 &add_operators};
