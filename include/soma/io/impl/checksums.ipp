#pragma once
// The functions of checksums.hpp.

#include <soma/io/checksums.hpp>

#include <soma/io/atomic_file.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/system/files.hpp>

#include <xxhash.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE std::string checksum_line(std::string_view name, std::span<const std::byte> content) {
  std::array<char, 16> digits;
  const std::uint64_t hash = XXH64(content.data(), content.size(), 0);
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), hash, 16).ptr;
  std::string line(static_cast<std::size_t>(digits.data() + digits.size() - end), '0');
  line.append(digits.data(), end).append("  ").append(std::to_string(content.size()));
  return line.append("  ").append(name).append("\n");
}

SOMA_INLINE std::string checksum_line_of(std::string_view operation, const std::string& folder,
                                         std::string_view name) {
  return checksum_line(name,
                       MappedFile::open(operation, folder + "/" + std::string(name))->bytes());
}

SOMA_INLINE std::string checksum_problem(std::string_view operation, const std::string& folder,
                                         std::span<const std::string> names) {
  const auto there = [&](std::string_view name) {
    return system::is_regular(folder + "/" + std::string(name));
  };
  const auto bytes_of = [&](std::string_view name) {
    return MappedFile::open(operation, folder + "/" + std::string(name));
  };
  if (!there(checksums_name)) return "has no checksums.txt";
  const auto list = bytes_of(checksums_name);
  std::string_view rest(reinterpret_cast<const char*>(list->bytes().data()), list->bytes().size());
  for (const std::string& name : names) {
    if (!there(name)) return "has no " + name;
    const std::string line = checksum_line(name, bytes_of(name)->bytes());
    if (!rest.starts_with(line))
      return std::string("has a ").append(name).append(" that does not match its checksum");
    rest.remove_prefix(line.size());
  }
  return rest.empty() ? "" : "has a checksums.txt with more lines than files";
}

}  // namespace SOMA_NAMESPACE::detail
