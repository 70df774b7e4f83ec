#pragma once
// MappedFile: the bytes of a file as read-only memory, fetched from the disk when they are touched.
// On Windows they are a copy, because a mapped file cannot be replaced there.

#include <soma/base/file_error.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

// If another process truncates a mapped file, the next access ends the program (SIGBUS), as with
// any mapping; replacing the file by rename (AtomicFile) is harmless.
class MappedFile {
 public:
  // `operation` names the caller in messages. Error file.read.
  static std::shared_ptr<const MappedFile> open(std::string_view operation, std::string_view path);

  std::span<const std::byte> bytes() const;

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

 private:
  struct Key {};

 public:
  MappedFile(Key, std::string_view operation, std::string_view path);

 private:
  struct Closing {
    int descriptor;
    ~Closing();
  };

  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/io/impl/mapped_file.ipp>
#endif
