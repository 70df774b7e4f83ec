#pragma once
// MappedFile: the bytes of a file as read-only memory, fetched from the disk when they are touched.
// POSIX.

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

namespace soma {

// If another process truncates a mapped file, the next access ends the program (SIGBUS), as with
// any mapping; replacing the file by rename (AtomicFile) is harmless.
class MappedFile {
 public:
  // `operation` names the caller in messages. Error file.read.
  static std::shared_ptr<const MappedFile> open(std::string_view operation, std::string_view path) {
    return std::make_shared<const MappedFile>(Key{}, operation, path);
  }

  std::span<const std::byte> bytes() const { return {data_, size_}; }

  ~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

 private:
  struct Key {};

 public:
  MappedFile(Key, std::string_view operation, std::string_view path) {
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

 private:
  struct Closing {
    int descriptor;
    ~Closing() { ::close(descriptor); }
  };

  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace soma
