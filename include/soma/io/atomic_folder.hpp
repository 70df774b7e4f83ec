#pragma once
// AtomicFolder: a folder of files that appears under its name when it is complete, or not at all.
// It is written beside its place and renamed in whole. A mount point cannot be renamed, nor can a
// folder whose parent cannot be written: there, files take their places one after another. POSIX.

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
#include <sys/stat.h>

namespace soma {

// Replaces a folder of that name, whatever is in it (of a mount point: files of the same names).
// Errors file.write.
class AtomicFolder {
 public:
  // `operation` names the caller in messages, and outlives the object. The folder's parent has to
  // be there.
  AtomicFolder(std::string_view operation, std::string_view path)
      : operation_(operation), path_(path) {
    while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
    struct stat known {};
    if (path_.empty() || path_.find('\0') != std::string::npos) failed("no path", 0);
    const bool exists = ::lstat(path_.c_str(), &known) == 0;
    if (exists && !S_ISDIR(known.st_mode)) failed("not a folder", 0);
    if (!(exists && is_mount_point()) && make_partial(path_)) return;
    const int number = errno;
    inside_ = exists && make_partial(path_ + "/new");
    if (!inside_) failed("cannot create a folder beside it", exists ? errno : number);
  }
  // Without commit(): nothing is left behind.
  ~AtomicFolder() { abandon(); }
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // Where to write a file of it. What is written there has to be synchronised with the disk by
  // whoever writes it, as AtomicFile does.
  std::string operator/(std::string_view name) const {
    return std::string(partial_).append("/").append(name);
  }
  // Where all of them are until commit().
  const std::string& partial() const { return partial_; }

  // What commit() would take away: all that the folder of that name holds. Of a mount point, where
  // files of other names stay, nothing. Error file.read.
  std::vector<std::filesystem::directory_entry> replaced() const {
    std::vector<std::filesystem::directory_entry> entries;
    std::error_code problem;
    if (inside_ || !std::filesystem::exists(path_, problem)) return entries;
    for (std::filesystem::directory_iterator entry(path_, problem), end; !problem && entry != end;
         entry.increment(problem))
      entries.push_back(*entry);
    if (problem)
      detail::file_failed(error_id::file_read, operation_, path_, "cannot list it", problem.value(),
                          "a folder that can be read");
    return entries;
  }

  // It is on the disk, under its name. Two folders change places in one moment where the file
  // system can do that (Linux's own can); elsewhere, for the moment between two renames, there is
  // none of that name.
  void commit() {
    if (inside_) return place_files();
    if (::rename(partial_.c_str(), path_.c_str()) == 0) {
      partial_.clear();
    } else {
      if (errno != ENOTEMPTY && errno != EEXIST) failed("cannot rename", errno);
      exchange();
    }
    detail::synchronise_folder_of(path_);
    abandon();  // the folder that was replaced
  }

 private:
  bool make_partial(const std::string& path) {
    std::string partial;
    do {
      partial = detail::partial_name(path);
      if (::mkdir(partial.c_str(), 0777) == 0) {
        partial_.swap(partial);
        return true;
      }
    } while (errno == EEXIST);
    return false;
  }
  bool is_mount_point() const {
#if defined(STATX_ATTR_MOUNT_ROOT)
    struct statx found {};
    return ::statx(AT_FDCWD, path_.c_str(), AT_SYMLINK_NOFOLLOW, 0, &found) == 0 &&
           (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
#else
    return false;
#endif
  }
  void place_files() {
    std::error_code problem;
    for (const auto& entry : std::filesystem::directory_iterator(partial_, problem)) {
      const std::string place = path_ + "/" + entry.path().filename().string();
      if (::rename(entry.path().c_str(), place.c_str()) != 0) failed("cannot rename", errno);
    }
    if (problem) failed("cannot be listed", problem.value());
    detail::synchronise_folder_of(path_ + "/new");
    abandon();
  }
  void exchange() {
#if defined(RENAME_EXCHANGE)
    if (::renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0)
      return;
    if (errno != EINVAL && errno != ENOSYS) failed("cannot exchange", errno);
#endif
    const std::string old = detail::partial_name(path_);
    if (::rename(path_.c_str(), old.c_str()) != 0) failed("cannot move the old one away", errno);
    if (::rename(partial_.c_str(), path_.c_str()) != 0) {
      const int number = errno;
      static_cast<void>(::rename(old.c_str(), path_.c_str()));
      failed("cannot rename", number);
    }
    partial_ = old;
  }
  void abandon() noexcept {
    std::error_code problem;
    if (!partial_.empty()) std::filesystem::remove_all(partial_, problem);
    partial_.clear();
  }
  [[noreturn]] void failed(std::string_view problem, int number) {
    abandon();
    detail::file_failed(error_id::file_write, operation_, path_, problem, number,
                        "a folder that can be written");
  }

  std::string_view operation_;
  std::string path_, partial_;  // empty: no such folder
  bool inside_ = false;         // partial_ is in the folder, not beside it
};

}  // namespace soma
