#pragma once
// Which AES instructions this CPU has. They are asked for where they are used, not by a target: a
// unit's flags, and so Highway's targets, seldom name them, though nearly all CPUs have them.

#include <soma/base/config.hpp>
#include <soma/system/machine.hpp>

#include <array>

namespace SOMA_NAMESPACE {

struct AesInstructions {
  bool blocks = false;   // a round of one block (AES-NI, AArch64's)
  bool vectors = false;  // of each block of a longer vector (VAES)
};

inline AesInstructions find_aes_instructions() {
  AesInstructions found;
#if defined(__x86_64__)
  std::array<unsigned, 4> r{};
  if (system::cpuid(1, 0, r)) found.blocks = (r[2] >> 25 & 1) != 0;
  if (system::cpuid(7, 0, r)) found.vectors = found.blocks && (r[2] >> 9 & 1) != 0;
#else
  found.blocks = true;  // code that holds the instructions was compiled for them
#endif
  return found;
}

// The same, asked for once.
inline const AesInstructions& aes_instructions() {
  static const AesInstructions found = find_aes_instructions();
  return found;
}

}  // namespace SOMA_NAMESPACE
