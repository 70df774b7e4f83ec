#pragma once
// The functions of library.hpp.

#include <soma/system/library.hpp>

#include <soma/base/config.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

namespace SOMA_NAMESPACE::system {

SOMA_INLINE void* load_library(const std::string& path, std::string& reason) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const char* text = dlerror();
  reason = text == nullptr ? "" : text;
  return nullptr;
}

SOMA_INLINE void unload_library(void* library) { dlclose(library); }

SOMA_INLINE std::string problem_of_library(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return std::strerror(errno);
  std::string problem;
  struct stat status {};
  if (fstat(file, &status) != 0)
    problem = std::strerror(errno);
  else if (!S_ISREG(status.st_mode))
    problem = "which is no regular file";
  // The loader itself refuses files with another beginning, or for another machine.
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const auto is_there = [size](std::uint64_t begin, std::uint64_t bytes) {
    return begin <= size && bytes <= size - begin;
  };
  ElfW(Ehdr) header;
  if (problem.empty() && pread(file, &header, sizeof header, 0) == sizeof header &&
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
      header.e_phentsize == sizeof(ElfW(Phdr))) {
    bool whole = is_there(header.e_phoff, std::uint64_t{header.e_phnum} * sizeof(ElfW(Phdr))) &&
                 is_there(header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize);
    for (std::size_t i = 0; whole && i < header.e_phnum; ++i) {
      ElfW(Phdr) segment;
      const auto at = static_cast<off_t>(header.e_phoff + i * sizeof segment);
      whole = pread(file, &segment, sizeof segment, at) == sizeof segment &&
              is_there(segment.p_offset, segment.p_filesz);
    }
    if (!whole) problem = "which has been cut short";
  }
  close(file);
  return problem;
}

SOMA_INLINE const void* own_symbol(void* library, const char* name) {
  link_map* map = nullptr;
  Dl_info its_own{}, found{};
  const void* symbol = dlsym(library, name);
  const bool own = symbol != nullptr && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 &&
                   dladdr(map->l_ld, &its_own) != 0 && dladdr(symbol, &found) != 0 &&
                   its_own.dli_fbase == found.dli_fbase;
  return own ? symbol : nullptr;
}

}  // namespace SOMA_NAMESPACE::system
