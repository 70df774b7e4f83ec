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

// The hash is compiled into the unit: no library to link.
#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

namespace SOMA_NAMESPACE::detail {

inline constexpr std::string_view checksums_name = "checksums.txt";

// Gives the file's pages back as it reads on: a checkpoint may be as large as memory.
std::string checksum_line(std::string_view name, const MappedFile& file);

// Computed from the file as read back. Error file.read.
std::string checksum_line_of(std::string_view operation, const std::string& folder,
                             std::string_view name);

// The problem with the folder's files, as part of a sentence; empty if they match their checksums.
// Costs reading all of them. Error file.read: a file exists and cannot be read.
std::string checksum_problem(std::string_view operation, const std::string& folder,
                             std::span<const std::string> names);

}  // namespace SOMA_NAMESPACE::detail

#ifndef SOMA_DISPATCH
#include <soma/io/impl/checksums.ipp>
#endif
