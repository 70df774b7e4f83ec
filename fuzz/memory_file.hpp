#pragma once
// Bytes as a file, for readers that take a path. Linux.

#include "check.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace soma_fuzz {

class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size) {
    check(descriptor_ >= 0, "there is memory for a file");
    check(::write(descriptor_, data, size) == static_cast<ssize_t>(size), "and for its bytes");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  const int descriptor_ = ::memfd_create("fuzz", 0);
};

}  // namespace soma_fuzz
