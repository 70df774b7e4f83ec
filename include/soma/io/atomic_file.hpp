#pragma once
// AtomicFile: a file that appears under its name when it is complete, or not at all. The file is
// written under a temporary name beside its place, flushed to the disk, and renamed. POSIX.

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

namespace soma {

namespace detail {

// A new name survives a loss of power only if its folder is on the disk as well. Some file systems
// cannot flush a folder, and need not.
inline void synchronise_folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  static_cast<void>(::fsync(descriptor));
  ::close(descriptor);
}

// Nanoseconds of the real-time clock, which also runs while no program does.
inline std::uint64_t time_of_day() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace detail

// A unique name beside `path` that shows its purpose. In containers every process may have the same
// number: the time distinguishes it from processes that ended before.
inline std::string partial_name(const std::string& path) {
  static std::atomic<std::uint64_t> counter{detail::time_of_day()};
  return path + "." + std::to_string(::getpid()) + "." + std::to_string(counter.fetch_add(1)) +
         ".partial";
}

namespace detail {

// The name for which `name` is a partial_name(); empty if it is none.
inline std::string_view whole_name(std::string_view name) {
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

}  // namespace detail

// Replaces a file of that name; replaces a symbolic link itself, not the file behind it. Errors
// file.write.
class AtomicFile {
 public:
  // `operation` names the caller in messages, and must outlive the object.
  explicit AtomicFile(std::string_view operation, std::string_view path)
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
  // Without commit() nothing remains.
  ~AtomicFile() { abandon(); }
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes) {
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
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

  // Afterwards the file is on the disk under its name, and no further writes are possible.
  void commit() {
    flush();
    if (::fsync(descriptor_) != 0) failed("cannot synchronise", errno);
    if (::close(std::exchange(descriptor_, -1)) != 0) failed("cannot close", errno);
    if (::rename(partial_.c_str(), path_.c_str()) != 0) failed("cannot rename", errno);
    partial_.clear();
    detail::synchronise_folder_of(path_);
  }

 private:
  static constexpr std::size_t buffer_bytes = std::size_t{1} << 16;

  void flush() {
    write_through(buffer_);
    buffer_.clear();
  }
  void write_through(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) failed("cannot write", errno);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }
  void abandon() noexcept {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
    if (!partial_.empty()) ::unlink(partial_.c_str());
    partial_.clear();
  }
  [[noreturn]] void failed(std::string_view problem, int number) {
    abandon();
    detail::file_failed(error_id::file_write, operation_, path_, problem, number,
                        "a file that can be written");
  }

  std::string_view operation_;
  std::string path_, partial_;  // empty: no such file
  int descriptor_ = -1;
  std::vector<std::byte> buffer_;
};

}  // namespace soma
