#pragma once
// The functions of process_start.hpp.

#include <soma/io/status/process_start.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE std::optional<std::uint64_t> process_start(std::uint64_t process) {
  std::FILE* file = std::fopen(("/proc/" + std::to_string(process) + "/stat").c_str(), "re");
  if (file == nullptr) return std::nullopt;
  char text[1024];
  const std::size_t size = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[size] = '\0';
  // The name, in parentheses, may contain anything: fields count from the last parenthesis.
  const char* field = std::strrchr(text, ')');
  if (field == nullptr || field[1] == '\0' || field[2] == 'Z' || field[2] == 'X')
    return std::nullopt;
  for (int number = 2; number < 22 && field != nullptr; ++number)
    field = std::strchr(field + 1, ' ');
  if (field == nullptr) return std::nullopt;
  return std::strtoull(field, nullptr, 10);
}

}  // namespace SOMA_NAMESPACE::detail
