#pragma once
// Files by their numbers (descriptors), and what names in folders mean. Paths are UTF-8 on every
// system, and contents are bytes. Functions that fail leave their reason in errno.
//
// Systems differ:
//   Windows   a file that somebody has open can neither be deleted nor replaced; so what is mapped
//             elsewhere is a copy in memory. Folders are not synchronised.
//   WASI      no locks, and mappings are copies.

#include <soma/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace SOMA_NAMESPACE::system {

enum class FileKind : unsigned char { none, regular, folder, link, pipe, other };

struct FileInfo {
  FileKind kind = FileKind::none;  // none: there is no such file, or it cannot be asked for
  std::uint64_t bytes = 0, device = 0, node = 0;
  std::int64_t seconds = 0, nanoseconds = 0;  // when its content changed last
  bool deleted = false;                       // open, but in no folder any more
};

// Follows symbolic links.
FileInfo info_of(const std::string& path);
// The same for the link itself, where the path names one.
FileInfo info_of_link(const std::string& path);
FileInfo info_of(int file);

bool is_regular(const std::string& path);
bool is_folder(const std::string& path);
// A folder where another file system begins; false if the system cannot say.
bool is_mount_point(const std::string& path);
bool is_terminal(int file);
// True for what separates names in paths.
bool is_separator(char letter);

// The numbers are -1 on errors. Programs that this process starts do not inherit them.

// Does not wait for a pipe's writer.
int open_to_read(const std::string& path);
// The number of standard input, whose bytes come unchanged.
int standard_input();
// errno EEXIST: a file of that name exists.
int create_file(const std::string& path);
// Writes go to the end. `fresh`: as create_file() otherwise. On Windows nobody else can open the
// file for writing.
int open_to_append(const std::string& path, bool fresh);
// Makes the file if there is none, and locks it; errno EWOULDBLOCK: another process, or this one,
// holds the lock. It ends when the file is closed, or with the process.
int open_lock(const std::string& path);
// The same for a folder, which may be renamed meanwhile. errno as of open_lock(), or one of
// has_no_locks().
int lock_folder(const std::string& path);
// True if this errno of lock_folder() means that the system cannot lock folders.
bool has_no_locks(int number);
// Locks an open file, where the system can: errno EWOULDBLOCK as above.
bool lock_file(int file);

// At most `most` bytes; 0 at the end, -1 on errors.
std::ptrdiff_t read_some(int file, void* bytes, std::size_t most);
bool read_at(int file, std::uint64_t place, void* bytes, std::size_t count);
// True once read_some() would not wait, or the time has passed without (false).
bool wait_for_bytes(int file, int milliseconds);
bool write_all(int file, const void* bytes, std::size_t count);
bool set_size(int file, std::uint64_t bytes);
bool synchronise(int file);
bool close_file(int file);

// A new name survives a loss of power only if its folder is on the disk as well. Some file systems
// cannot flush a folder, and need not.
void synchronise_folder_of(const std::string& path);

// A file of the new name is replaced. For folders errno EEXIST or ENOTEMPTY: one of that name
// exists, and stays.
bool rename_over(const std::string& from, const std::string& to);
// Two folders in one step; errno EINVAL or ENOSYS where that is impossible.
bool exchange(const std::string& one, const std::string& other);
bool remove_file(const std::string& path);
bool make_folder(const std::string& path);
bool remove_empty_folder(const std::string& path);

// The bytes of a file as read-only memory, fetched from the disk when they are touched; a copy
// where a mapping would keep the file from being replaced. nullptr on errors. bytes > 0.
const std::byte* map(int file, std::size_t bytes);
void unmap(const std::byte* memory, std::size_t bytes) noexcept;

}  // namespace SOMA_NAMESPACE::system

#ifndef SOMA_DISPATCH
#include <soma/system/impl/files.ipp>
#include <soma/system/impl/files_windows.ipp>
#endif
