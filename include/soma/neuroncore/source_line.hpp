#pragma once
// SourceLine: the line of a program that issued an instruction or made a tile.

#include <soma/base/config.hpp>

#include <cstdint>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore {

// `file` is a literal; in a record it has no folders.
struct SourceLine {
  const char* file = "";
  std::uint32_t line = 0;

  friend bool operator==(const SourceLine& a, const SourceLine& b) {
    return a.line == b.line && std::string_view(a.file) == b.file;
  }
};

// As the default argument of a function: the line that calls it.
constexpr SourceLine calling_line(const char* file = __builtin_FILE(),
                                  std::uint32_t line = __builtin_LINE()) {
  return {file, line};
}
// The part of a path behind its last slash, of either kind.
constexpr const char* without_folders(const char* file) {
  const char* name = file;
  for (; *file != '\0'; ++file)
    if (*file == '/' || *file == '\\') name = file + 1;
  return name;
}

}  // namespace SOMA_NAMESPACE::neuroncore
