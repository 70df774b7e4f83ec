#pragma once
// The functions of byte_source.hpp.

#include <soma/text/byte_source.hpp>

#include <soma/base/file_error.hpp>
#include <soma/runtime/stop_flag.hpp>

#include <zlib.h>

#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE ByteSource ByteSource::open(std::string_view operation, std::string_view path,
                                        const StopFlag* stop, ReadAhead ahead) {
  ByteSource source(operation, std::string(path));
  source.stop_ = stop;
  source.open_file();
  if (ahead == ReadAhead::no || source.unpacker_ == nullptr) return source;
  ByteSource reader(operation, source.name_);
  reader.state_ = source.state_;
  reader.ahead_ = std::make_unique<Ahead>(std::move(source));
  return reader;
}

SOMA_INLINE ByteSource ByteSource::of_memory(std::string_view operation, std::string_view text) {
  ByteSource source(operation, "memory");
  source.window_ = text;
  return source;
}

SOMA_INLINE int ByteSource::next() {
  if (at_ == window_.size() && !refill()) return -1;
  return static_cast<unsigned char>(window_[at_++]);
}

SOMA_INLINE int ByteSource::peek() {
  if (at_ == window_.size() && !refill()) return -1;
  return static_cast<unsigned char>(window_[at_]);
}

SOMA_INLINE std::string_view ByteSource::ahead() {
  if (at_ == window_.size()) refill();
  return window_.substr(at_);
}

SOMA_INLINE ByteSource::File::~File() { ::close(descriptor); }

SOMA_INLINE bool ByteSource::Unpacker::start() {
  return started = inflateInit2(&stream, MAX_WBITS + 16) == Z_OK;
}

SOMA_INLINE ByteSource::Unpacker::~Unpacker() {
  if (started) inflateEnd(&stream);
}

SOMA_INLINE ByteSource::Ahead::Ahead(ByteSource source)
    : source_(std::make_unique<ByteSource>(std::move(source))) {
#if SOMA_HAS_EXCEPTIONS
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    fail(error_id::thread_start, source_->operation_, "thread",
         std::string("refused by the system (") + error.what() + ")", "one thread");
  }
#else
  thread_ = std::thread([this] { work(); });
#endif
}

SOMA_INLINE ByteSource::Ahead::~Ahead() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  room_.notify_one();
  thread_.join();
}

SOMA_INLINE std::string_view ByteSource::Ahead::take(std::vector<char>& buffer) {
  std::unique_lock lock(mutex_);
  filled_.wait(lock, [this] { return ready_ != 0 || ended_; });
  if (ready_ == 0) {
    if (problem_) std::rethrow_exception(problem_);
    return {};
  }
  Block& block = blocks_[first_];
  block.bytes.swap(buffer);
  const std::size_t count = block.count;
  first_ = (first_ + 1) % std::size(blocks_);
  --ready_;
  lock.unlock();
  room_.notify_one();
  return {buffer.data(), count};
}

SOMA_INLINE bool ByteSource::Ahead::make(Block& block) {
  if (!source_->refill()) return false;
  block.count = source_->window_.size();
  block.bytes.swap(source_->buffer_);
  source_->buffer_.resize(buffer_bytes);
  return true;
}

SOMA_INLINE void ByteSource::Ahead::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    room_.wait(lock, [this] { return stopping_ || ready_ < std::size(blocks_); });
    if (stopping_) return;
    Block& block = blocks_[(first_ + ready_) % std::size(blocks_)];
    lock.unlock();
    bool more = false;
    std::exception_ptr problem;
#if SOMA_HAS_EXCEPTIONS
    try {
      more = make(block);
    } catch (...) {
      problem = std::current_exception();
    }
#else
    more = make(block);
#endif
    lock.lock();
    if (more) ++ready_;
    ended_ = !more;
    problem_ = problem;
    filled_.notify_one();
    if (!more) return;
  }
}

