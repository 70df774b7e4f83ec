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

namespace SOMA_NAMESPACE::text {

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
                         const StopFlag* stop = nullptr, ReadAhead ahead = ReadAhead::no);
  // The text must outlive the object.
  static ByteSource of_memory(std::string_view operation, std::string_view text);

  // The next byte, 0 to 255; -1 at the end. Errors file.read, text.file_gzip (damaged or cut
  // short), text.file_changed (another size or time of change at the end than at the beginning),
  // runtime.stopped.
  int next();
  // The next byte without taking it.
  int peek();
  // The following bytes that are in memory. For a file they are at most buffer_bytes; at the
  // beginning of a file they are fewer only if the file is shorter. Empty at the end.
  std::string_view ahead();
  void skip(std::size_t bytes) { at_ += bytes; }

  std::string_view operation() const { return operation_; }
  const std::string& name() const { return name_; }
  const FileState& state() const { return state_; }

  static constexpr std::size_t buffer_bytes = std::size_t{1} << 17;

 private:
  // A file descriptor; the destructor closes it.
  struct File {
    explicit File(int given) : descriptor(given) {}
    ~File();
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    const int descriptor;
  };
  // zlib's state, which must not move. gzread() would silently ignore bytes that it does not take
  // for a further member.
  struct Unpacker {
    // 16: gzip around the data, nothing else. Returns false if there is no memory.
    bool start();
    Unpacker() = default;
    ~Unpacker();
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
    explicit Ahead(ByteSource source);
    ~Ahead();
    Ahead(const Ahead&) = delete;
    Ahead& operator=(const Ahead&) = delete;

    // The next block, in `buffer`; empty at the end. Errors as of refill(), after the earlier
    // blocks.
    std::string_view take(std::vector<char>& buffer);

   private:
    struct Block {
      std::vector<char> bytes{};
      std::size_t count = 0;
    };

    // The block takes the source's buffer; the source takes the buffer of a block that was read.
    bool make(Block& block);
    void work();

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

  void open_file();

  // Reads as many bytes as a buffer holds, fewer only at the end.
  std::size_t read(char* bytes);

  bool refill();

  // ---- gzip: members one behind the other; zeros may follow the last, which pad tapes

  void take_packed(std::size_t count);
  bool has_packed();
  std::size_t unpack();
  // Returns false if only zeros follow. inflate() checks the rest of a member's head.
  bool begin_member();
  [[noreturn]] void damaged(std::string_view problem) const;

  void check_unchanged();

  static FileState state_of(const struct stat& known);
  [[noreturn]] void failed(std::string_view problem, int number) const;

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

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/byte_source.ipp>
#endif
