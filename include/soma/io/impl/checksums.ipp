#pragma once
// The functions of checksums.hpp.

#include <soma/io/checksums.hpp>

#include <soma/io/atomic_file.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/system/files.hpp>
#include <soma/system/mapped_pages.hpp>

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE std::string checksum_line(std::string_view name, const MappedFile& file) {
  constexpr std::size_t run = std::size_t{1} << 20;
  const std::span<const std::byte> content = file.bytes();
  XXH64_state_t state;
  XXH64_reset(&state, 0);
  for (std::size_t at = 0; at < content.size(); at += run) {
    const std::span<const std::byte> part =
        content.subspan(at, (std::min)(run, content.size() - at));
    XXH64_update(&state, part.data(), part.size());
    system::release_pages(part.data(), part.size());
  }
  const std::uint64_t hash = XXH64_digest(&state);
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), hash, 16).ptr;
  std::string line(static_cast<std::size_t>(digits.data() + digits.size() - end), '0');
  line.append(digits.data(), end).append("  ").append(std::to_string(content.size()));
  return line.append("  ").append(name).append("\n");
}

SOMA_INLINE std::string checksum_line_of(std::string_view operation, const std::string& folder,
                                         std::string_view name) {
  return checksum_line(name, *MappedFile::open(operation, folder + "/" + std::string(name)));
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
    const std::string line = checksum_line(name, *bytes_of(name));
    if (!rest.starts_with(line))
      return std::string("has a ").append(name).append(" that does not match its checksum");
    rest.remove_prefix(line.size());
  }
  return rest.empty() ? "" : "has a checksums.txt with more lines than files";
}

}  // namespace SOMA_NAMESPACE::detail
