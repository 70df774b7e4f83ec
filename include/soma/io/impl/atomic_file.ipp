#pragma once
// The functions of atomic_file.hpp.

#include <soma/io/atomic_file.hpp>

#include <soma/base/file_error.hpp>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE void synchronise_folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  static_cast<void>(::fsync(descriptor));
  ::close(descriptor);
}

SOMA_INLINE std::uint64_t time_of_day() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE std::string partial_name(const std::string& path) {
  static std::atomic<std::uint64_t> counter{detail::time_of_day()};
  return path + "." + std::to_string(::getpid()) + "." + std::to_string(counter.fetch_add(1)) +
         ".partial";
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
  struct stat known {};
  if (path_.empty() || path_.find('\0') != std::string::npos) failed("no path", 0);
  // The rename would replace a device or a pipe by a file.
  if (::stat(path_.c_str(), &known) == 0 && !S_ISREG(known.st_mode))
    failed("not a regular file", 0);
  buffer_.reserve(buffer_bytes);
  std::string partial;
  do {
    partial = soma::partial_name(path_);
    descriptor_ = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && (errno == EEXIST || errno == EINTR));
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
  if (::fsync(descriptor_) != 0) failed("cannot synchronise", errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) failed("cannot close", errno);
  if (::rename(partial_.c_str(), path_.c_str()) != 0) failed("cannot rename", errno);
  partial_.clear();
  detail::synchronise_folder_of(path_);
}

SOMA_INLINE void AtomicFile::flush() {
  write_through(buffer_);
  buffer_.clear();
}

SOMA_INLINE void AtomicFile::write_through(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) failed("cannot write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

SOMA_INLINE void AtomicFile::abandon() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  if (!partial_.empty()) ::unlink(partial_.c_str());
  partial_.clear();
}

SOMA_INLINE void AtomicFile::failed(std::string_view problem, int number) {
  abandon();
  detail::file_failed(error_id::file_write, operation_, path_, problem, number,
                      "a file that can be written");
}

}  // namespace SOMA_NAMESPACE
