#pragma once
// AtomicFolder: a folder of files that appears under its name when it is complete, or not at all.
// The folder is written under a temporary name beside its place, and renamed as a whole. A mount
// point, or a folder whose parent is not writable, cannot be renamed, and the process's working
// folder should not be: in these folders, files are replaced one after another. The writer holds a
// lock that ends with its process: the next writer of that name deletes the remains of a killed
// one.

#include <soma/base/file_error.hpp>
#include <soma/io/atomic_file.hpp>
#include <soma/io/folders.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

// Replaces a folder of that name with all its content (if the folder keeps its place: only files of
// the same names). Errors file.write.
class AtomicFolder {
 public:
  // `operation` names the caller in messages, and must outlive the object. The folder's parent must
  // exist. A symbolic link stays: it stands for the folder that it names, which must exist.
  AtomicFolder(std::string_view operation, std::string_view path);
  // Without commit() nothing remains.
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // The path for a file in it. The writer must flush that file to the disk, as AtomicFile does.
  std::string operator/(std::string_view name) const;
  // The temporary folder of all files until commit().
  const std::string& partial() const { return partial_; }

  // The entries that commit() would remove: all entries of the folder of that name. Empty for a
  // mount point, where files of other names stay. (They also stay in the process's working folder;
  // but this function lists them there, because the user rarely means that folder.) Error
  // file.read.
  std::vector<std::filesystem::directory_entry> replaced() const;

  // Puts the folder on the disk under its name. Two folders are exchanged in one step if the file
  // system supports it (Linux's own do); on others the name is missing for the moment between two
  // renames.
  void commit();

 private:
  static constexpr std::string_view inside_name = "new";

  bool make_partial(const std::string& path);
  // Returns false, with errno, if it cannot be locked. EEXIST: another process took it for remains
  // before it was locked, and deletes it. On a system without locks of folders, nothing is locked
  // and nothing is ever deleted. If hosts that share a file system have separate locks, two hosts
  // must not save to one name at the same time.
  bool lock(const std::string& partial);
  void unlock() noexcept;
  // Called only at the end, because one of them may have been the only model of that name.
  static void remove_left(const std::string& path);
  void place_files();
  void exchange();
  void abandon() noexcept;
  [[noreturn]] void failed(std::string_view problem, int number);

  std::string_view operation_;
  std::string path_, partial_;  // empty: no such folder
  int lock_ = -1;               // the lock file of partial_; -1: the system has no locks
  bool inside_ = false;         // partial_ is in the folder, not beside it
  bool works_here_ = false;     // the process, in the folder
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/io/impl/atomic_folder.ipp>
#endif
