#pragma once
// The functions of files.hpp: Windows. The C library's functions with wide names, and a few of the
// system's, declared as <windows.h> does, which would bring hundreds of macros.

#include <soma/system/files.hpp>

#include <soma/base/config.hpp>
#include <soma/system/which.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>

#if SOMA_WINDOWS
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include <fcntl.h>
#include <io.h>
#include <share.h>
#include <sys/stat.h>
#include <sys/types.h>

struct _SECURITY_ATTRIBUTES;
extern "C" __declspec(dllimport) void* __stdcall CreateFileW(const wchar_t*, unsigned long,
                                                             unsigned long,
                                                             struct _SECURITY_ATTRIBUTES*,
                                                             unsigned long, unsigned long, void*);
extern "C" __declspec(dllimport) int __stdcall MoveFileExW(const wchar_t*, const wchar_t*,
                                                           unsigned long);
extern "C" __declspec(dllimport) int __stdcall PeekNamedPipe(void*, void*, unsigned long,
                                                             unsigned long*, unsigned long*,
                                                             unsigned long*);
extern "C" __declspec(dllimport) int __stdcall MultiByteToWideChar(unsigned, unsigned long,
                                                                   const char*, int, wchar_t*, int);
extern "C" __declspec(dllimport) unsigned long __stdcall GetLastError(void);

