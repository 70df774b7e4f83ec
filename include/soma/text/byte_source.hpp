#pragma once
// ByteSource: the bytes of a file in order, unpacked if the content is gzip (the name does not
// matter), or of a text in memory. Needs zlib. POSIX.
//
// Unpacking takes about as long as cutting rows. With ReadAhead::yes a thread of the source unpacks
// ahead of the reader, who gets the same bytes and errors.

#include <soma/base/file_error.hpp>
#include <soma/runtime/stop_flag.hpp>

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
#include <zlib.h>

namespace soma::text {

// The identity of a file: shows if it is still the file that was opened.
struct FileState {
  std::uint64_t device = 0, node = 0, bytes = 0;
  std::int64_t seconds = 0, nanoseconds = 0;  // the time of the last change
  friend bool operator==(const FileState&, const FileState&) = default;
};

enum class ReadAhead : std::uint8_t { no, yes };  // yes: the permission to run a thread

class ByteSource {
 public:
  // `operation` names the caller in messages. `operation` and the flag that stops the reading
  // (nullptr: none) must outlive the object. Errors file.read, executor.thread_start.
  static ByteSource open(std::string_view operation, std::string_view path,
                         const StopFlag* stop = nullptr, ReadAhead ahead = ReadAhead::no) {
    ByteSource source(operation, std::string(path));
    source.stop_ = stop;
    source.open_file();
    if (ahead == ReadAhead::no || source.unpacker_ == nullptr) return source;
    ByteSource reader(operation, source.name_);
    reader.state_ = source.state_;
    reader.ahead_ = std::make_unique<Ahead>(std::move(source));
    return reader;
  }
  // The text must outlive the object.
  static ByteSource of_memory(std::string_view operation, std::string_view text) {
    ByteSource source(operation, "memory");
    source.window_ = text;
    return source;
  }

  // The next byte, 0 to 255; -1 at the end. Errors file.read, text.file_gzip (damaged or cut
  // short), text.file_changed (another size or time of change at the end than at the beginning),
  // runtime.stopped.
  int next() {
    if (at_ == window_.size() && !refill()) return -1;
    return static_cast<unsigned char>(window_[at_++]);
  }
  // The next byte without taking it.
  int peek() {
    if (at_ == window_.size() && !refill()) return -1;
    return static_cast<unsigned char>(window_[at_]);
  }
  // The following bytes that are in memory. For a file they are at most buffer_bytes; at the
  // beginning of a file they are fewer only if the file is shorter. Empty at the end.
  std::string_view ahead() {
    if (at_ == window_.size()) refill();
    return window_.substr(at_);
  }
  void skip(std::size_t bytes) { at_ += bytes; }

  std::string_view operation() const { return operation_; }
  const std::string& name() const { return name_; }
  const FileState& state() const { return state_; }

  static constexpr std::size_t buffer_bytes = std::size_t{1} << 17;

 private:
  // A file descriptor; the destructor closes it.
  struct File {
    explicit File(int given) : descriptor(given) {}
    ~File() { ::close(descriptor); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    const int descriptor;
  };
  // zlib's state, which must not move. gzread() would silently ignore bytes that it does not take
  // for a further member.
  struct Unpacker {
    // 16: gzip around the data, nothing else. Returns false if there is no memory.
    bool start() { return started = inflateInit2(&stream, MAX_WBITS + 16) == Z_OK; }
    Unpacker() = default;
    ~Unpacker() {
      if (started) inflateEnd(&stream);
    }
    Unpacker(const Unpacker&) = delete;
    Unpacker& operator=(const Unpacker&) = delete;

    z_stream stream{};
    bool started = false;
    bool between = false;  // behind a member, before the next
    std::vector<char> packed{};
  };

  // Blocks of a packed file: a thread makes them while the caller reads earlier blocks.
  class Ahead {
   public:
    explicit Ahead(ByteSource source) : source_(std::make_unique<ByteSource>(std::move(source))) {
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
    ~Ahead() {
      {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
      }
      room_.notify_one();
      thread_.join();
    }
    Ahead(const Ahead&) = delete;
    Ahead& operator=(const Ahead&) = delete;

    // The next block, in `buffer`; empty at the end. Errors as of refill(), after the earlier
    // blocks.
    std::string_view take(std::vector<char>& buffer) {
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

   private:
    struct Block {
      std::vector<char> bytes{};
      std::size_t count = 0;
    };

    // The block takes the source's buffer; the source takes the buffer of a block that was read.
    bool make(Block& block) {
      if (!source_->refill()) return false;
      block.count = source_->window_.size();
      block.bytes.swap(source_->buffer_);
      source_->buffer_.resize(buffer_bytes);
      return true;
    }
    void work() {
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

    std::unique_ptr<ByteSource> source_;
    std::mutex mutex_{};  // protects everything below
    std::condition_variable filled_{}, room_{};
    Block blocks_[4]{};
    std::size_t first_ = 0, ready_ = 0;
    bool stopping_ = false, ended_ = false;
    std::exception_ptr problem_{};
    std::thread thread_{};
  };

  ByteSource(std::string_view operation, std::string name)
      : operation_(operation), name_(std::move(name)) {}

  void open_file() {
    if (name_.empty() || name_.find('\0') != std::string::npos) failed("no path", 0);
    // Not blocking: opening a pipe would wait for its writer.
    const int descriptor = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) failed("cannot open", errno);
    file_ = std::make_unique<File>(descriptor);
    struct stat known {};
    if (::fstat(descriptor, &known) != 0 || !S_ISREG(known.st_mode))
      failed("not a regular file", 0);
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

  // Reads as many bytes as a buffer holds, fewer only at the end.
  std::size_t read(char* bytes) {
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

  bool refill() {
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

  // ---- gzip: members one behind the other; zeros may follow the last, which pad tapes

  void take_packed(std::size_t count) {
    unpacker_->stream.next_in = reinterpret_cast<Bytef*>(unpacker_->packed.data());
    unpacker_->stream.avail_in = static_cast<uInt>(count);
  }
  bool has_packed() {
    if (unpacker_->stream.avail_in == 0) take_packed(read(unpacker_->packed.data()));
    return unpacker_->stream.avail_in != 0;
  }
  std::size_t unpack() {
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
  // Returns false if only zeros follow. inflate() checks the rest of a member's head.
  bool begin_member() {
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
  [[noreturn]] void damaged(std::string_view problem) const {
    fail(error_id::text_file_gzip, operation_, "file",
         soma::quoted(name_).append(" (").append(problem).append(")"), "whole gzip data");
  }

  void check_unchanged() {
    struct stat now {};
    if (::fstat(file_->descriptor, &now) == 0 && state_of(now) == state_) return;
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
  const StopFlag* stop_ = nullptr;
  static constexpr std::string_view gzip_mark = "\x1f\x8b";
  std::unique_ptr<File> file_;
  std::unique_ptr<Unpacker> unpacker_;  // set for a gzip file
  std::unique_ptr<Ahead> ahead_{};      // who has it, if it is read ahead
  FileState state_;
  std::vector<char> buffer_;
  std::string_view window_;  // the unread bytes: a part of the buffer, or the text in memory
  std::size_t at_ = 0;
};

}  // namespace soma::text
