// Event files, parsed here by other means than they were written with.

#include <soma/io/tensorboard.hpp>

#include "catch.hpp"
#include "io/child.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

// CRC-32C bit by bit, without a table.
std::uint32_t slow_crc32c(const std::string& bytes) {
  std::uint32_t sum = 0xFFFFFFFF;
  for (const char byte : bytes) {
    sum ^= static_cast<unsigned char>(byte);
    for (int i = 0; i < 8; ++i) sum = (sum & 1) != 0 ? (sum >> 1) ^ 0x82F63B78 : sum >> 1;
  }
  return sum ^ 0xFFFFFFFF;
}
std::uint32_t masked(const std::string& bytes) {
  const std::uint32_t sum = slow_crc32c(bytes);
  return ((sum >> 15) | (sum << 17)) + 0xA282EAD8;
}

template <class T>
T take(std::string& from) {
  T value{};
  REQUIRE(from.size() >= sizeof value);
  std::memcpy(&value, from.data(), sizeof value);
  from.erase(0, sizeof value);
  return value;
}

std::vector<std::string> records(std::string file) {
  std::vector<std::string> result;
  while (!file.empty()) {
    const std::string length = file.substr(0, 8);
    const auto size = take<std::uint64_t>(file);
    REQUIRE(take<std::uint32_t>(file) == masked(length));
    REQUIRE(file.size() >= size);
    result.push_back(file.substr(0, size));
    file.erase(0, size);
    REQUIRE(take<std::uint32_t>(file) == masked(result.back()));
  }
  return result;
}

std::uint64_t varint(std::string& from) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    REQUIRE((!from.empty() && shift < 64));
    const auto byte = static_cast<unsigned char>(from[0]);
    from.erase(0, 1);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
}

// The fields of a message: number, and content as bytes (varints as 8 bytes).
std::vector<std::pair<std::uint64_t, std::string>> fields(std::string message) {
  std::vector<std::pair<std::uint64_t, std::string>> result;
  while (!message.empty()) {
    const std::uint64_t key = varint(message);
    std::string content;
    std::uint64_t size = (key & 7) == 1 ? 8 : 4;
    if ((key & 7) == 0) {
      const std::uint64_t value = varint(message);
      content.assign(reinterpret_cast<const char*>(&value), 8);
      size = 0;
    } else {
      if ((key & 7) == 2) size = varint(message);
      REQUIRE(message.size() >= size);
      content = message.substr(0, size);
    }
    message.erase(0, size);
    result.emplace_back(key >> 3, content);
  }
  return result;
}

template <class T>
T as(const std::string& content) {
  std::string copy = content;
  return take<T>(copy);
}

}  // namespace

TEST_CASE("the checksum has its published values", "[unit][io]") {
  CHECK(detail::crc32c("123456789") == 0xE3069283);
  CHECK(detail::crc32c("") == 0);
  // RFC 3720, B.4: 32 bytes of zeros, and of ones.
  CHECK(detail::crc32c(std::string(32, '\0')) == 0x8A9136AA);
  CHECK(detail::crc32c(std::string(32, '\xff')) == 0x62A8AB43);
}

TEST_CASE("events are read as they were written", "[unit][io]") {
  const TemporaryFolder folder;
  std::string path;
  const double before = EventFile::now();
  {
    EventFile events(folder / "run/a", {.suffix = ".train"});
    path = events.path();
    events.scalar("loss", 3, 0.1, 1234.5);
    CHECK(records(read_text(path)).size() == 2);  // nothing is kept back
    events.scalar("a/rate", -1, 1e-5);
    events.scalar("", (std::numeric_limits<std::int64_t>::max)(), -std::nan(""));
  }
  const std::string name = std::filesystem::path(path).filename().string();
  CHECK(name.starts_with("events.out.tfevents."));
  CHECK(name.ends_with(".train"));
  const std::vector<std::string> all = records(read_text(path));
  REQUIRE(all.size() == 4);

  const auto version = fields(all[0]);
  REQUIRE(version.size() == 2);
  CHECK(version[0].first == 1);
  CHECK(as<double>(version[0].second) >= before);
  CHECK(version[1] == std::pair<std::uint64_t, std::string>{3, "brain.Event:2"});

  const auto event = fields(all[1]);
  REQUIRE(event.size() == 3);
  CHECK(as<double>(event[0].second) == 1234.5);
  CHECK(event[1].first == 2);
  CHECK(as<std::int64_t>(event[1].second) == 3);
  CHECK(event[2].first == 5);
  const auto summary = fields(event[2].second);
  REQUIRE(summary.size() == 1);
  CHECK(summary[0].first == 1);
  const auto value = fields(summary[0].second);
  REQUIRE(value.size() == 2);
  CHECK(value[0] == std::pair<std::uint64_t, std::string>{1, "loss"});
  CHECK(value[1].first == 2);
  CHECK(as<float>(value[1].second) == 0.1f);
  CHECK(as<std::int64_t>(fields(all[2])[1].second) == -1);
}

TEST_CASE("the beginning of a run is an event that readers know", "[unit][io]") {
  const TemporaryFolder folder;
  EventFile events(folder.path());
  events.start(31, 1234.5);
  const auto event = fields(records(read_text(events.path())).at(1));
  REQUIRE(event.size() == 3);
  CHECK(as<double>(event[0].second) == 1234.5);
  CHECK(event[1].first == 2);
  CHECK(as<std::int64_t>(event[1].second) == 31);
  CHECK(event[2].first == 7);
  const auto session = fields(event[2].second);
  REQUIRE(session.size() == 1);
  CHECK(session[0].first == 1);
  CHECK(as<std::int64_t>(session[0].second) == 1);
}

TEST_CASE("processes of one number and one second have files of their own, in order of time",
          "[unit][io]") {
  const TemporaryFolder folder;
  std::vector<std::string> paths;
  for (int i = 0; i < 2; ++i) {
    const std::string note = folder / "note";
    // As in a container: the first process of its own numbering.
    const int code = in_child([&] {
      if (unshare(geteuid() == 0 ? CLONE_NEWPID : CLONE_NEWUSER | CLONE_NEWPID) != 0)
        return mounting_not_allowed;
      return in_child([&] {
        const EventFile events(folder / "run");
        write_text(note, events.path());
        return getpid() == 1 ? 0 : 1;
      });
    });
    if (code == mounting_not_allowed) SOMA_TEST_SKIP("no processes may be numbered anew here");
    REQUIRE(code == 0);
    paths.push_back(read_text(note));
  }
  CHECK(paths[0] < paths[1]);
}

TEST_CASE("events may be kept back", "[unit][io]") {
  const TemporaryFolder folder;
  std::string path;
  {
    EventFile events(folder.path(), {.events_per_flush = 3});
    path = events.path();
    const EventFile other(folder.path());
    CHECK(other.path() != path);
    events.scalar("x", 1, 1);
    events.scalar("x", 2, 1);
    CHECK(records(read_text(path)).size() == 1);
    events.scalar("x", 3, 1);
    CHECK(records(read_text(path)).size() == 4);
    events.scalar("x", 4, 1);
    events.flush();
    CHECK(records(read_text(path)).size() == 5);
    events.scalar("x", 5, 1);
  }
  CHECK(records(read_text(path)).size() == 6);
  write_text(folder / "file", "");
  CHECK(id_of([&] { EventFile(folder / "file"); }) == "file.write");
  CHECK(id_of([&] { EventFile(folder / "file/inside"); }) == "file.write");
  CHECK(id_of([] { EventFile(""); }) == "file.write");
}
