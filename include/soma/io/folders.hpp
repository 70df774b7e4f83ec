#pragma once
// Makes and deletes folders.

#include <soma/base/file_error.hpp>
#include <soma/io/atomic_file.hpp>

#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

// Makes the folder, and its missing parents. Error file.write.
void make_folders(std::string_view operation, std::string_view path);

namespace detail {

// Deletes a folder: under its name it is complete until the moment it disappears, even if the
// process is killed meanwhile. Entries that cannot be deleted stay under a name that ends in
// ".partial".
void remove_folder(const std::string& path);

}  // namespace detail
}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/io/impl/folders.ipp>
#endif
