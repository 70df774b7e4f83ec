#pragma once
// The functions of mapped_file.hpp.

#include <soma/io/mapped_file.hpp>

#include <soma/base/file_error.hpp>
#include <soma/system/files.hpp>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

SOMA_INLINE std::shared_ptr<const MappedFile> MappedFile::open(std::string_view operation,
                                                               std::string_view path) {
  return std::make_shared<const MappedFile>(Key{}, operation, path);
}

SOMA_INLINE std::span<const std::byte> MappedFile::bytes() const { return {data_, size_}; }

SOMA_INLINE MappedFile::~MappedFile() {
  if (data_ != nullptr) system::unmap(data_, size_);
}

SOMA_INLINE MappedFile::MappedFile(Key, std::string_view operation, std::string_view path) {
  const auto failed = [&](std::string_view problem, int number) {
    detail::file_failed(error_id::file_read, operation, path, problem, number,
                        "a file that can be read");
  };
  if (path.find('\0') != std::string_view::npos) failed("no path", 0);
  // Not blocking: opening a pipe would wait for its writer.
  const int descriptor = system::open_to_read(std::string(path));
  if (descriptor < 0) failed("cannot open", errno);
  const Closing closing{descriptor};
  const system::FileInfo known = system::info_of(descriptor);
  if (known.kind != system::FileKind::regular) failed("not a regular file", 0);
  size_ = static_cast<std::size_t>(known.bytes);
  if (size_ != known.bytes) failed("too large for memory", 0);
  if (size_ == 0) return;  // mmap refuses it
  data_ = system::map(descriptor, size_);
  if (data_ == nullptr) failed("cannot map", errno);
}

SOMA_INLINE MappedFile::Closing::~Closing() { system::close_file(descriptor); }

}  // namespace SOMA_NAMESPACE
