#pragma once
// The functions of append_file.hpp.

#include <soma/io/append_file.hpp>

#include <soma/base/file_error.hpp>
#include <soma/system/files.hpp>

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE {

SOMA_INLINE AppendFile::AppendFile(std::string_view operation, std::string_view path,
                                   ExistingFile existing)
    : operation_(operation), path_(path) {
  if (path_.empty() || path_.find('\0') != std::string::npos) failed("no path", 0);
  descriptor_ = system::open_to_append(path_, existing == ExistingFile::refuse);
  if (descriptor_ < 0 && errno == EWOULDBLOCK) failed("in use by another writer", 0);
  if (descriptor_ < 0) failed("cannot open", errno);
  if (system::info_of(descriptor_).kind != system::FileKind::regular)
    failed("not a regular file", 0);
  // Other errors: a system without locks of files.
  if (!system::lock_file(descriptor_) && errno == EWOULDBLOCK)
    failed("in use by another writer", 0);
  if (existing == ExistingFile::replace && !system::set_size(descriptor_, 0))
    failed("cannot empty", errno);
  // Another writer may have added to the file before it was locked.
  size_ = system::info_of(descriptor_).bytes;
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
  if (!system::write_all(descriptor_, piece.data(), piece.size())) {
    const int number = errno;
    static_cast<void>(system::set_size(descriptor_, size_));  // half a line would spoil the next
    return number;
  }
  size_ += piece.size();
  return 0;
}

SOMA_INLINE void AppendFile::synchronise() {
  if (!system::synchronise(descriptor_))
    detail::file_failed(error_id::file_write, operation_, path_, "cannot synchronise", errno,
                        wanted);
}

SOMA_INLINE std::size_t AppendFile::size() const { return static_cast<std::size_t>(size_); }

SOMA_INLINE char AppendFile::last() const {
  char letter = 0;
  if (size_ > 0) static_cast<void>(system::read_at(descriptor_, size_ - 1, &letter, 1));
  return letter;
}

SOMA_INLINE void AppendFile::close() noexcept {
  if (descriptor_ >= 0) system::close_file(std::exchange(descriptor_, -1));
}

SOMA_INLINE void AppendFile::failed(std::string_view problem, int number) {
  close();
  detail::file_failed(error_id::file_write, operation_, path_, problem, number, wanted);
}

}  // namespace SOMA_NAMESPACE
