#pragma once
// The functions of atomic_folder.hpp.

#include <soma/io/atomic_folder.hpp>

#include <soma/base/file_error.hpp>
#include <soma/io/atomic_file.hpp>
#include <soma/io/folders.hpp>
#include <soma/system/files.hpp>
#include <soma/system/paths.hpp>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE AtomicFolder::AtomicFolder(std::string_view operation, std::string_view path)
    : operation_(operation), path_(path) {
  while (path_.size() > 1 && system::is_separator(path_.back())) path_.pop_back();
  std::error_code problem;
  // No name can stand beside ".".
  if (const std::filesystem::path given = system::path_of(path_), last = given.filename();
      last == "." || last == "..")
    if (const std::filesystem::path found = std::filesystem::canonical(given, problem); !problem)
      path_ = system::text_of(found);
  if (path_.empty() || path_.find('\0') != std::string::npos) failed("no path", 0);
  using system::FileKind;
  FileKind kind = system::info_of_link(path_).kind;
  if (kind == FileKind::link) {
    // The link stays, and the folder that it names is replaced.
    const std::filesystem::path named = std::filesystem::canonical(system::path_of(path_), problem);
    if (problem) failed("a symbolic link that names nothing", problem.value());
    path_ = system::text_of(named);
    kind = system::info_of_link(path_).kind;
  }
  const bool exists = kind != FileKind::none;
  if (exists && kind != FileKind::folder) failed("not a folder", 0);
  works_here_ = exists && std::filesystem::equivalent(system::path_of(path_), ".", problem);
  if (!(exists && (works_here_ || system::is_mount_point(path_))) && make_partial(path_)) return;
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
  if ((inside_ && !works_here_) || !std::filesystem::exists(system::path_of(path_), problem))
    return entries;
  for (std::filesystem::directory_iterator entry(system::path_of(path_), problem), end;
       !problem && entry != end; entry.increment(problem))
    if (!inside_ || detail::whole_name(system::name_of(*entry)) != inside_name)
      entries.push_back(*entry);
  if (problem)
    detail::file_failed(error_id::file_read, operation_, path_, "cannot list it", problem.value(),
                        "a folder that can be read");
  return entries;
}

SOMA_INLINE void AtomicFolder::commit() {
  if (inside_) return place_files();
  if (system::rename_over(partial_, path_)) {
    partial_.clear();
  } else {
    if (errno != ENOTEMPTY && errno != EEXIST) failed("cannot rename", errno);
    exchange();
  }
  system::synchronise_folder_of(path_);
  abandon();  // the folder that was replaced
  remove_left(path_);
}

SOMA_INLINE bool AtomicFolder::make_partial(const std::string& path) {
  std::string partial;
  do {
    partial = soma::partial_name(path);
    if (system::make_folder(partial) && lock(partial)) {
      partial_.swap(partial);
      return true;
    }
  } while (errno == EEXIST);
  return false;
}

SOMA_INLINE bool AtomicFolder::lock(const std::string& partial) {
  lock_ = system::lock_folder(partial);
  const int number = errno;
  if (lock_ >= 0 && !system::info_of(lock_).deleted) return true;
  if (lock_ < 0 && system::has_no_locks(number)) return true;
  const bool gone = lock_ >= 0 || number == ENOENT || number == EWOULDBLOCK;
  unlock();
  if (!gone) system::remove_empty_folder(partial);
  errno = gone ? EEXIST : number;
  return false;
}

SOMA_INLINE void AtomicFolder::unlock() noexcept {
  if (lock_ >= 0) system::close_file(std::exchange(lock_, -1));
}

SOMA_INLINE void AtomicFolder::remove_left(const std::string& path) {
  const std::filesystem::path whole = system::path_of(path);
  const std::filesystem::path parent = whole.has_parent_path() ? whole.parent_path() : ".";
  const std::string name = system::text_of(whole.filename());
  std::error_code problem;
  for (std::filesystem::directory_iterator entry(parent, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    if (detail::whole_name(system::name_of(*entry)) != name) continue;
    const int lock = system::lock_folder(system::text_of(entry->path()));
    if (lock < 0) continue;
    std::error_code ignored;
    std::filesystem::remove_all(entry->path(), ignored);
    system::close_file(lock);
  }
}

SOMA_INLINE void AtomicFolder::place_files() {
  std::error_code problem;
  for (const auto& entry :
       std::filesystem::directory_iterator(system::path_of(partial_), problem)) {
    const std::string place = path_ + "/" + system::name_of(entry);
    if (!system::rename_over(system::text_of(entry.path()), place)) failed("cannot rename", errno);
  }
  if (problem) failed("cannot be listed", problem.value());
  const std::string inside = path_ + "/" + std::string(inside_name);
  system::synchronise_folder_of(inside);
  abandon();
  remove_left(inside);
}

SOMA_INLINE void AtomicFolder::exchange() {
  if (system::exchange(partial_, path_)) return;
  if (errno != EINVAL && errno != ENOSYS) failed("cannot exchange", errno);
  const std::string old = soma::partial_name(path_);
  if (!system::rename_over(path_, old)) failed("cannot move the old one away", errno);
  if (!system::rename_over(partial_, path_)) {
    const int number = errno;
    static_cast<void>(system::rename_over(old, path_));
    failed("cannot rename", number);
  }
  partial_ = old;
}

SOMA_INLINE void AtomicFolder::abandon() noexcept {
  std::error_code problem;
  if (!partial_.empty()) std::filesystem::remove_all(system::path_of(partial_), problem);
  partial_.clear();
}

SOMA_INLINE void AtomicFolder::failed(std::string_view problem, int number) {
  abandon();
  detail::file_failed(error_id::file_write, operation_, path_, problem, number,
                      "a folder that can be written");
}

}  // namespace SOMA_NAMESPACE
