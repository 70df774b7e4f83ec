#pragma once
// The functions of shared_page.hpp.

#include <soma/system/shared_page.hpp>

#include <soma/base/config.hpp>

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace SOMA_NAMESPACE::system {

namespace detail {

struct ClosedAtEnd {
  int file;
  ~ClosedAtEnd() {
    const int number = errno;
    if (file >= 0) ::close(file);
    errno = number;
  }
};

}  // namespace detail

SOMA_INLINE void make_private(const std::string& folder) { ::chmod(folder.c_str(), 0700); }

SOMA_INLINE void* create_page(const std::string& path, std::size_t bytes, std::string_view& step) {
  const detail::ClosedAtEnd open{
      ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
  step = "cannot create";
  if (open.file < 0) return nullptr;
  step = "cannot make room for it";
  if (::posix_fallocate(open.file, 0, static_cast<off_t>(bytes)) != 0) return nullptr;
  step = "cannot map";
  void* page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, open.file, 0);
  return page == MAP_FAILED ? nullptr : page;
}

SOMA_INLINE const void* open_page(const std::string& path, std::size_t bytes,
                                  std::string_view& why) {
  const detail::ClosedAtEnd open{
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  struct stat known {};
  if (open.file < 0 || ::fstat(open.file, &known) != 0) {
    why = errno == ENOENT ? "" : "cannot be opened";
    return nullptr;
  }
  why = "belongs to another user";
  if (known.st_uid != ::geteuid()) return nullptr;
  why = "is no page of a run";
  if (!S_ISREG(known.st_mode) || known.st_size != static_cast<off_t>(bytes)) return nullptr;
  why = "cannot be mapped";
  void* page = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, open.file, 0);
  return page == MAP_FAILED ? nullptr : page;
}

SOMA_INLINE void close_page(const void* page, std::size_t bytes) {
  ::munmap(const_cast<void*>(page), bytes);
}

SOMA_INLINE bool add_name(const std::string& path, const std::string& name) {
  return ::link(path.c_str(), name.c_str()) == 0;
}

}  // namespace SOMA_NAMESPACE::system
