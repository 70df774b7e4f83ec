#pragma once
// ByteSource: the bytes of a file in order, unpacked if the content is gzip (the name does not
// matter), and as UTF-8 if it is UTF-16 with a byte order mark; or of a text in memory. Needs zlib.
//
// Unpacking takes about as long as cutting rows. With ReadAhead::yes a thread of the source unpacks
// ahead of the reader, who gets the same bytes and errors.

#include <soma/base/file_error.hpp>
#include <soma/runtime/stop_flag.hpp>
#include <soma/system/files.hpp>
#include <soma/system/threads.hpp>
#include <soma/text/utf8.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zlib.h>

namespace SOMA_NAMESPACE::text {

// The identity of a file: shows if it is still the file that was opened.
struct FileState {
  std::uint64_t device = 0, node = 0, bytes = 0;
  std::int64_t seconds = 0, nanoseconds = 0;  // the time of the last change
  friend bool operator==(const FileState&, const FileState&) = default;
};

enum class ReadAhead : std::uint8_t { no, yes };  // yes: may run a thread, where there are any

class ByteSource {
 public:
  // A regular file, a pipe, a terminal, or "-": standard input. Pipes and standard input can be
  // read once, see is_once(); they are waited for until they have bytes. `operation` names the
  // caller in messages. `operation` and the flag that stops the reading (nullptr: none) must
  // outlive the object. Errors file.read, executor.thread_start, runtime.stopped.
  static ByteSource open(std::string_view operation, std::string_view path,
                         const StopFlag* stop = nullptr, ReadAhead ahead = ReadAhead::no);
  // True if open() would give bytes that can be read once, a pipe's or standard input's. Does not
  // wait for a pipe's writer.
  static bool is_pipe(std::string_view path);
  // Bytes that are read as those of a file are: unpacked, and UTF-16 as UTF-8. They must outlive
  // the object. Errors as of open(), text.file_gzip.
  static ByteSource of_file_bytes(std::string_view operation, std::string_view bytes,
                                  std::string name);
  // True if the bytes begin with a mark that of_file_bytes() or readers of files take away.
  static bool has_mark(std::string_view bytes);
  // The text must outlive the object, and is read as it is. `name` is for messages.
  static ByteSource of_memory(std::string_view operation, std::string_view text,
                              std::string name = "memory");

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
  // The bytes that are left; not many more than `most` of them.
  std::string rest(std::size_t most = std::string::npos);

  // True for a pipe and for standard input: their bytes come once, and perhaps later.
  bool is_once() const { return once_; }
  // True if no byte behind those in memory has arrived yet.
  bool must_wait() const;
  // The following bytes that are in memory, as ahead() has them, without reading more.
  std::string_view held() const;

  std::string_view operation() const { return operation_; }
  const std::string& name() const { return name_; }
  const FileState& state() const { return state_; }

  static constexpr std::size_t buffer_bytes = std::size_t{1} << 17;

 private:
  // A file descriptor; the destructor closes it, unless it is standard input.
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

  // The content's UTF-16, as far as it is read.
  struct Wide {
    std::vector<char> bytes{};
    std::size_t at = 0, count = 0;
    Utf16Decoder decoder{};
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
    Mutex mutex_{};  // protects everything below
    Condition filled_{}, room_{};
    Block blocks_[4]{};
    std::size_t first_ = 0, ready_ = 0;
    bool stopping_ = false, ended_ = false;
    std::exception_ptr problem_{};
    system::Thread thread_{};
  };

  ByteSource(std::string_view operation, std::string name)
      : operation_(operation), name_(std::move(name)) {}

  void open_file();
  // Reads the first bytes and looks for marks.
  void begin_file();

  // True for a beginning of a mark at a file's begin: gzip, UTF-16, or the byte order mark.
  static bool is_part_of_mark(std::string_view bytes);

  // Reads `room` bytes, fewer only at the end, or if a pipe has no more yet.
  std::size_t read(char* bytes, std::size_t room);
  // Returns once a pipe has bytes, or has ended. Error runtime.stopped.
  void wait() const;
  bool is_ready(int milliseconds) const;

  bool refill();
  // Reads or unpacks at most buffer_bytes, as read() does.
  std::size_t pull(char* bytes);
  // Looks at the first bytes for the mark of UTF-16. Returns the number of bytes in the buffer.
  std::size_t begin(std::size_t count);
  // Fills the buffer with UTF-8.
  std::size_t narrow();
  // Returns false if not one unit is left.
  bool has_wide();

  // ---- gzip: members one behind the other; zeros may follow the last, which pad tapes

  void take_packed(std::size_t count);
  bool has_packed();
  std::size_t unpack(char* bytes);
  // Returns false if only zeros follow. inflate() checks the rest of a member's head.
  bool begin_member();
  [[noreturn]] void damaged(std::string_view problem) const;

  void check_unchanged();

  static FileState state_of(const system::FileInfo& known);
  [[noreturn]] void failed(std::string_view problem, int number) const;

  std::string_view operation_;
  std::string name_;
  const StopFlag* stop_ = nullptr;
  static constexpr std::string_view gzip_mark = "\x1f\x8b", little_mark = "\xFF\xFE",
                                    big_mark = "\xFE\xFF", byte_order_mark = "\xEF\xBB\xBF";
  static constexpr std::string_view marks[] = {gzip_mark, little_mark, big_mark, byte_order_mark};
  std::unique_ptr<File> file_;
  std::string_view raw_{};              // of_file_bytes: those that are left
  bool decodes_ = false;                // true: the bytes are of a file, or like those
  std::unique_ptr<Unpacker> unpacker_;  // set for a gzip file
  std::unique_ptr<Wide> wide_;          // set for UTF-16
  std::unique_ptr<Ahead> ahead_{};      // who has it, if it is read ahead
  FileState state_;
  bool once_ = false, begun_ = false, ended_ = false;
  std::vector<char> buffer_;
  std::string_view window_;  // the unread bytes: a part of the buffer, or the text in memory
  std::size_t at_ = 0;
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/byte_source.ipp>
#endif
