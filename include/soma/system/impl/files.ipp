#pragma once
// The functions of files.hpp: POSIX, and WASI, which has its files.

#include <soma/system/files.hpp>

#include <soma/base/config.hpp>
#include <soma/system/which.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#if !SOMA_WINDOWS
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#endif
#if SOMA_POSIX
#include <sys/file.h>
#include <sys/mman.h>
#else
#include <new>
#endif

#if !SOMA_WINDOWS
namespace SOMA_NAMESPACE::system {

namespace detail {

inline FileInfo info_from(const struct stat& known) {
  FileInfo info;
  info.kind = S_ISREG(known.st_mode)    ? FileKind::regular
              : S_ISDIR(known.st_mode)  ? FileKind::folder
              : S_ISLNK(known.st_mode)  ? FileKind::link
              : S_ISFIFO(known.st_mode) ? FileKind::pipe
                                        : FileKind::other;
  info.bytes = static_cast<std::uint64_t>(known.st_size);
  info.device = static_cast<std::uint64_t>(known.st_dev);
  info.node = static_cast<std::uint64_t>(known.st_ino);
#if defined(__APPLE__)
  const timespec& changed = known.st_mtimespec;
#else
  const timespec& changed = known.st_mtim;
#endif
  info.seconds = changed.tv_sec;
  info.nanoseconds = changed.tv_nsec;
  info.deleted = known.st_nlink == 0;
  return info;
}

}  // namespace detail

SOMA_INLINE FileInfo info_of(const std::string& path) {
  struct stat known {};
  return ::stat(path.c_str(), &known) == 0 ? detail::info_from(known) : FileInfo();
}

SOMA_INLINE FileInfo info_of_link(const std::string& path) {
  struct stat known {};
  return ::lstat(path.c_str(), &known) == 0 ? detail::info_from(known) : FileInfo();
}

SOMA_INLINE FileInfo info_of(int file) {
  struct stat known {};
  return ::fstat(file, &known) == 0 ? detail::info_from(known) : FileInfo();
}

SOMA_INLINE bool is_regular(const std::string& path) {
  return info_of(path).kind == FileKind::regular;
}

SOMA_INLINE bool is_folder(const std::string& path) {
  return info_of(path).kind == FileKind::folder;
}

SOMA_INLINE bool is_mount_point([[maybe_unused]] const std::string& path) {
#if defined(STATX_ATTR_MOUNT_ROOT)
  struct statx found {};
  return ::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, 0, &found) == 0 &&
         (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
#else
  return false;
#endif
}

SOMA_INLINE bool is_terminal(int file) { return ::isatty(file) == 1; }

SOMA_INLINE bool is_separator(char letter) { return letter == '/'; }

SOMA_INLINE int open_to_read(const std::string& path) {
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

SOMA_INLINE int standard_input() { return STDIN_FILENO; }

SOMA_INLINE int create_file(const std::string& path) {
  int file = -1;
  do file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  while (file < 0 && errno == EINTR);
  return file;
}

SOMA_INLINE int open_to_append(const std::string& path, bool fresh) {
  int flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;
  if (fresh) flags |= O_EXCL;
  int file = -1;
  do file = ::open(path.c_str(), flags, 0666);
  while (file < 0 && errno == EINTR);
  return file;
}

SOMA_INLINE bool lock_file([[maybe_unused]] int file) {
#if SOMA_POSIX
  int result = 0;
  do result = ::flock(file, LOCK_EX | LOCK_NB);
  while (result != 0 && errno == EINTR);
  return result == 0;
#else
  return true;
#endif
}

namespace detail {

// The file if it could be locked; otherwise it is closed.
inline int locked(int file) {
  if (file < 0 || lock_file(file)) return file;
  const int number = errno;
  ::close(file);
  errno = number;
  return -1;
}

}  // namespace detail

SOMA_INLINE int open_lock(const std::string& path) {
  return detail::locked(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
}

SOMA_INLINE int lock_folder(const std::string& path) {
#if SOMA_POSIX
  return detail::locked(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
#else
  errno = is_folder(path) ? ENOSYS : ENOENT;
  return -1;
#endif
}

SOMA_INLINE bool has_no_locks(int number) {
  return number == EOPNOTSUPP || number == ENOSYS || number == EINVAL || number == EBADF ||
         number == ENOLCK;
}

SOMA_INLINE std::ptrdiff_t read_some(int file, void* bytes, std::size_t most) {
  while (true) {
    const auto count = ::read(file, bytes, most);
    if (count >= 0 || errno != EINTR) return count;
  }
}

SOMA_INLINE bool read_at(int file, std::uint64_t place, void* bytes, std::size_t count) {
  return ::pread(file, bytes, count, static_cast<off_t>(place)) ==
         static_cast<std::ptrdiff_t>(count);
}

SOMA_INLINE bool wait_for_bytes(int file, int milliseconds) {
  pollfd waiting{.fd = file, .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, milliseconds) > 0;
}

SOMA_INLINE bool write_all(int file, const void* bytes, std::size_t count) {
  const auto* at = static_cast<const char*>(bytes);
  while (count != 0) {
    const auto written = ::write(file, at, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    at += written;
    count -= static_cast<std::size_t>(written);
  }
  return true;
}

SOMA_INLINE bool set_size(int file, std::uint64_t bytes) {
  return ::ftruncate(file, static_cast<off_t>(bytes)) == 0;
}

SOMA_INLINE bool synchronise(int file) { return ::fsync(file) == 0; }

SOMA_INLINE bool close_file(int file) { return ::close(file) == 0; }

SOMA_INLINE void synchronise_folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  static_cast<void>(::fsync(file));
  ::close(file);
}

SOMA_INLINE bool rename_over(const std::string& from, const std::string& to) {
  return ::rename(from.c_str(), to.c_str()) == 0;
}

SOMA_INLINE bool exchange([[maybe_unused]] const std::string& one,
                          [[maybe_unused]] const std::string& other) {
#if defined(RENAME_EXCHANGE)
  return ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0;
#else
  errno = ENOSYS;
  return false;
#endif
}

SOMA_INLINE bool remove_file(const std::string& path) { return ::unlink(path.c_str()) == 0; }

SOMA_INLINE bool make_folder(const std::string& path) { return ::mkdir(path.c_str(), 0777) == 0; }

SOMA_INLINE bool remove_empty_folder(const std::string& path) { return ::rmdir(path.c_str()) == 0; }

#if SOMA_POSIX

SOMA_INLINE const std::byte* map(int file, std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<const std::byte*>(memory);
}

SOMA_INLINE void unmap(const std::byte* memory, std::size_t bytes) noexcept {
  ::munmap(const_cast<std::byte*>(memory), bytes);
}

#endif

}  // namespace SOMA_NAMESPACE::system
#endif

#if !SOMA_POSIX
namespace SOMA_NAMESPACE::system {

namespace detail {

inline constexpr std::align_val_t copy_alignment{64};

}  // namespace detail

SOMA_INLINE const std::byte* map(int file, std::size_t bytes) {
  auto* memory =
      static_cast<std::byte*>(::operator new(bytes, detail::copy_alignment, std::nothrow));
  if (memory == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  for (std::size_t at = 0; at < bytes;) {
    const std::ptrdiff_t count = read_some(file, memory + at, bytes - at);
    if (count <= 0) {
      const int number = count < 0 ? errno : EIO;
      unmap(memory, bytes);
      errno = number;
      return nullptr;
    }
    at += static_cast<std::size_t>(count);
  }
  return memory;
}

SOMA_INLINE void unmap(const std::byte* memory, std::size_t) noexcept {
  ::operator delete(const_cast<std::byte*>(memory), detail::copy_alignment);
}

}  // namespace SOMA_NAMESPACE::system
#endif
