#pragma once
// AtomicFile: a file that appears under its name when it is complete, or not at all. The file is
// written under a temporary name beside its place, flushed to the disk, and renamed.

#include <soma/base/file_error.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

// A unique name beside `path` that shows its purpose. In containers every process may have the same
// number: the time distinguishes it from processes that ended before.
std::string partial_name(const std::string& path);

namespace detail {

// The name for which `name` is a partial_name(); empty if it is none.
std::string_view whole_name(std::string_view name);

}  // namespace detail

// Replaces a file of that name; replaces a symbolic link itself, not the file behind it. Errors
// file.write.
class AtomicFile {
 public:
  // `operation` names the caller in messages, and must outlive the object.
  explicit AtomicFile(std::string_view operation, std::string_view path);
  // Without commit() nothing remains.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  // Afterwards the file is on the disk under its name, and no further writes are possible.
  void commit();

 private:
  static constexpr std::size_t buffer_bytes = std::size_t{1} << 16;

  void flush();
  void write_through(std::span<const std::byte> bytes);
  void abandon() noexcept;
  [[noreturn]] void failed(std::string_view problem, int number);

  std::string_view operation_;
  std::string path_, partial_;  // empty: no such file
  int descriptor_ = -1;
  std::vector<std::byte> buffer_;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/io/impl/atomic_file.ipp>
#endif