namespace SOMA_NAMESPACE::system {

namespace detail {

// A path as the system takes it; empty for a text that is no UTF-8, which names no file.
inline std::wstring wide(const std::string& path) {
  constexpr unsigned utf8 = 65001;
  constexpr unsigned long refuse_others = 8;  // MB_ERR_INVALID_CHARS
  const int bytes = static_cast<int>(path.size());
  const int size = MultiByteToWideChar(utf8, refuse_others, path.data(), bytes, nullptr, 0);
  std::wstring text(static_cast<std::size_t>((std::max)(size, 0)), L'\0');
  MultiByteToWideChar(utf8, refuse_others, path.data(), bytes, text.data(), size);
  return text;
}

// The number of errno for GetLastError().
inline int error_number() {
  switch (GetLastError()) {
    case 2:  // no such file
    case 3:  // no such path
      return ENOENT;
    case 5:
      return EACCES;
    case 32:  // open elsewhere, in another way
      return EWOULDBLOCK;
    case 80:
    case 183:
      return EEXIST;
    case 112:
      return ENOSPC;
    case 145:
      return ENOTEMPTY;
    default:
      return EIO;
  }
}

inline int open(const std::string& path, int flags, int sharing) {
  int file = -1;
  const errno_t error = ::_wsopen_s(&file, wide(path).c_str(), flags | _O_BINARY | _O_NOINHERIT,
                                    sharing, _S_IREAD | _S_IWRITE);
  if (error == 0) return file;
  errno = _doserrno == 32 ? EWOULDBLOCK : error;  // 32: open elsewhere, in another way
  return -1;
}

inline FileInfo info_from(const struct _stat64& known) {
  FileInfo info;
  const int kind = known.st_mode & _S_IFMT;
  info.kind = kind == _S_IFREG   ? FileKind::regular
              : kind == _S_IFDIR ? FileKind::folder
              : kind == _S_IFIFO ? FileKind::pipe
                                 : FileKind::other;
  info.bytes = static_cast<std::uint64_t>(known.st_size);
  info.device = static_cast<std::uint64_t>(known.st_dev);
  info.node = static_cast<std::uint64_t>(known.st_ino);
  info.seconds = known.st_mtime;
  return info;
}

}  // namespace detail

SOMA_INLINE FileInfo info_of(const std::string& path) {
  struct _stat64 known {};
  return ::_wstat64(detail::wide(path).c_str(), &known) == 0 ? detail::info_from(known)
                                                             : FileInfo();
}

SOMA_INLINE FileInfo info_of_link(const std::string& path) { return info_of(path); }

SOMA_INLINE FileInfo info_of(int file) {
  struct _stat64 known {};
  return ::_fstat64(file, &known) == 0 ? detail::info_from(known) : FileInfo();
}

SOMA_INLINE bool is_regular(const std::string& path) {
  return info_of(path).kind == FileKind::regular;
}

SOMA_INLINE bool is_folder(const std::string& path) {
  return info_of(path).kind == FileKind::folder;
}

SOMA_INLINE bool is_mount_point(const std::string&) { return false; }

SOMA_INLINE bool is_terminal(int file) { return ::_isatty(file) != 0; }

SOMA_INLINE bool is_separator(char letter) { return letter == '/' || letter == '\\'; }

SOMA_INLINE int open_to_read(const std::string& path) {
  return detail::open(path, _O_RDONLY, _SH_DENYNO);
}

SOMA_INLINE int standard_input() {
  ::_setmode(0, _O_BINARY);
  return 0;
}

SOMA_INLINE int create_file(const std::string& path) {
  return detail::open(path, _O_WRONLY | _O_CREAT | _O_EXCL, _SH_DENYNO);
}

SOMA_INLINE int open_to_append(const std::string& path, bool fresh) {
  return detail::open(path, _O_RDWR | _O_CREAT | _O_APPEND | (fresh ? _O_EXCL : 0), _SH_DENYWR);
}

SOMA_INLINE int open_lock(const std::string& path) {
  return detail::open(path, _O_RDWR | _O_CREAT, _SH_DENYRW);
}

// The folder is opened for adding files, and others may do everything with it but open it so: they
// may list, rename and delete it.
SOMA_INLINE int lock_folder(const std::string& path) {
  constexpr unsigned long add_files = 2, share_read_and_delete = 1 | 4, existing = 3;
  constexpr unsigned long of_folders = 0x02000000;  // FILE_FLAG_BACKUP_SEMANTICS
  if (!is_folder(path)) {
    errno = ENOENT;
    return -1;
  }
  void* folder = CreateFileW(detail::wide(path).c_str(), add_files, share_read_and_delete, nullptr,
                             existing, of_folders, nullptr);
  if (reinterpret_cast<std::intptr_t>(folder) == -1) {
    errno = detail::error_number();
    return -1;
  }
  return ::_open_osfhandle(reinterpret_cast<std::intptr_t>(folder), _O_RDONLY | _O_NOINHERIT);
}

SOMA_INLINE bool has_no_locks(int) { return false; }

SOMA_INLINE bool lock_file(int) { return true; }  // open_to_append() has done so

SOMA_INLINE std::ptrdiff_t read_some(int file, void* bytes, std::size_t most) {
  constexpr std::size_t at_once = std::size_t{1} << 30;
  return ::_read(file, bytes, static_cast<unsigned>((std::min)(most, at_once)));
}

SOMA_INLINE bool read_at(int file, std::uint64_t place, void* bytes, std::size_t count) {
  return ::_lseeki64(file, static_cast<std::int64_t>(place), 0) >= 0 &&
         read_some(file, bytes, count) == static_cast<std::ptrdiff_t>(count);
}

SOMA_INLINE bool wait_for_bytes(int file, int milliseconds) {
  auto* pipe = reinterpret_cast<void*>(::_get_osfhandle(file));
  constexpr int between_looks = 5;
  for (int waited = 0;; waited += between_looks) {
    unsigned long there = 0;
    // It fails for what is no pipe, and at the end of one.
    if (PeekNamedPipe(pipe, nullptr, 0, nullptr, &there, nullptr) == 0 || there != 0) return true;
    if (waited >= milliseconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(between_looks));
  }
}

SOMA_INLINE bool write_all(int file, const void* bytes, std::size_t count) {
  constexpr std::size_t at_once = std::size_t{1} << 30;
  const auto* at = static_cast<const char*>(bytes);
  while (count != 0) {
    const int written = ::_write(file, at, static_cast<unsigned>((std::min)(count, at_once)));
    if (written < 0) return false;
    at += written;
    count -= static_cast<std::size_t>(written);
  }
  return true;
}

SOMA_INLINE bool set_size(int file, std::uint64_t bytes) {
  const errno_t error = ::_chsize_s(file, static_cast<std::int64_t>(bytes));
  if (error != 0) errno = error;
  return error == 0;
}

SOMA_INLINE bool synchronise(int file) { return ::_commit(file) == 0; }

SOMA_INLINE bool close_file(int file) { return ::_close(file) == 0; }

SOMA_INLINE void synchronise_folder_of(const std::string&) {}

SOMA_INLINE bool rename_over(const std::string& from, const std::string& to) {
  constexpr unsigned long replace = 1, write_through = 8;
  if (is_folder(from) && info_of(to).kind != FileKind::none) {
    errno = EEXIST;
    return false;
  }
  if (MoveFileExW(detail::wide(from).c_str(), detail::wide(to).c_str(), replace | write_through) !=
      0)
    return true;
  errno = detail::error_number();
  return false;
}

SOMA_INLINE bool exchange(const std::string&, const std::string&) {
  errno = ENOSYS;
  return false;
}

SOMA_INLINE bool remove_file(const std::string& path) {
  return ::_wunlink(detail::wide(path).c_str()) == 0;
}

SOMA_INLINE bool make_folder(const std::string& path) {
  return ::_wmkdir(detail::wide(path).c_str()) == 0;
}

SOMA_INLINE bool remove_empty_folder(const std::string& path) {
  return ::_wrmdir(detail::wide(path).c_str()) == 0;
}

}  // namespace SOMA_NAMESPACE::system
#endif
