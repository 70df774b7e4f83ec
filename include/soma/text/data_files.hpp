#pragma once
// The files of a folder: for training, for validation during training, and for the final test.

#include <soma/base/error.hpp>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text {

// The rows of several files are the rows of the first file, then those of the second, and so on.
struct DataFiles {
  std::vector<std::string> train, validation, test;
};

// True for names of data files: ".csv", ".txt.gz", but not ".csv~" or ".partial".
bool is_data_name(std::string_view name);

// The names in a folder, ascending. Error text.folder.
std::vector<std::string> names_in(std::string_view operation, const std::string& folder);

namespace detail {

// The file train.csv (or with another data ending), or the files in train/; empty if there is
// neither. Error text.folder: both exist, or two such files.
std::vector<std::string> files_of_part(std::string_view operation, const std::string& folder,
                                       std::span<const std::string> names,
                                       std::span<const std::string_view> parts);

// The files of a folder. Error text.folder.
DataFiles files_of_folder(const std::string& path, std::string_view operation);
bool is_data_folder(const std::string& path);

}  // namespace detail

// The files behind a path. A single file is all training data. A folder has a file train.*, and
// optionally dev.* (or valid.*, validation.*, val.*) and test.*, or subfolders of these names with
// files, read in the order of their names. Data files end in .tsv, .csv, .jsonl, .ndjson, .txt or
// .ft, optionally followed by .gz; other files are ignored. Error text.folder.
DataFiles find_data_files(const std::string& path, std::string_view operation = "find_data_files");

// The files that measure a finished model: a single file itself; of a folder the test files, or the
// dev files if there are no test files. Error text.folder, also if there is neither.
std::vector<std::string> find_test_files(const std::string& path,
                                         std::string_view operation = "find_test_files");

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/data_files.ipp>
#endif
