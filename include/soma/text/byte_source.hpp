#pragma once
// ByteSource: the bytes of a file one after the other, unpacked if they are gzip (which the content
// says, not the name), or of a text in memory. Needs zlib. POSIX.

#include <soma/base/file_error.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

namespace soma::text {

// What tells whether a file is still the one that was opened.
struct FileState {
  std::uint64_t device = 0, node = 0, bytes = 0;
  std::int64_t seconds = 0, nanoseconds = 0;  // of the last change
  friend bool operator==(const FileState&, const FileState&) = default;
};

class ByteSource {
 public:
  // `operation` names the caller in messages, and outlives the object. Error file.read.
  static ByteSource open(std::string_view operation, std::string_view path) {
    ByteSource source(operation, std::string(path));
    source.open_file();
    return source;
  }
  // The text outlives the object.
  static ByteSource of_memory(std::string_view operation, std::string_view text) {
    ByteSource source(operation, "memory");
    source.window_ = text;
    return source;
  }

  // The next byte, 0 to 255; -1 at the end. Errors file.read, text.file_gzip (damaged or cut
  // short), text.file_changed (another size or time of change at the end than at the beginning).
  int next() {
    if (at_ == window_.size() && !refill()) return -1;
    return static_cast<unsigned char>(window_[at_++]);
  }
  // The same without taking it.
  int peek() {
    if (at_ == window_.size() && !refill()) return -1;
    return static_cast<unsigned char>(window_[at_]);
  }
  // What is there of the following bytes: of a file at most buffer_bytes; empty at the end.
  std::string_view ahead() {
    if (at_ == window_.size()) refill();
    return window_.substr(at_);
  }
  void skip(std::size_t bytes) { at_ += bytes; }

  std::string_view operation() const { return operation_; }
  const std::string& name() const { return name_; }
  const FileState& state() const { return state_; }

  static constexpr std::size_t buffer_bytes = std::size_t{1} << 16;

 private:
  struct CloseFile {
    void operator()(gzFile file) const { gzclose_r(file); }
  };

  ByteSource(std::string_view operation, std::string name)
      : operation_(operation), name_(std::move(name)) {}

  void open_file() {
    if (name_.empty() || name_.find('\0') != std::string::npos) failed("no path", 0);
    // Not blocking: opening a pipe would wait for its writer.
    const int descriptor = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) failed("cannot open", errno);
    struct stat known {};
    const bool regular = ::fstat(descriptor, &known) == 0 && S_ISREG(known.st_mode);
    if (regular) file_.reset(gzdopen(descriptor, "rb"));
    if (file_ == nullptr) {
      ::close(descriptor);
      failed(regular ? "no memory for it" : "not a regular file", 0);
    }
    descriptor_ = descriptor;
    state_ = state_of(known);
    gzbuffer(file_.get(), static_cast<unsigned>(buffer_bytes));
    buffer_.resize(buffer_bytes);
  }

  bool refill() {
    if (file_ == nullptr) return false;
    const int read = gzread(file_.get(), buffer_.data(), static_cast<unsigned>(buffer_bytes));
    int problem = Z_OK;
    const std::string_view text = gzerror(file_.get(), &problem);
    if (problem == Z_ERRNO) failed("cannot read", errno);
    // Z_BUF_ERROR: the compressed data end too early; what there was is delivered all the same.
    if (read < 0 || problem != Z_OK)
      fail(error_id::text_file_gzip, operation_, "file",
           soma::quoted(name_) + " (" + std::string(text) + ")", "whole gzip data");
    window_ = {buffer_.data(), static_cast<std::size_t>(read)};
    at_ = 0;
    if (read == 0) check_unchanged();
    return read != 0;
  }
  void check_unchanged() {
    struct stat now {};
    if (::fstat(descriptor_, &now) == 0 && state_of(now) == state_) return;
    fail(error_id::text_file_changed, operation_, "file",
         soma::quoted(name_) + ", which was written to while it was read", "a file that rests");
  }

  static FileState state_of(const struct stat& known) {
    return {static_cast<std::uint64_t>(known.st_dev), static_cast<std::uint64_t>(known.st_ino),
            static_cast<std::uint64_t>(known.st_size), known.st_mtim.tv_sec, known.st_mtim.tv_nsec};
  }
  [[noreturn]] void failed(std::string_view problem, int number) const {
    soma::detail::file_failed(error_id::file_read, operation_, name_, problem, number,
                              "a file that can be read");
  }

  std::string_view operation_;
  std::string name_;
  std::unique_ptr<gzFile_s, CloseFile> file_;
  int descriptor_ = -1;  // the file's, which closes it
  FileState state_;
  std::vector<char> buffer_;
  std::string_view window_;  // of the buffer, or the text in memory
  std::size_t at_ = 0;
};

}  // namespace soma::text
