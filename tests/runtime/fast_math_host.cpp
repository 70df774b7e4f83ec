// A program built with -ffast-math, whose start-up code switches subnormals off for the process.
// This unit includes no soma header (those refuse the flag); the other one does the work and
// compares.

bool soma_bits_are_exact();  // fast_math_bits.cpp

int main() {
#if defined(__x86_64__)
  constexpr unsigned flush = 0x8040;
  if ((__builtin_ia32_stmxcsr() & flush) == 0)
    return 77;  // the linker did not add the start-up code: nothing to test
  if (!soma_bits_are_exact()) return 1;
  return (__builtin_ia32_stmxcsr() & flush) == flush ? 0 : 2;
#else
  return soma_bits_are_exact() ? 0 : 1;
#endif
}
