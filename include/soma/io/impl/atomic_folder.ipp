#pragma once
// The functions of atomic_folder.hpp.

#include <soma/io/atomic_folder.hpp>

#include <soma/base/file_error.hpp>
#include <soma/io/atomic_file.hpp>
#include <soma/io/folders.hpp>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE int lock_folder(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return -1;
  int result = 0;
  do result = ::flock(folder, LOCK_EX | LOCK_NB);
  while (result != 0 && errno == EINTR);
  if (result == 0) return folder;
  const int number = errno;
  ::close(folder);
  errno = number;
  return -1;
}

SOMA_INLINE bool has_no_locks(int number) {
  return number == EOPNOTSUPP || number == ENOSYS || number == EINVAL || number == EBADF ||
         number == ENOLCK;
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE AtomicFolder::AtomicFolder(std::string_view operation, std::string_view path)
    : operation_(operation), path_(path) {
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  std::error_code problem;
  // No name can stand beside ".".
  if (const std::filesystem::path last = std::filesystem::path(path_).filename();
      last == "." || last == "..")
    if (const std::filesystem::path found = std::filesystem::canonical(path_, problem); !problem)
      path_ = found.string();
  struct stat known {};
  if (path_.empty() || path_.find('\0') != std::string::npos) failed("no path", 0);
  bool exists = ::lstat(path_.c_str(), &known) == 0;
  if (exists && S_ISLNK(known.st_mode)) {
    // The link stays, and the folder that it names is replaced.
    const std::filesystem::path named = std::filesystem::canonical(path_, problem);
    if (problem) failed("a symbolic link that names nothing", problem.value());
    path_ = named.string();
    exists = ::lstat(path_.c_str(), &known) == 0;
  }
  if (exists && !S_ISDIR(known.st_mode)) failed("not a folder", 0);
  works_here_ = exists && std::filesystem::equivalent(path_, ".", problem);
  if (!(exists && (works_here_ || is_mount_point())) && make_partial(path_)) return;
  const int number = errno;
  inside_ = exists && make_partial(path_ + "/" + std::string(inside_name));
  if (!inside_) failed("cannot create a folder beside it", exists ? errno : number);
}

SOMA_INLINE AtomicFolder::~AtomicFolder() {
  abandon();
  unlock();
}

SOMA_INLINE std::string AtomicFolder::operator/(std::string_view name) const {
  return std::string(partial_).append("/").append(name);
}

SOMA_INLINE std::vector<std::filesystem::directory_entry> AtomicFolder::replaced() const {
  std::vector<std::filesystem::directory_entry> entries;
  std::error_code problem;
  if ((inside_ && !works_here_) || !std::filesystem::exists(path_, problem)) return entries;
  for (std::filesystem::directory_iterator entry(path_, problem), end; !problem && entry != end;
       entry.increment(problem))
    if (!inside_ || detail::whole_name(entry->path().filename().string()) != inside_name)
      entries.push_back(*entry);
  if (problem)
    detail::file_failed(error_id::file_read, operation_, path_, "cannot list it", problem.value(),
                        "a folder that can be read");
  return entries;
}

SOMA_INLINE void AtomicFolder::commit() {
  if (inside_) return place_files();
  if (::rename(partial_.c_str(), path_.c_str()) == 0) {
    partial_.clear();
  } else {
    if (errno != ENOTEMPTY && errno != EEXIST) failed("cannot rename", errno);
    exchange();
  }
  detail::synchronise_folder_of(path_);
  abandon();  // the folder that was replaced
  remove_left(path_);
}

SOMA_INLINE bool AtomicFolder::make_partial(const std::string& path) {
  std::string partial;
  do {
    partial = soma::partial_name(path);
    if (::mkdir(partial.c_str(), 0777) == 0 && lock(partial)) {
      partial_.swap(partial);
      return true;
    }
  } while (errno == EEXIST);
  return false;
}

SOMA_INLINE bool AtomicFolder::lock(const std::string& partial) {
  lock_ = detail::lock_folder(partial);
  const int number = errno;
  struct stat known {};
  if (lock_ >= 0 && (::fstat(lock_, &known) != 0 || known.st_nlink != 0)) return true;
  if (lock_ < 0 && detail::has_no_locks(number)) return true;
  const bool gone = lock_ >= 0 || number == ENOENT || number == EWOULDBLOCK;
  unlock();
  if (!gone) ::rmdir(partial.c_str());
  errno = gone ? EEXIST : number;
  return false;
}

SOMA_INLINE void AtomicFolder::unlock() noexcept {
  if (lock_ >= 0) ::close(std::exchange(lock_, -1));
}

SOMA_INLINE void AtomicFolder::remove_left(const std::string& path) {
  const std::filesystem::path whole = path;
  const std::filesystem::path parent = whole.has_parent_path() ? whole.parent_path() : ".";
  std::error_code problem;
  for (std::filesystem::directory_iterator entry(parent, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    if (detail::whole_name(entry->path().filename().string()) != whole.filename().string())
      continue;
    const int lock = detail::lock_folder(entry->path().string());
    if (lock < 0) continue;
    std::error_code ignored;
    std::filesystem::remove_all(entry->path(), ignored);
    ::close(lock);
  }
}

SOMA_INLINE bool AtomicFolder::is_mount_point() const {
#if defined(STATX_ATTR_MOUNT_ROOT)
  struct statx found {};
  return ::statx(AT_FDCWD, path_.c_str(), AT_SYMLINK_NOFOLLOW, 0, &found) == 0 &&
         (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
#else
  return false;
#endif
}

SOMA_INLINE void AtomicFolder::place_files() {
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(partial_, problem)) {
    const std::string place = path_ + "/" + entry.path().filename().string();
    if (::rename(entry.path().c_str(), place.c_str()) != 0) failed("cannot rename", errno);
  }
  if (problem) failed("cannot be listed", problem.value());
  const std::string inside = path_ + "/" + std::string(inside_name);
  detail::synchronise_folder_of(inside);
  abandon();
  remove_left(inside);
}

SOMA_INLINE void AtomicFolder::exchange() {
#if defined(RENAME_EXCHANGE)
  if (::renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0)
    return;
  if (errno != EINVAL && errno != ENOSYS) failed("cannot exchange", errno);
#endif
  const std::string old = soma::partial_name(path_);
  if (::rename(path_.c_str(), old.c_str()) != 0) failed("cannot move the old one away", errno);
  if (::rename(partial_.c_str(), path_.c_str()) != 0) {
    const int number = errno;
    static_cast<void>(::rename(old.c_str(), path_.c_str()));
    failed("cannot rename", number);
  }
  partial_ = old;
}

SOMA_INLINE void AtomicFolder::abandon() noexcept {
  std::error_code problem;
  if (!partial_.empty()) std::filesystem::remove_all(partial_, problem);
  partial_.clear();
}

SOMA_INLINE void AtomicFolder::failed(std::string_view problem, int number) {
  abandon();
  detail::file_failed(error_id::file_write, operation_, path_, problem, number,
                      "a folder that can be written");
}

}  // namespace SOMA_NAMESPACE
