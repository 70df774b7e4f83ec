#pragma once
// The functions of folders.hpp.

#include <soma/io/folders.hpp>

#include <soma/base/file_error.hpp>
#include <soma/io/atomic_file.hpp>
#include <soma/system/files.hpp>
#include <soma/system/paths.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace SOMA_NAMESPACE {

SOMA_INLINE void make_folders(std::string_view operation, std::string_view path) {
  if (path.empty() || path.find('\0') != std::string_view::npos)
    detail::file_failed(error_id::file_write, operation, path, "no path", 0, "a folder");
  std::error_code problem;
  std::filesystem::create_directories(system::path_of(path), problem);
  if (problem)
    detail::file_failed(error_id::file_write, operation, path, "cannot create", problem.value(),
                        "a folder that can be made");
}

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE void remove_folder(const std::string& path) {
  const std::string partial = partial_name(path);
  std::error_code problem;
  if (system::rename_over(path, partial))
    std::filesystem::remove_all(system::path_of(partial), problem);
}

}  // namespace SOMA_NAMESPACE::detail
