#pragma once
// Finds a kernel by its name: a generated unit includes a compute file, and tests for each name if
// a function of that name can be called with the parameters of the shape function, and what it
// returns. An undeclared name is no error in that test, because the call depends on a template's
// arguments.

#include <soma/compat/library.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

namespace soma_compat_binding {

using soma_compat::detail::Binding;
using soma_compat::detail::plain;

// Converts to a parameter of exactly that type, by value, const& or &, and to no other. (In a
// namespace without functions, so that argument-dependent lookup finds none.)
template <class T>
struct Exactly {
  T* value;
  template <class P, std::enable_if_t<std::is_same_v<std::remove_cv_t<P>, T>, int> = 0>
  operator P&() const {  // NOLINT: as the parameter
    return *value;
  }
};
template <>
struct Exactly<soma_compat::Tensor> {
  soma_compat::Tensor* value;
  operator soma_compat::Tensor&() const { return *value; }  // NOLINT: as the parameter
};
template <>
struct Exactly<soma_compat::Scalar> {
  soma_compat::Scalar* value;
  operator soma_compat::Scalar&() const { return *value; }  // NOLINT: as the parameter
};
// Converts to a parameter of any type.
struct Any {
  template <class P>
  operator P&() const;  // NOLINT: as the parameter
};

template <class T>
struct Returns {
  using type = T;
};

template <class Probe, class... A>
auto result_of(int) -> Returns<decltype(Probe::soma_compat_call(std::declval<A>()...))>;
template <class Probe, class... A>
Returns<Any> result_of(...);

template <class Probe, class... A>
inline constexpr bool takes =
    !std::is_same_v<typename decltype(result_of<Probe, A...>(0))::type, Any>;

template <class Probe, std::size_t... I>
constexpr bool takes_any(std::index_sequence<I...>) {
  return takes<Probe, std::conditional_t<I == I, Any, Any>...>;
}
template <class Probe, std::size_t... N>
constexpr bool is_declared(std::index_sequence<N...>) {
  return (takes_any<Probe>(std::make_index_sequence<N>()) || ...);
}

template <class Probe, class... P>
constexpr Binding::State state_of() {
  if constexpr (takes<Probe, Exactly<P>...>) {
    using Result = typename decltype(result_of<Probe, Exactly<P>...>(0))::type;
    return std::is_same_v<plain<Result>, soma_compat::Tensor> ? Binding::found
                                                              : Binding::other_result;
  } else {
    constexpr std::size_t most = 24;
    return is_declared<Probe>(std::make_index_sequence<most>()) ? Binding::other_parameters
                                                                : Binding::absent;
  }
}

template <class Probe, class... P>
int call(soma_kernel_call* call) {
  if constexpr (state_of<Probe, P...>() == Binding::found)
    return soma_compat::detail::run<P...>(call, [](P&... arguments) -> soma_compat::Tensor {
      return Probe::soma_compat_call(Exactly<P>{&arguments}...);
    });
  else
    return 1;
}

}  // namespace soma_compat_binding

// SOMA_COMPAT_BINDING(0, kernel, "Tensor, double", soma_compat::Tensor, double)
#define SOMA_COMPAT_BINDING(number, kernel, parameters, ...)                   \
  namespace {                                                                  \
  struct SomaCompatProbe##number {                                             \
    template <class... SomaArguments>                                          \
    static auto soma_compat_call(SomaArguments... soma_arguments)              \
        -> decltype(kernel(soma_arguments...)) {                               \
      return kernel(soma_arguments...);                                        \
    }                                                                          \
  };                                                                           \
  const ::soma_compat_binding::Binding soma_compat_binding_##number(           \
      #kernel, parameters,                                                     \
      ::soma_compat_binding::state_of<SomaCompatProbe##number, __VA_ARGS__>(), \
      &::soma_compat_binding::call<SomaCompatProbe##number, __VA_ARGS__>);     \
  }
