#pragma once
// Opt-in: operators from a shared library, which is written against soma/plugin.h. Kernels of the
// accelerator's processors need soma/processors.hpp, which includes this.
//
// A loaded library is part of the program and can do everything that the program can. Load only
// libraries that you trust.

#include <soma/plugin.h>
#include <soma/autograd/custom.hpp>
#include <soma/system/library.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

static_assert(static_cast<int>(DType::boolean) == SOMA_BOOL && dtypes.size() == SOMA_UINT32 + 1 &&
              static_cast<int>(DType::int16) == SOMA_INT16 &&
              static_cast<int>(DType::uint32) == SOMA_UINT32 &&
              static_cast<int>(DType::e8m0) == SOMA_E8M0 &&
              static_cast<int>(DType::fp8_e4m3fn) == SOMA_FP8_E4M3FN &&
              max_rank == SOMA_PLUGIN_MAX_RANK);

// The state of an operator from a library.
struct PluginOperator {
  std::shared_ptr<void> library;  // stays loaded as long as this record exists
  std::string name;
  soma_operator record;
  std::vector<std::byte> default_attributes;
};

soma_tensor to_plugin(const Tensor& tensor, std::byte* data);
std::vector<soma_tensor> to_plugin(std::span<const Tensor> tensors, bool written = false);

// A call of a library's function through the C interface.
class PluginCall {
 public:
  PluginCall(const PluginOperator& op, Context* context, const Attributes& attributes,
             std::vector<soma_tensor> inputs, std::vector<soma_tensor> outputs);

  // Error plugin.failed: the function did not return 0.
  void run(std::string_view what, soma_function function,
           const std::vector<soma_tensor>& output_gradients = {},
           std::vector<soma_tensor>* input_gradients = nullptr);
  const std::vector<soma_tensor>& outputs() const { return outputs_; }

 private:
  static int parallel(const soma_call* call, int tasks, void (*task)(void*, int) noexcept,
                      void* argument) noexcept;

  const PluginOperator& op_;
  Context* context_;
  std::vector<soma_tensor> inputs_, outputs_;
  alignas(std::max_align_t) std::byte attributes_[Attributes::max_bytes] = {};
  char message_[512] = {};
};

const PluginOperator& plugin_of(const void* state);

void plugin_shape(const ShapeCall& call);
void plugin_host(const OperatorCall& call);
void plugin_gradient(const GradientCall& call);

// Collects the operators that a library registers, and reports the first mistake.
struct PluginRegistrar {
  std::shared_ptr<void> library{};
  std::vector<NewOperator> operators{};
  std::string problem{}, refusal{};

  // The mistake in a record; empty if there is none.
  static std::string problem_of(const soma_operator* op);

  static int add(const soma_registrar* registrar, const soma_operator* op) noexcept;
  static int add_kernel(const soma_registrar* registrar, const soma_kernel_operator*) noexcept;
  static void refuse(const soma_registrar* registrar, const char* reason) noexcept;
  void check(Context&, std::string_view, std::string_view) const {}
};

// load_operators() with a PluginRegistrar, or with a registrar that accepts more.
template <class Registrar>
std::vector<const Operator*> load_library(Context& context, std::string_view path,
                                          Registrar& collected) {
  constexpr std::string_view operation = "load_operators";
  const std::string file(path);
  const auto refuse = [&](ErrorId id, std::string_view problem, std::string_view wanted) {
    fail(id, operation, "library", soma::quoted(file).append(", ").append(problem), wanted);
  };
  if (file.find('/') == std::string::npos || file.find('\0') != std::string::npos)
    refuse(error_id::plugin_path, "a bare name", "a path with a slash, such as \"./libmine.so\"");
  if (const std::string problem = system::problem_of_library(file); !problem.empty())
    refuse(error_id::plugin_file, problem, "a file that can be read");
  std::string reason;
  void* handle = system::load_library(file, reason);
  if (handle == nullptr)
    refuse(error_id::plugin_library, "which the loader refuses: " + soma::quoted(reason),
           "a shared library for this machine");
  collected.library = {handle, &system::unload_library};
  const auto* info =
      static_cast<const soma_plugin_info*>(system::own_symbol(handle, "soma_plugin"));
  if (info == nullptr)
    refuse(error_id::plugin_symbol, "without the symbol soma_plugin", "one of soma/plugin.h");
  if (info->version < SOMA_PLUGIN_OLDEST || info->version > SOMA_PLUGIN_VERSION)
    refuse(error_id::plugin_version, "made for version " + std::to_string(info->version),
           "version " + std::to_string(SOMA_PLUGIN_OLDEST) + " to " +
               std::to_string(SOMA_PLUGIN_VERSION) + " of soma/plugin.h");
  if (info->struct_bytes != sizeof(soma_plugin_info) || info->add_operators == nullptr)
    refuse(error_id::plugin_malformed,
           info->add_operators == nullptr
               ? std::string("without add_operators")
               : "with a soma_plugin of " + std::to_string(info->struct_bytes) + " bytes",
           "a soma_plugin as in soma/plugin.h");
  const soma_registrar registrar{sizeof(soma_registrar), SOMA_PLUGIN_VERSION,
                                 &PluginRegistrar::add,  static_cast<PluginRegistrar*>(&collected),
                                 &Registrar::add_kernel, &PluginRegistrar::refuse};
  const int result = info->add_operators(&registrar);
  if (!collected.problem.empty())
    refuse(error_id::plugin_malformed, "which registers " + collected.problem,
           "records as in soma/plugin.h");
  if (!collected.refusal.empty())
    refuse(error_id::plugin_failed, "which gives up: " + soma::quoted(collected.refusal),
           "a library that can be used");
  if (result != 0)
    refuse(error_id::plugin_failed, "whose add_operators returns " + std::to_string(result), "0");
  collected.check(context, operation, file);
  return context.operators().add_all(collected.operators, file);
}

}  // namespace detail

// Registers the operators of a shared library: all of them, or none. The path is absolute, or has a
// slash in it ("./libmine.so"): the loader would search for a bare name in folders that other users
// may write. The library stays loaded until the last context that has one of its operators ends.
// Returns the operators. Errors:
//   plugin.path            a bare name
//   plugin.file            there is no such file, it cannot be read, or it is not whole
//   plugin.library         the loader refuses it: no library, another machine's, a missing symbol
//   plugin.symbol          the library does not export `soma_plugin`
//   plugin.version         the library was made for another version of soma/plugin.h
//   plugin.malformed       an invalid struct or record
//   plugin.failed          the library reported a failure
//   operator.name, operator.duplicate_name
//
// A template, so that the overload of soma/processors.hpp wins where that header is included.
template <class = void>
std::vector<const Operator*> load_operators(Context& context, std::string_view path) {
  detail::PluginRegistrar collected;
  return detail::load_library(context, path, collected);
}

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/impl/plugin.ipp>
#endif
