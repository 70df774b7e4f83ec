#pragma once
// The functions of executable_files.hpp.

#include <soma/io/executable_files.hpp>

#include <soma/base/version.hpp>
#include <soma/io/atomic_file.hpp>
#include <soma/io/checksums.hpp>
#include <soma/io/folders.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/programs/graph/executables.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE std::string version_text() {
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
         std::to_string(version.patch);
}

SOMA_INLINE std::string executable_bytes(const Executable& executable, std::string_view machine) {
  std::string bytes(executable_magic);
  const auto number = [&bytes](std::uint64_t value) {
    for (int i = 0; i < 64; i += 8) bytes.push_back(static_cast<char>(value >> i & 255));
  };
  const auto text = [&](std::string_view value) {
    number(value.size());
    bytes.append(value);
  };
  text(version_text());
  text(machine);
  number(executable.calls);
  number(executable.instructions);
  number(executable.stream);
  number(std::bit_cast<std::uint64_t>(executable.predicted.ns));
  for (const double busy : executable.predicted.busy_ns) number(std::bit_cast<std::uint64_t>(busy));
  number(executable.peak_bytes);
  number(executable.operators.size());
  for (const std::string& name : executable.operators) text(name);
  text(executable.key.bytes());
  number(XXH64(bytes.data(), bytes.size(), 0));
  return bytes;
}

SOMA_INLINE ExecutableReader::ExecutableReader(std::string_view path, std::string_view bytes)
    : path_(path), left_(bytes) {
  if (bytes.size() < executable_magic.size() + 8 || !bytes.starts_with(executable_magic))
    corrupt("not begun as one");
  left_.remove_suffix(8);
  std::string_view end = bytes.substr(left_.size());
  const std::uint64_t hash = XXH64(left_.data(), left_.size(), 0);
  left_.remove_prefix(executable_magic.size());
  std::swap(left_, end);
  const std::uint64_t stored = number();
  std::swap(left_, end);
  if (hash != stored) corrupt("changed or cut short: its checksum differs");
}

SOMA_INLINE std::uint64_t ExecutableReader::number() {
  if (left_.size() < 8) corrupt("cut short");
  std::uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;) value = value << 8 | static_cast<unsigned char>(left_[i]);
  left_.remove_prefix(8);
  return value;
}

SOMA_INLINE std::string ExecutableReader::text() {
  const std::uint64_t size = number();
  if (size > left_.size()) corrupt("cut short");
  std::string value(left_.substr(0, static_cast<std::size_t>(size)));
  left_.remove_prefix(static_cast<std::size_t>(size));
  return value;
}

SOMA_INLINE void ExecutableReader::end() const {
  if (!left_.empty()) corrupt("longer than what it holds");
}

SOMA_INLINE void ExecutableReader::refuse(ErrorId id, std::string_view given,
                                          std::string_view wanted) const {
  fail(id, "load_executables", "file", soma::quoted(path_).append(" (").append(given) + ")",
       wanted);
}

SOMA_INLINE void ExecutableReader::corrupt(std::string_view problem) const {
  refuse(error_id::executable_corrupt, problem, "an executable as it was written");
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE void save_executables(const std::string& folder, const ExecutableCache& cache,
                                  std::string_view machine) {
  soma::make_folders("save_executables", folder);
  for (const Executable& executable : cache.executables()) {
    const std::string& key = executable.key.bytes();
    const std::uint64_t hash = XXH64(key.data(), key.size(), 0);
    std::string name;
    for (int i = 60; i >= 0; i -= 4) name.push_back("0123456789abcdef"[hash >> i & 15]);
    AtomicFile file("save_executables",
                    folder + "/" + name + std::string(detail::executable_suffix));
    file.write(detail::executable_bytes(executable, machine));
    file.commit();
  }
}

}  // namespace SOMA_NAMESPACE
