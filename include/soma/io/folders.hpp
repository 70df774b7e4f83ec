#pragma once
// Folders made and taken away.

#include <soma/base/file_error.hpp>
#include <soma/io/atomic_file.hpp>

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace soma::detail {

// The folder, with those that it lies in, where they are not there yet. Error file.write.
inline void make_folders(std::string_view operation, std::string_view path) {
  if (path.empty() || path.find('\0') != std::string_view::npos)
    file_failed(error_id::file_write, operation, path, "no path", 0, "a folder");
  std::error_code problem;
  std::filesystem::create_directories(path, problem);
  if (problem)
    file_failed(error_id::file_write, operation, path, "cannot create", problem.value(),
                "a folder that can be made");
}

// Takes a folder away: under its name it is whole until the moment it is gone, even if the process
// is killed while it deletes. What cannot be deleted stays under a name that ends in ".partial".
inline void remove_folder(const std::string& path) {
  const std::string partial = partial_name(path);
  std::error_code problem;
  if (::rename(path.c_str(), partial.c_str()) == 0) std::filesystem::remove_all(partial, problem);
}

}  // namespace soma::detail
