#pragma once
// The operators of a library: NEURON_LIBRARY and TORCH_LIBRARY note their bodies when the library
// is loaded, and soma/compat/carrier.cpp runs the bodies when a program asks for the operators.

#include <soma/compat/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace soma_compat {
inline namespace v2 {

namespace detail {

// ---- parameters

inline constexpr std::size_t most_operators = 10, most_numbers = 12, most_tensors = 32;

template <class P>
constexpr std::int32_t kind_of() {
  using T = plain<P>;
  static_assert(!std::is_rvalue_reference_v<P> && !std::is_pointer_v<T>,
                "a parameter of a custom operator is passed by value, const& or &");
  if constexpr (std::is_same_v<T, Tensor>)
    return SOMA_PARAMETER_TENSOR;
  else if constexpr (std::is_same_v<T, Scalar>)
    return SOMA_PARAMETER_SCALAR;
  else if constexpr (std::is_same_v<T, double>)
    return SOMA_PARAMETER_DOUBLE;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return SOMA_PARAMETER_INT64;
  else
    static_assert(dependent_false<P>,
                  "a parameter of a custom operator is a torch::Tensor, a torch::Scalar, a double "
                  "or an int64_t: no other type of number, no vector and no tuple");
  return SOMA_PARAMETER_TENSOR;
}
inline const char* name_of(std::int32_t kind) {
  static constexpr const char* names[] = {"Tensor", "Scalar", "double", "int64_t"};
  return names[kind];
}

template <class... P>
constexpr std::size_t count_tensors() {
  return (std::size_t{0} + ... + (kind_of<P>() == SOMA_PARAMETER_TENSOR ? 1u : 0u));
}

// The i-th of all parameters, in its own type.
template <class T>
T argument(const soma_kernel_call& call, std::size_t& tensors, std::size_t& numbers) {
  if constexpr (std::is_same_v<T, Tensor>) {
    return Tensor::share(call.tensors[tensors++]);
  } else {
    std::conditional_t<std::is_same_v<T, std::int64_t>, std::int64_t, double> number;
    std::memcpy(&number, call.scalars + sizeof number * numbers++, sizeof number);
    return T(number);
  }
}

inline void note(soma_kernel_call& call, const char* text) {
  if (call.message_bytes == 0) return;
  const std::size_t length = std::strlen(text);
  const std::size_t kept = length < call.message_bytes ? length : call.message_bytes - 1;
  std::memcpy(call.message, text, kept);
  call.message[kept] = '\0';
}

// call.result = function(arguments...). Exceptions become a status: none crosses the C interface.
template <class... P, class Function>
int run(soma_kernel_call* call, const Function& function) noexcept {
  soma_processor* before = std::exchange(current, call->processor);
  int status = 0;
  const auto work = [&] {
    std::size_t tensors = 0, numbers = 0;
    // Braces evaluate from left to right.
    std::tuple<plain<P>...> arguments{argument<plain<P>>(*call, tensors, numbers)...};
    Tensor result = std::apply(function, arguments);
    call->result = result.give();
  };
#if defined(__cpp_exceptions)
  try {
    work();
  } catch (const Stopped&) {
    status = 1;
  } catch (const std::exception& error) {
    note(*call, error.what());
    status = 2;
  } catch (...) {
    note(*call, "an exception that is no std::exception");
    status = 3;
  }
#else
  work();
#endif
  current = before;
  return status;
}

// A function pointer whose type only `call` knows.
struct Erased {
  void (*function)() = nullptr;
  int (*call)(void (*)(), soma_kernel_call*) = nullptr;
};
template <class R, class... P>
int call_erased(void (*erased)(), soma_kernel_call* call) {
  return run<P...>(call, reinterpret_cast<R (*)(P...)>(erased));
}

// ---- definitions

// The result of looking for a kernel in a compute file, by the parameters of its shape function.
struct Binding {
  enum State { absent, found, other_parameters, other_result };

  Binding(const char* kernel_in, const char* parameters_in, State state_in,
          int (*call_in)(soma_kernel_call*));
  Binding(const Binding&) = delete;  // the list holds its address
  Binding& operator=(const Binding&) = delete;
  const char* kernel;
  const char* parameters;
  State state;
  int (*call)(soma_kernel_call*);
  const Binding* next;
};
inline const Binding* bindings = nullptr;
inline Binding::Binding(const char* kernel_in, const char* parameters_in, State state_in,
                        int (*call_in)(soma_kernel_call*))
    : kernel(kernel_in),
      parameters(parameters_in),
      state(state_in),
      call(call_in),
      next(std::exchange(bindings, this)) {}

struct Definition {
  std::string name;    // "library::operator"
  std::string kernel;  // by which name it is looked for; empty: `function` is the kernel
  std::vector<std::int32_t> parameters;
  Erased function;  // the shape function, or the kernel
  const Binding* binding = nullptr;

  std::string parameter_text() const {
    std::string text;
    for (const std::int32_t kind : parameters)
      text.append(text.empty() ? "" : ", ").append(name_of(kind));
    return text;
  }
};

}  // namespace detail

// The m of NEURON_LIBRARY(library, m) and TORCH_LIBRARY(library, m).
class Library {
 public:
  Library(const char* name, std::vector<detail::Definition>& definitions)
      : name_(name), definitions_(definitions) {}

  // Defines an operator with a shape function for its sizes. The kernel is the function of that
  // name, with the same parameters, in one of the compute files; the build checks that.
  template <class R, class... P>
  Library& def(const std::string& name, R (*shape_function)(P...), const std::string& kernel) {
    add<R, P...>(name, shape_function, kernel);
    return *this;
  }
  // Defines an operator without a shape function, as for the framework's CPU operators.
  template <class R, class... P>
  Library& def(const std::string& name, R (*function)(P...)) {
    add<R, P...>(name, function, std::string());
    return *this;
  }

 private:
  template <class R, class... P>
  void add(const std::string& name, R (*function)(P...), const std::string& kernel) {
    static_assert(std::is_same_v<detail::plain<R>, Tensor>,
                  "a custom operator returns exactly one torch::Tensor");
    constexpr std::size_t tensors = detail::count_tensors<P...>();
    static_assert(sizeof...(P) - tensors <= detail::most_numbers,
                  "a custom operator takes at most 12 numbers");
    static_assert(tensors <= detail::most_tensors, "a custom operator takes at most 32 tensors");
    // A schema in the name repeats the function's type.
    definitions_.push_back({name_ + "::" + name.substr(0, name.find('(')),
                            kernel,
                            {detail::kind_of<P>()...},
                            {reinterpret_cast<void (*)()>(function), &detail::call_erased<R, P...>},
                            nullptr});
  }
  std::string name_;
  std::vector<detail::Definition>& definitions_;
};

namespace detail {

// A body that runs later.
struct Note {
  Note(const char* name_in, void (*body_in)(Library&));
  Note(const Note&) = delete;
  Note& operator=(const Note&) = delete;
  const char* name;
  void (*body)(Library&);
  const Note* next;
};
inline const Note* notes = nullptr;
inline Note::Note(const char* name_in, void (*body_in)(Library&))
    : name(name_in), body(body_in), next(std::exchange(notes, this)) {}

// Runs all bodies and returns their definitions. Mistakes are appended to `problems`, a line each.
inline std::vector<Definition> collect(std::string& problems) {
  std::vector<Definition> definitions;
  for (const Note* one = notes; one != nullptr; one = one->next) {
    Library library(one->name, definitions);
    const auto failed = [&](const char* why) {
      problems.append("library ").append(one->name).append(": ").append(why).append("\n");
    };
#if defined(__cpp_exceptions)
    try {
      one->body(library);
    } catch (const std::exception& error) {
      failed(error.what());
    } catch (...) {
      failed("an exception that is no std::exception");
    }
#else
    one->body(library);
    static_cast<void>(failed);
#endif
  }
  if (definitions.size() > most_operators)
    problems.append("a library has at most 10 operators, this one ")
        .append(std::to_string(definitions.size()))
        .append("\n");
  return definitions;
}

// Finds each definition's kernel.
inline void bind(std::vector<Definition>& definitions, std::string& problems) {
  for (Definition& definition : definitions) {
    if (definition.kernel.empty()) continue;
    const std::string parameters = definition.parameter_text();
    const Binding *best = nullptr, *second = nullptr;
    for (const Binding* one = bindings; one != nullptr; one = one->next) {
      if (definition.kernel != one->kernel || parameters != one->parameters) continue;
      if (one->state == Binding::found)
        (definition.binding == nullptr ? definition.binding : second) = one;
      if (one->state != Binding::absent) best = one;
    }
    const std::string both =
        "operator \"" + definition.name + "\": kernel \"" + definition.kernel + "\" ";
    if (second != nullptr) problems += both + "is in two of the compute files\n";
    if (definition.binding != nullptr) continue;
    if (best == nullptr)
      problems += both + "is in none of the compute files\n";
    else if (best->state == Binding::other_parameters)
      problems += both + "does not take (" + parameters + "), as its shape function does\n";
    else
      problems += both + "does not return a torch::Tensor, as its shape function does\n";
  }
}

}  // namespace detail

}  // namespace v2
}  // namespace soma_compat

#define NEURON_LIBRARY(name, m)                                                               \
  static void soma_compat_body_##name(::soma_compat::Library&);                               \
  static const ::soma_compat::detail::Note soma_compat_note_##name(#name,                     \
                                                                   &soma_compat_body_##name); \
  static void soma_compat_body_##name(::soma_compat::Library& m)
#define TORCH_LIBRARY(name, m) NEURON_LIBRARY(name, m)
