#pragma once
// The functions of data_files.hpp.

#include <soma/base/contains.hpp>
#include <soma/text/data_files.hpp>

#include <soma/base/error.hpp>
#include <soma/system/files.hpp>
#include <soma/system/paths.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE bool is_data_name(std::string_view name) {
  constexpr std::array<std::string_view, 6> endings = {".tsv",    ".csv", ".jsonl",
                                                       ".ndjson", ".txt", ".ft"};
  if (name.ends_with(".gz")) name.remove_suffix(3);
  return std::any_of(endings.begin(), endings.end(),
                     [&](auto ending) { return name.ends_with(ending); });
}

SOMA_INLINE std::vector<std::string> names_in(std::string_view operation,
                                              const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator at(system::path_of(folder), error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error))
    names.push_back(system::name_of(*at));
  if (error)
    fail(error_id::text_folder, operation, "folder",
         soma::quoted(folder) + " (" + error.message() + ")", "a folder that can be listed");
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace SOMA_NAMESPACE::text

namespace SOMA_NAMESPACE::text::detail {

SOMA_INLINE std::vector<std::string> files_of_part(std::string_view operation,
                                                   const std::string& folder,
                                                   std::span<const std::string> names,
                                                   std::span<const std::string_view> parts) {
  std::vector<std::string> found;
  std::string first;
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    const bool is_folder = system::is_folder(path);
    const std::string_view stem = std::string_view(name).substr(0, name.find('.'));
    if (!contains(parts, is_folder ? std::string_view(name) : stem) ||
        (!is_folder && !is_data_name(name)))
      continue;
    if (!first.empty())
      fail(error_id::text_folder, operation, "folder",
           soma::quoted(folder) + ", which has " + first + " and " + name, "one of them");
    first = name;
    if (!is_folder) {
      found.push_back(path);
      continue;
    }
    for (const std::string& inner : names_in(operation, path))
      if (is_data_name(inner)) found.push_back(path + "/" + inner);
    if (found.empty())
      fail(error_id::text_folder, operation, "folder", soma::quoted(path) + ", without data",
           "files that end in .tsv, .csv, .jsonl, .txt or .ft, or those with .gz behind");
  }
  return found;
}

SOMA_INLINE DataFiles files_of_folder(const std::string& path, std::string_view operation) {
  constexpr std::array<std::string_view, 1> train = {"train"}, test = {"test"};
  constexpr std::array<std::string_view, 4> names_of_validation = {"dev", "valid", "validation",
                                                                   "val"};
  const std::vector<std::string> names = names_in(operation, path);
  return {.train = files_of_part(operation, path, names, train),
          .validation = files_of_part(operation, path, names, names_of_validation),
          .test = files_of_part(operation, path, names, test)};
}

SOMA_INLINE bool is_data_folder(const std::string& path) { return system::is_folder(path); }

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE DataFiles find_data_files(const std::string& path, std::string_view operation) {
  if (!detail::is_data_folder(path)) return {.train = {path}, .validation = {}, .test = {}};
  DataFiles files = detail::files_of_folder(path, operation);
  if (files.train.empty())
    fail(error_id::text_folder, operation, "folder", soma::quoted(path) + ", without training data",
         "a file train.tsv, .csv, .jsonl or .txt, or a folder train/");
  return files;
}

SOMA_INLINE std::vector<std::string> find_test_files(const std::string& path,
                                                     std::string_view operation) {
  if (!detail::is_data_folder(path)) return {path};
  DataFiles files = detail::files_of_folder(path, operation);
  if (files.test.empty() && files.validation.empty())
    fail(error_id::text_folder, operation, "folder",
         soma::quoted(path) + ", without data to measure by",
         "a file test.tsv, dev.tsv, .csv, .jsonl or .txt, or a folder test/ or dev/");
  return std::move(files.test.empty() ? files.validation : files.test);
}

}  // namespace SOMA_NAMESPACE::text
