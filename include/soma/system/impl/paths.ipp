#pragma once
// The functions of paths.hpp.

#include <soma/system/paths.hpp>

#include <soma/base/config.hpp>
#include <soma/system/which.hpp>

#include <filesystem>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::system {

SOMA_INLINE std::filesystem::path path_of(std::string_view text) {
#if SOMA_WINDOWS
  return std::u8string(text.begin(), text.end());
#else
  return text;
#endif
}

SOMA_INLINE std::string text_of(const std::filesystem::path& path) {
#if SOMA_WINDOWS
  const std::u8string text = path.generic_u8string();
  return {text.begin(), text.end()};
#else
  return path.string();
#endif
}

SOMA_INLINE std::string name_of(const std::filesystem::directory_entry& entry) {
  return text_of(entry.path().filename());
}

}  // namespace SOMA_NAMESPACE::system
