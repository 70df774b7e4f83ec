#pragma once
// The side of a library in the custom-operator interface of soma/plugin.h: the processor that a
// kernel runs on, and how a kernel ends when the host has noted an error.
//
// Headers of this folder are for libraries, in C++17 and later, and use only soma/plugin.h of soma.
// The namespaces `torch`, `c10` and `at` of torch/torch.h are other names for a namespace of soma
// with a version in its name: no symbol can clash with one of LibTorch in the same process.

#include <soma/plugin.h>

#if !defined(__linux__)
#error "soma/compat is for shared libraries, which soma loads on Linux only."
#error "Elsewhere compile operators of your own into the program: soma/autograd/custom.hpp."
#endif

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <type_traits>

#if __cplusplus < 201703L
#error "soma/compat needs C++17 or newer"
#endif

namespace soma_compat {
inline namespace v2 {
namespace detail {

// The processor of the kernel or shape function that this thread runs; nullptr: none.
inline thread_local soma_processor* current = nullptr;

// Ends a kernel; handlers of std::exception do not catch it.
struct Stopped {};

[[noreturn]] inline void stop() {
#if defined(__cpp_exceptions)
  throw Stopped{};
#else
  std::abort();
#endif
}
inline soma_processor& processor() {
  if (current == nullptr) {
#if defined(__cpp_exceptions)
    throw std::logic_error("tensors are used outside of a kernel and its shape function");
#else
    std::abort();
#endif
  }
  return *current;
}
inline const soma_processor_services& services() { return *processor().services; }

// Checks the results of services.
inline void expect(int status) {
  if (status != 0) stop();
}
template <class T>
T* expect(T* pointer) {
  if (pointer == nullptr) stop();
  return pointer;
}
[[noreturn]] inline void refuse(const char* what, const char* given, const char* wanted) {
  services().refuse(&processor(), what, given, wanted);
  stop();
}

template <class T>
using plain = std::remove_cv_t<std::remove_reference_t<T>>;

template <class T>
inline constexpr bool dependent_false = false;

}  // namespace detail
}  // namespace v2
}  // namespace soma_compat
