#pragma once
// The functions of byte_source.hpp.

#include <soma/text/byte_source.hpp>

#include <soma/base/file_error.hpp>
#include <soma/runtime/stop_flag.hpp>
#include <soma/system/files.hpp>
#include <soma/system/threads.hpp>
#include <soma/text/utf8.hpp>

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE ByteSource ByteSource::open(std::string_view operation, std::string_view path,
                                        const StopFlag* stop, ReadAhead ahead) {
  ByteSource source(operation, std::string(path));
  source.stop_ = stop;
  source.open_file();
  if (ahead == ReadAhead::no || !system::has_threads || source.unpacker_ == nullptr || source.once_)
    return source;
  ByteSource reader(operation, source.name_);
  reader.state_ = source.state_;
  reader.ahead_ = std::make_unique<Ahead>(std::move(source));
  return reader;
}

SOMA_INLINE ByteSource ByteSource::of_memory(std::string_view operation, std::string_view text,
                                             std::string name) {
  ByteSource source(operation, std::move(name));
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

SOMA_INLINE bool ByteSource::is_pipe(std::string_view path) {
  return path == "-" || system::info_of(std::string(path)).kind == system::FileKind::pipe;
}

SOMA_INLINE ByteSource ByteSource::of_file_bytes(std::string_view operation, std::string_view bytes,
                                                 std::string name) {
  ByteSource source(operation, std::move(name));
  source.raw_ = bytes;
  source.begin_file();
  return source;
}

SOMA_INLINE std::string ByteSource::rest(std::size_t most) {
  std::string text;
  for (std::string_view part = ahead(); !part.empty() && text.size() <= most; part = ahead()) {
    text.append(part);
    skip(part.size());
  }
  return text;
}

SOMA_INLINE bool ByteSource::must_wait() const {
  if (!once_ || ended_) return false;
  if (wide_ != nullptr && wide_->count - wide_->at > 1) return false;
  if (unpacker_ != nullptr && unpacker_->stream.avail_in != 0) return false;
  return !is_ready(0);
}

SOMA_INLINE std::string_view ByteSource::held() const { return window_.substr(at_); }

SOMA_INLINE ByteSource::File::~File() {
  if (descriptor != system::standard_input()) system::close_file(descriptor);
}

SOMA_INLINE bool ByteSource::Unpacker::start() {
  return started = inflateInit2(&stream, MAX_WBITS + 16) == Z_OK;
}

SOMA_INLINE ByteSource::Unpacker::~Unpacker() {
  if (started) inflateEnd(&stream);
}

SOMA_INLINE ByteSource::Ahead::Ahead(ByteSource source)
    : source_(std::make_unique<ByteSource>(std::move(source))) {
  const auto begin = [](void* self) -> void* {
    static_cast<Ahead*>(self)->work();
    return nullptr;
  };
  if (const int error = thread_.start(begin, this); error != 0)
    fail(error_id::thread_start, source_->operation_, "thread",
         std::string("refused by the system (").append(std::strerror(error)).append(")"),
         "one thread");
}

SOMA_INLINE ByteSource::Ahead::~Ahead() {
  {
    const Mutex::Lock lock(mutex_);
    stopping_ = true;
  }
  room_.notify_one();
  thread_.join();
}

SOMA_INLINE std::string_view ByteSource::Ahead::take(std::vector<char>& buffer) {
  Mutex::Lock lock(mutex_);
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
  Mutex::Lock lock(mutex_);
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
  const bool standard = name_ == "-";
  if (standard) name_ = "standard input";
  if (name_.empty() || name_.find('\0') != std::string::npos) failed("no path", 0);
  // Not blocking: opening a pipe would wait for its writer, even after a signal.
  const int descriptor = standard ? system::standard_input() : system::open_to_read(name_);
  if (descriptor < 0) failed("cannot open", errno);
  file_ = std::make_unique<File>(descriptor);
  const system::FileInfo known = system::info_of(descriptor);
  using system::FileKind;
  if (known.kind == FileKind::none) failed("cannot ask for its kind", errno);
  once_ = standard || known.kind == FileKind::pipe || system::is_terminal(descriptor);
  if (!once_ && known.kind != FileKind::regular) failed("neither a regular file nor a pipe", 0);
  if (known.kind == FileKind::folder) failed("a folder", 0);
  state_ = state_of(known);
  begin_file();
}

SOMA_INLINE void ByteSource::begin_file() {
  decodes_ = true;
  buffer_.resize(buffer_bytes);
  std::size_t count = read(buffer_.data(), buffer_bytes);
  const auto first = [&] { return std::string_view(buffer_.data(), count); };
  // A pipe may have sent a part of a mark.
  while (!ended_ && is_part_of_mark(first()))
    count += read(buffer_.data() + count, buffer_bytes - count);
  if (first().starts_with(gzip_mark)) {
    unpacker_ = std::make_unique<Unpacker>();
    if (!unpacker_->start()) failed("no memory for it", 0);
    unpacker_->packed.assign(buffer_bytes, 0);
    unpacker_->packed.swap(buffer_);
    take_packed(count);
  } else {
    count = begin(count);
    window_ = {buffer_.data(), count};
  }
}

SOMA_INLINE bool ByteSource::has_mark(std::string_view bytes) {
  return std::any_of(std::begin(marks), std::end(marks),
                     [&](auto mark) { return bytes.starts_with(mark); });
}

SOMA_INLINE bool ByteSource::is_part_of_mark(std::string_view bytes) {
  for (const std::string_view mark : marks)
    if (bytes.size() < mark.size() && mark.starts_with(bytes)) return !bytes.empty();
  return false;
}

SOMA_INLINE std::size_t ByteSource::read(char* bytes, std::size_t room) {
  check_stop(stop_, operation_);
  if (file_ == nullptr) {
    const std::size_t count = raw_.copy(bytes, room);
    raw_.remove_prefix(count);
    ended_ = count == 0;
    return count;
  }
  std::size_t count = 0;
  while (count < room && !ended_ && !(once_ && count != 0)) {
    if (once_) wait();
    const std::ptrdiff_t more = system::read_some(file_->descriptor, bytes + count, room - count);
    if (more < 0 && once_ && errno == EAGAIN) continue;
    if (more < 0) failed("cannot read", errno);
    ended_ = more == 0;
    count += static_cast<std::size_t>(more);
  }
  return count;
}

SOMA_INLINE void ByteSource::wait() const {
  constexpr int between_checks = 50;  // milliseconds
  while (!is_ready(between_checks)) check_stop(stop_, operation_);
}

SOMA_INLINE bool ByteSource::is_ready(int milliseconds) const {
  return system::wait_for_bytes(file_->descriptor, milliseconds);
}

SOMA_INLINE bool ByteSource::refill() {
  if (ahead_ != nullptr) {
    window_ = ahead_->take(buffer_);
    at_ = 0;
    return !window_.empty();
  }
  if (!decodes_) return false;
  check_stop(stop_, operation_);  // a few packed bytes can hold many
  std::size_t count = wide_ != nullptr ? narrow() : pull(buffer_.data());
  if (!begun_) count = begin(count);
  window_ = {buffer_.data(), count};
  at_ = 0;
  if (count == 0 && !once_ && file_ != nullptr) check_unchanged();
  return count != 0;
}

SOMA_INLINE std::size_t ByteSource::pull(char* bytes) {
  return unpacker_ == nullptr ? read(bytes, buffer_bytes) : unpack(bytes);
}

SOMA_INLINE std::size_t ByteSource::begin(std::size_t count) {
  begun_ = true;
  const std::string_view first(buffer_.data(), count);
  const bool big_endian = first.starts_with(big_mark);
  if (!big_endian && !first.starts_with(little_mark)) return count;
  wide_ = std::make_unique<Wide>();
  wide_->decoder = Utf16Decoder(big_endian);
  wide_->at = little_mark.size();
  wide_->count = count;
  wide_->bytes.resize(buffer_bytes);
  wide_->bytes.swap(buffer_);
  wide_->bytes.resize(1 + buffer_bytes);  // half a unit may be left of the block before
  return narrow();
}

SOMA_INLINE std::size_t ByteSource::narrow() {
  std::string text;
  while (text.size() + Utf16Decoder::most_bytes <= buffer_bytes) {
    // A pipe's text is handed on before the next part has to be waited for.
    if (once_ && !text.empty() && wide_->count - wide_->at < 2) break;
    if (!has_wide()) break;
    const char* unit = wide_->bytes.data() + wide_->at;
    wide_->at += 2;
    wide_->decoder.add(unit[0], unit[1], text);
  }
  // Half a unit, or half a pair, is left at the end.
  if (text.empty() && (wide_->decoder.take_half() || wide_->at != wide_->count)) {
    wide_->at = wide_->count;
    text.push_back(Utf16Decoder::no_utf8);
  }
  std::copy(text.begin(), text.end(), buffer_.begin());
  return text.size();
}

SOMA_INLINE bool ByteSource::has_wide() {
  while (wide_->count - wide_->at < 2) {
    const std::size_t left = wide_->count - wide_->at;
    if (left != 0) wide_->bytes.front() = wide_->bytes[wide_->at];
    const std::size_t more = pull(wide_->bytes.data() + left);
    wide_->at = 0;
    wide_->count = left + more;
    if (more == 0) return false;
  }
  return true;
}

SOMA_INLINE void ByteSource::take_packed(std::size_t count) {
  unpacker_->stream.next_in = reinterpret_cast<Bytef*>(unpacker_->packed.data());
  unpacker_->stream.avail_in = static_cast<uInt>(count);
}

SOMA_INLINE bool ByteSource::has_packed() {
  if (unpacker_->stream.avail_in == 0) take_packed(read(unpacker_->packed.data(), buffer_bytes));
  return unpacker_->stream.avail_in != 0;
}

SOMA_INLINE std::size_t ByteSource::unpack(char* bytes) {
  z_stream& stream = unpacker_->stream;
  stream.next_out = reinterpret_cast<Bytef*>(bytes);
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
  const system::FileInfo now = system::info_of(file_->descriptor);
  if (now.kind != system::FileKind::none && state_of(now) == state_) return;
  fail(error_id::text_file_changed, operation_, "file",
       soma::quoted(name_) + ", which was written to while it was read", "a file that rests");
}

SOMA_INLINE FileState ByteSource::state_of(const system::FileInfo& known) {
  return {known.device, known.node, known.bytes, known.seconds, known.nanoseconds};
}

SOMA_INLINE void ByteSource::failed(std::string_view problem, int number) const {
  soma::detail::file_failed(error_id::file_read, operation_, name_, problem, number,
                            "a file that can be read");
}

}  // namespace SOMA_NAMESPACE::text