SOMA_INLINE void ByteSource::open_file() {
  if (name_.empty() || name_.find('\0') != std::string::npos) failed("no path", 0);
  // Not blocking: opening a pipe would wait for its writer.
  const int descriptor = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) failed("cannot open", errno);
  file_ = std::make_unique<File>(descriptor);
  struct stat known {};
  if (::fstat(descriptor, &known) != 0 || !S_ISREG(known.st_mode)) failed("not a regular file", 0);
  state_ = state_of(known);
  buffer_.resize(buffer_bytes);
  const std::size_t count = read(buffer_.data());
  if (std::string_view(buffer_.data(), count).starts_with(gzip_mark)) {
    unpacker_ = std::make_unique<Unpacker>();
    if (!unpacker_->start()) failed("no memory for it", 0);
    unpacker_->packed.assign(buffer_bytes, 0);
    unpacker_->packed.swap(buffer_);
    take_packed(count);
  } else {
    window_ = {buffer_.data(), count};
  }
}

SOMA_INLINE std::size_t ByteSource::read(char* bytes) {
  check_stop(stop_, operation_);
  std::size_t count = 0;
  while (count < buffer_bytes) {
    const auto more = ::read(file_->descriptor, bytes + count, buffer_bytes - count);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) failed("cannot read", errno);
    if (more == 0) break;
    count += static_cast<std::size_t>(more);
  }
  return count;
}

SOMA_INLINE bool ByteSource::refill() {
  if (ahead_ != nullptr) {
    window_ = ahead_->take(buffer_);
    at_ = 0;
    return !window_.empty();
  }
  if (file_ == nullptr) return false;
  check_stop(stop_, operation_);  // a few packed bytes can hold many
  const std::size_t count = unpacker_ == nullptr ? read(buffer_.data()) : unpack();
  window_ = {buffer_.data(), count};
  at_ = 0;
  if (count == 0) check_unchanged();
  return count != 0;
}

SOMA_INLINE void ByteSource::take_packed(std::size_t count) {
  unpacker_->stream.next_in = reinterpret_cast<Bytef*>(unpacker_->packed.data());
  unpacker_->stream.avail_in = static_cast<uInt>(count);
}

SOMA_INLINE bool ByteSource::has_packed() {
  if (unpacker_->stream.avail_in == 0) take_packed(read(unpacker_->packed.data()));
  return unpacker_->stream.avail_in != 0;
}

SOMA_INLINE std::size_t ByteSource::unpack() {
  z_stream& stream = unpacker_->stream;
  stream.next_out = reinterpret_cast<Bytef*>(buffer_.data());
  stream.avail_out = static_cast<uInt>(buffer_bytes);
  while (stream.avail_out != 0) {
    if (!has_packed()) {
      if (!unpacker_->between) damaged("it ends too early");
      break;
    }
    if (unpacker_->between && !begin_member()) break;
    const int result = inflate(&stream, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) failed("no memory for it", 0);
    unpacker_->between = result == Z_STREAM_END;
    if (result != Z_OK && result != Z_STREAM_END)
      damaged(stream.msg == nullptr ? "it needs a dictionary" : stream.msg);
  }
  return buffer_bytes - stream.avail_out;
}

SOMA_INLINE bool ByteSource::begin_member() {
  z_stream& stream = unpacker_->stream;
  if (*stream.next_in == static_cast<Bytef>(gzip_mark.front())) {
    inflateReset(&stream);
    return true;
  }
  while (has_packed())
    for (; stream.avail_in != 0; --stream.avail_in)
      if (*stream.next_in++ != 0) damaged("what follows its first data is not gzip");
  return false;
}

SOMA_INLINE void ByteSource::damaged(std::string_view problem) const {
  fail(error_id::text_file_gzip, operation_, "file",
       soma::quoted(name_).append(" (").append(problem).append(")"), "whole gzip data");
}

SOMA_INLINE void ByteSource::check_unchanged() {
  struct stat now {};
  if (::fstat(file_->descriptor, &now) == 0 && state_of(now) == state_) return;
  fail(error_id::text_file_changed, operation_, "file",
       soma::quoted(name_) + ", which was written to while it was read", "a file that rests");
}

SOMA_INLINE FileState ByteSource::state_of(const struct stat& known) {
  return {static_cast<std::uint64_t>(known.st_dev), static_cast<std::uint64_t>(known.st_ino),
          static_cast<std::uint64_t>(known.st_size), known.st_mtim.tv_sec, known.st_mtim.tv_nsec};
}

SOMA_INLINE void ByteSource::failed(std::string_view problem, int number) const {
  soma::detail::file_failed(error_id::file_read, operation_, name_, problem, number,
                            "a file that can be read");
}

}  // namespace SOMA_NAMESPACE::text
