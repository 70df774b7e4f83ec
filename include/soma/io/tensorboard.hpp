#pragma once
// Event files of TensorBoard: scalars over steps. A file is a sequence of records (TFRecord), each
// a protocol buffer "Event":
//   8 bytes  length, little-endian       4 bytes  its masked CRC-32C
//   length   Event                       4 bytes  its masked CRC-32C

#include <soma/io/append_file.hpp>
#include <soma/io/folders.hpp>
#include <soma/system/clock.hpp>
#include <soma/system/process.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <protozero/pbf_writer.hpp>

namespace SOMA_NAMESPACE {

namespace detail {

// Remainders of all bytes by Castagnoli's polynomial, lowest bit first.
inline constexpr std::array<std::uint32_t, 256> crc32c_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit)
      remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0x82F63B78u : 0u);
    table[byte] = remainder;
  }
  return table;
}();

inline std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t sum = ~std::uint32_t{0};
  for (const char byte : bytes)
    sum = crc32c_table[(sum ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (sum >> 8);
  return ~sum;
}

// Rotated and shifted, because a checksum over data that contain their own checksum is weak.
inline std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t sum = crc32c(bytes);
  return ((sum >> 15) | (sum << 17)) + 0xA282EAD8u;
}

template <class Word>
void append_little_endian(std::string& text, Word word) {
  for (std::size_t i = 0; i < sizeof word; ++i) text.push_back(static_cast<char>(word >> (8 * i)));
}

inline std::string tensorboard_record(std::string_view event) {
  std::string record;
  append_little_endian(record, std::uint64_t{event.size()});
  append_little_endian(record, masked_crc32c(record));
  record.append(event);
  append_little_endian(record, masked_crc32c(event));
  return record;
}

}  // namespace detail

struct EventFileOptions {
  std::string_view suffix{};  // ends the file's name; distinguishes files in one folder
  // Events are held back until there are this many. 1: a killed process loses none.
  std::size_t events_per_flush = 1;
};

// A file in a folder that TensorBoard reads; the folder is made if it does not exist. One writer at
// a time.
class EventFile {
 public:
  // Error file.write.
  explicit EventFile(std::string_view folder, const EventFileOptions& options = {})
      : events_per_flush_(options.events_per_flush), file_(create(folder, options.suffix)) {
    std::string event;
    protozero::pbf_writer writer(event);
    writer.add_double(wall_time_field, now());
    writer.add_string(version_field, "brain.Event:2");
    add(event);
    flush();
  }
  // Writes the events that were held back, if possible; flush() reports errors.
  ~EventFile() {
    if (!waiting_.empty()) file_.try_write(waiting_);
  }
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Seconds since 1970, the clock of events.
  static double now() {
    const std::int64_t time = system::time_of_day();
    return static_cast<double>(time / second) + 1e-9 * static_cast<double>(time % second);
  }

  // A point of the curve `tag`; the file keeps it as fp32. Error file.write.
  void scalar(std::string_view tag, std::int64_t step, double value, double wall_time = now()) {
    std::string event;
    protozero::pbf_writer writer(event);
    writer.add_double(wall_time_field, wall_time);
    writer.add_int64(step_field, step);
    {
      protozero::pbf_writer summary(writer, summary_field);
      protozero::pbf_writer point(summary, value_field);
      point.add_string(tag_field, tag.data(), tag.size());
      point.add_float(simple_value_field, static_cast<float>(value));
    }
    add(event);
    if (++events_ >= events_per_flush_) flush();
  }

  // Marks the begin or the resumption of a run at this first step. Readers then drop points from
  // that step on in earlier files of the folder: points of a run that was killed after its last
  // checkpoint. Error file.write.
  void start(std::int64_t step, double wall_time = now()) {
    std::string event;
    protozero::pbf_writer writer(event);
    writer.add_double(wall_time_field, wall_time);
    writer.add_int64(step_field, step);
    {
      protozero::pbf_writer session(writer, session_log_field);
      session.add_enum(status_field, start_status);
    }
    add(event);
    flush();
  }

  // Passes all events to the system. Error file.write; the events are then tried again with the
  // next ones.
  void flush() {
    file_.write(waiting_);
    waiting_.clear();
    events_ = 0;
  }

  const std::string& path() const { return file_.path(); }

 private:
  // Numbers of fields in TensorFlow's event.proto (Event, SessionLog) and summary.proto (Summary,
  // its Value).
  static constexpr protozero::pbf_tag_type wall_time_field = 1, step_field = 2, version_field = 3,
                                           summary_field = 5, value_field = 1, tag_field = 1,
                                           simple_value_field = 2, session_log_field = 7,
                                           status_field = 1;
  static constexpr std::int64_t second = 1'000'000'000;  // nanoseconds
  static constexpr std::int32_t start_status = 1;        // SessionLog.START

  // TensorBoard recognises its files by "tfevents" in the name, and reads the files of a folder in
  // the order of their names, so the time comes first: seconds in the usual place, and finer time
  // after the host. In containers several processes may have the same number.
  static AppendFile create(std::string_view folder, std::string_view suffix) {
    static std::atomic<std::uint64_t> counter{0};
    constexpr std::string_view operation = "EventFile";
    soma::make_folders(operation, folder);
    const std::int64_t time = system::time_of_day();
    const auto digits = [](std::size_t count, auto number) {
      const std::string text = std::to_string(number);
      return std::string(text.size() < count ? count - text.size() : 0, '0') + text;
    };
    std::string path(folder);
    path.append("/events.out.tfevents.").append(digits(10, time / second));
    path.append(".").append(system::host_name()).append(".").append(digits(9, time % second));
    path.append(".").append(std::to_string(system::process_number()));
    path.append(".").append(std::to_string(counter.fetch_add(1))).append(suffix);
    return AppendFile(operation, path, ExistingFile::refuse);
  }
  void add(std::string_view event) { waiting_.append(detail::tensorboard_record(event)); }

  std::size_t events_per_flush_;
  AppendFile file_;
  std::string waiting_;
  std::size_t events_ = 0;
};

}  // namespace SOMA_NAMESPACE
