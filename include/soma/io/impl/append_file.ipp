#pragma once
// The functions of append_file.hpp.

#include <soma/io/append_file.hpp>

#include <soma/base/file_error.hpp>

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace SOMA_NAMESPACE {

SOMA_INLINE AppendFile::AppendFile(std::string_view operation, std::string_view path,
                                   ExistingFile existing)
    : operation_(operation), path_(path) {
  if (path_.empty() || path_.find('\0') != std::string::npos) failed("no path", 0);
  int flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;
  if (existing == ExistingFile::refuse) flags |= O_EXCL;
  do descriptor_ = ::open(path_.c_str(), flags, 0666);
  while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) failed("cannot open", errno);
  struct stat known {};
  if (::fstat(descriptor_, &known) != 0) failed("cannot ask for its size", errno);
  if (!S_ISREG(known.st_mode)) failed("not a regular file", 0);
  int locked = 0;
  do locked = ::flock(descriptor_, LOCK_EX | LOCK_NB);
  while (locked != 0 && errno == EINTR);
  // Other errors: a system without locks of files.
  if (locked != 0 && errno == EWOULDBLOCK) failed("in use by another writer", 0);
  if (existing == ExistingFile::replace && ::ftruncate(descriptor_, 0) != 0)
    failed("cannot empty", errno);
  // Another writer may have added to the file before it was locked.
  if (::fstat(descriptor_, &known) != 0) failed("cannot ask for its size", errno);
  size_ = known.st_size;
}

SOMA_INLINE AppendFile::~AppendFile() { close(); }

SOMA_INLINE AppendFile::AppendFile(AppendFile&& other) noexcept
    : operation_(other.operation_),
      path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

SOMA_INLINE void AppendFile::write(std::string_view piece) {
  if (const int number = try_write(piece); number != 0)
    detail::file_failed(error_id::file_write, operation_, path_, "cannot write", number, wanted);
}

SOMA_INLINE int AppendFile::try_write(std::string_view piece) noexcept {
  for (std::string_view rest = piece; !rest.empty();) {
    const auto written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int number = errno;
      static_cast<void>(!::ftruncate(descriptor_, size_));  // half a line would spoil the next
      return number;
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  size_ += static_cast<off_t>(piece.size());
  return 0;
}

SOMA_INLINE void AppendFile::synchronise() {
  if (::fsync(descriptor_) != 0)
    detail::file_failed(error_id::file_write, operation_, path_, "cannot synchronise", errno,
                        wanted);
}

SOMA_INLINE std::size_t AppendFile::size() const { return static_cast<std::size_t>(size_); }

SOMA_INLINE char AppendFile::last() const {
  char letter = 0;
  if (size_ > 0) static_cast<void>(!::pread(descriptor_, &letter, 1, size_ - 1));
  return letter;
}

SOMA_INLINE void AppendFile::close() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

SOMA_INLINE void AppendFile::failed(std::string_view problem, int number) {
  close();
  detail::file_failed(error_id::file_write, operation_, path_, problem, number, wanted);
}

}  // namespace SOMA_NAMESPACE
