#pragma once
// AppendFile: a file that grows by complete pieces, such as the lines of a log.

#include <soma/base/file_error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE {

enum class ExistingFile : unsigned char {
  append,   // goes on behind what is there
  replace,  // begins with an empty file
  refuse,   // an error
};

// One writer at a time, of all processes: a file that another writer has open is refused, where the
// system can lock files. Errors file.write.
class AppendFile {
 public:
  // `operation` names the caller in messages, and must outlive the object.
  AppendFile(std::string_view operation, std::string_view path, ExistingFile existing);
  ~AppendFile();
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;

  // Passes the piece to the system: it survives if the process is killed. On error the file keeps
  // its former content, if the system allows it.
  void write(std::string_view piece);
  // The same; returns the number of errno, or 0.
  int try_write(std::string_view piece) noexcept;
  // Flushes the file to the disk: it survives a loss of power.
  void synchronise();

  std::size_t size() const;
  // The last byte; 0 if the file is empty or cannot be read.
  char last() const;
  const std::string& path() const { return path_; }

 private:
  static constexpr std::string_view wanted = "a file that can be written";

  void close() noexcept;
  [[noreturn]] void failed(std::string_view problem, int number);

  std::string_view operation_;
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/io/impl/append_file.ipp>
#endif
