#pragma once
// The functions of atomic_file.hpp.

#include <soma/io/atomic_file.hpp>

#include <soma/base/file_error.hpp>
#include <soma/system/clock.hpp>
#include <soma/system/files.hpp>
#include <soma/system/process.hpp>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE std::string partial_name(const std::string& path) {
  static std::atomic<std::uint64_t> counter{static_cast<std::uint64_t>(system::time_of_day())};
  return path + "." + std::to_string(system::process_number()) + "." +
         std::to_string(counter.fetch_add(1)) + ".partial";
}

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE std::string_view whole_name(std::string_view name) {
  constexpr std::string_view ending = ".partial";
  if (!name.ends_with(ending)) return {};
  name.remove_suffix(ending.size());
  for (int numbers = 0; numbers < 2; ++numbers) {
    const std::size_t dot = name.rfind('.');
    if (dot == name.npos || dot + 1 == name.size() ||
        name.find_first_not_of("0123456789", dot + 1) != name.npos)
      return {};
    name = name.substr(0, dot);
  }
  return name;
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE AtomicFile::AtomicFile(std::string_view operation, std::string_view path)
    : operation_(operation), path_(path) {
  if (path_.empty() || path_.find('\0') != std::string::npos) failed("no path", 0);
  // The rename would replace a device or a pipe by a file.
  if (const system::FileKind kind = system::info_of(path_).kind;
      kind != system::FileKind::none && kind != system::FileKind::regular)
    failed("not a regular file", 0);
  buffer_.reserve(buffer_bytes);
  std::string partial;
  do {
    partial = soma::partial_name(path_);
    descriptor_ = system::create_file(partial);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) failed("cannot create a file beside it", errno);
  partial_.swap(partial);
}

SOMA_INLINE AtomicFile::~AtomicFile() { abandon(); }

SOMA_INLINE void AtomicFile::write(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() <= buffer_bytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return;
  }
  flush();
  if (bytes.size() < buffer_bytes)
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  else
    write_through(bytes);
}

SOMA_INLINE void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

SOMA_INLINE void AtomicFile::commit() {
  flush();
  if (!system::synchronise(descriptor_)) failed("cannot synchronise", errno);
  if (!system::close_file(std::exchange(descriptor_, -1))) failed("cannot close", errno);
  if (!system::rename_over(partial_, path_)) failed("cannot rename", errno);
  partial_.clear();
  system::synchronise_folder_of(path_);
}

SOMA_INLINE void AtomicFile::flush() {
  write_through(buffer_);
  buffer_.clear();
}

SOMA_INLINE void AtomicFile::write_through(std::span<const std::byte> bytes) {
  if (!system::write_all(descriptor_, bytes.data(), bytes.size())) failed("cannot write", errno);
}

SOMA_INLINE void AtomicFile::abandon() noexcept {
  if (descriptor_ >= 0) system::close_file(std::exchange(descriptor_, -1));
  if (!partial_.empty()) system::remove_file(partial_);
  partial_.clear();
}

SOMA_INLINE void AtomicFile::failed(std::string_view problem, int number) {
  abandon();
  detail::file_failed(error_id::file_write, operation_, path_, problem, number,
                      "a file that can be written");
}

}  // namespace SOMA_NAMESPACE
