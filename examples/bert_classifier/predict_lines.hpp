// The lines of a file or of standard input, as they arrive. A signal ends the wait for the next
// line.
#pragma once

#include <soma/base/error.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

class LineReader {
 public:
  // "-" is standard input. Error file.read.
  explicit LineReader(std::string name) : name_(std::move(name)) {
    // Non-blocking: opening a pipe would wait for its writer, even after a signal.
    if (name_ != "-") file_ = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file_ < 0) failed();
  }
  ~LineReader() {
    if (file_ != STDIN_FILENO) ::close(file_);
  }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Reads the next line without its end; returns false at the end, or if `stop()` becomes true
  // during a wait. Error file.read.
  template <class Stop>
  bool next(std::string& line, const Stop& stop) {
    line.clear();
    for (bool some = false; !stop();) {
      const std::string_view rest = buffered();
      const std::size_t end = rest.find('\n');
      line.append(rest.substr(0, end));
      some = some || !rest.empty();
      at_ += end == rest.npos ? rest.size() : end + 1;
      if (end != rest.npos || (ended_ && some)) {
        if (line.ends_with('\r')) line.pop_back();
        return true;
      }
      if (ended_) return false;
      if (readable(wait_milliseconds)) read();
    }
    return false;
  }
  // True if the rest of the next line has not arrived yet.
  bool must_wait() {
    if (buffered().find('\n') != std::string_view::npos || ended_) return false;
    return !readable(0);
  }

 private:
  static constexpr int wait_milliseconds = 50;  // between two calls of stop()

  std::string_view buffered() const { return {buffer_.data() + at_, size_ - at_}; }
  bool readable(int milliseconds) {
    pollfd waiting{.fd = file_, .events = POLLIN, .revents = 0};
    return ::poll(&waiting, 1, milliseconds) > 0;
  }
  // Reads behind the consumed part. The caller repeats an interrupted wait.
  void read() {
    const auto count = ::read(file_, buffer_.data(), buffer_.size());
    if (count < 0 && errno != EINTR && errno != EAGAIN) failed();
    at_ = 0;
    size_ = count > 0 ? static_cast<std::size_t>(count) : 0;
    ended_ = count == 0;
  }
  [[noreturn]] void failed() const {
    soma::fail(soma::error_id::file_read, "predict", "file", soma::quoted(name_),
               "a file that can be read");
  }

  std::string name_;
  int file_ = STDIN_FILENO;
  std::array<char, std::size_t{1} << 16> buffer_{};
  std::size_t at_ = 0, size_ = 0;
  bool ended_ = false;
};
