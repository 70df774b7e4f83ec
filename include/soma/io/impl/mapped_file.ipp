#pragma once
// The functions of mapped_file.hpp.

#include <soma/io/mapped_file.hpp>

#include <soma/base/file_error.hpp>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace SOMA_NAMESPACE {

SOMA_INLINE std::shared_ptr<const MappedFile> MappedFile::open(std::string_view operation,
                                                               std::string_view path) {
  return std::make_shared<const MappedFile>(Key{}, operation, path);
}

SOMA_INLINE std::span<const std::byte> MappedFile::bytes() const { return {data_, size_}; }

SOMA_INLINE MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

SOMA_INLINE MappedFile::MappedFile(Key, std::string_view operation, std::string_view path) {
  const auto failed = [&](std::string_view problem, int number) {
    detail::file_failed(error_id::file_read, operation, path, problem, number,
                        "a file that can be read");
  };
  if (path.find('\0') != std::string_view::npos) failed("no path", 0);
  // Not blocking: opening a pipe would wait for its writer.
  const int descriptor = ::open(std::string(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) failed("cannot open", errno);
  const Closing closing{descriptor};
  struct stat known {};
  if (::fstat(descriptor, &known) != 0) failed("cannot ask for its size", errno);
  if (!S_ISREG(known.st_mode)) failed("not a regular file", 0);
  size_ = static_cast<std::size_t>(known.st_size);
  if (size_ == 0) return;  // mmap refuses it
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED) failed("cannot map", errno);
  data_ = static_cast<const std::byte*>(data);
}

SOMA_INLINE MappedFile::Closing::~Closing() { ::close(descriptor); }

}  // namespace SOMA_NAMESPACE
