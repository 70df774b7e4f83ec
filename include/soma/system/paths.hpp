#pragma once
// Paths of std::filesystem, whose narrow texts are not UTF-8 on every system. Apart from files.hpp,
// because <filesystem> is costly to include.

#include <soma/base/config.hpp>

#include <filesystem>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::system {

// A path from UTF-8, and UTF-8 with "/" between names from a path.
std::filesystem::path path_of(std::string_view text);
std::string text_of(const std::filesystem::path& path);

// The last name of an entry.
std::string name_of(const std::filesystem::directory_entry& entry);

}  // namespace SOMA_NAMESPACE::system

#ifndef SOMA_DISPATCH
#include <soma/system/impl/paths.ipp>
#endif
