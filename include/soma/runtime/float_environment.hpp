#pragma once
// FloatEnvironment: round to nearest, subnormals kept, traps off, for as long as the object lives.
//
// A host may have changed these modes (a program linked with -ffast-math starts with flush-to-zero
// on); soma's bits must not depend on that and the host must not see ours. Whoever calls the kernel
// table holds one: parallel() does, on every thread that runs a task. The exception flags that soma
// raises are dropped with the rest. Costs a few nanoseconds.

#include <soma/base/config.hpp>

#include <cstdint>

#if !SOMA_GNU_ASSEMBLY || (!defined(__x86_64__) && !defined(__aarch64__))
#include <cfenv>
#endif

namespace SOMA_NAMESPACE {

class FloatEnvironment {
 public:
#if SOMA_GNU_ASSEMBLY && defined(__x86_64__)
  FloatEnvironment() : saved_(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(0x1F80); }
  ~FloatEnvironment() { __builtin_ia32_ldmxcsr(saved_); }
#elif SOMA_GNU_ASSEMBLY && defined(__aarch64__)
  FloatEnvironment() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved_));
    __asm__ volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}) : "memory");
  }
  ~FloatEnvironment() { __asm__ volatile("msr fpcr, %0" : : "r"(saved_) : "memory"); }
#else
  FloatEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatEnvironment() { std::fesetenv(&saved_); }
#endif
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if SOMA_GNU_ASSEMBLY && defined(__x86_64__)
  unsigned saved_;
#elif SOMA_GNU_ASSEMBLY && defined(__aarch64__)
  std::uint64_t saved_;
#else
  std::fenv_t saved_;
#endif
};

}  // namespace SOMA_NAMESPACE
