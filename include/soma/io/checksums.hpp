#pragma once
// The checksums of a folder's files, kept beside them in checksums.txt: a line for each,
//   <XXH64, 16 hexadecimal digits>  <size in bytes>  <name>

#include <soma/io/atomic_file.hpp>
#include <soma/io/mapped_file.hpp>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <sys/stat.h>

// The hash is compiled into the unit: no library to link.
#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

namespace soma::detail {

inline constexpr std::string_view checksums_name = "checksums.txt";

inline std::string checksum_line(std::string_view name, std::span<const std::byte> content) {
  std::array<char, 16> digits;
  const std::uint64_t hash = XXH64(content.data(), content.size(), 0);
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), hash, 16).ptr;
  std::string line(static_cast<std::size_t>(digits.data() + digits.size() - end), '0');
  line.append(digits.data(), end).append("  ").append(std::to_string(content.size()));
  return line.append("  ").append(name).append("\n");
}

// Computed from the file as read back. Error file.read.
inline std::string checksum_line_of(std::string_view operation, const std::string& folder,
                                    std::string_view name) {
  return checksum_line(name,
                       MappedFile::open(operation, folder + "/" + std::string(name))->bytes());
}

// The problem with the folder's files, as part of a sentence; empty if they match their checksums.
// Costs reading all of them. Error file.read: a file exists and cannot be read.
inline std::string checksum_problem(std::string_view operation, const std::string& folder,
                                    std::span<const std::string> names) {
  const auto there = [&](std::string_view name) {
    struct stat known {};
    return ::stat((folder + "/" + std::string(name)).c_str(), &known) == 0 &&
           S_ISREG(known.st_mode);
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

}  // namespace soma::detail
