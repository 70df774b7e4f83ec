// Texts without labels, and the encodings of files that all readers know.

#include <soma/text/labelled_text.hpp>
#include <soma/text/text_lines.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "text/files.hpp"

#include <cstddef>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

using namespace soma;
using namespace soma_test;

namespace {

// UTF-16 with a byte order mark.
std::string wide(std::u16string_view text, bool big_endian) {
  std::string bytes;
  const auto add = [&](char16_t unit) {
    const auto high = static_cast<char>(unit >> 8), low = static_cast<char>(unit & 0xFF);
    bytes += {big_endian ? high : low, big_endian ? low : high};
  };
  add(u'\ufeff');
  for (const char16_t unit : text) add(unit);
  return bytes;
}

// "line|" of each.
std::string lines_of(const std::string& path, std::size_t most = std::size_t{1} << 20) {
  text::TextLines lines(path, "test", {.max_row_bytes = most});
  std::string all;
  for (std::string line; lines.next(line);) all += line + "|";
  return all;
}

}  // namespace

TEST_CASE("lines are texts, blank ones too", "[unit][text]") {
  const TemporaryFolder folder;
  const auto written = [&](std::string_view content) {
    write_text(folder / "a", content);
    return folder / "a";
  };
  CHECK(lines_of(written("")) == "");
  CHECK(lines_of(written("\n")) == "|");
  CHECK(lines_of(written("a\n\n b \r\n\r\nc")) == "a|| b ||c|");
  CHECK(lines_of(written("\xEF\xBB\xBF"
                         "a\nb\n")) == "a|b|");
  const std::string long_line(3 * text::ByteSource::buffer_bytes, 'x');
  CHECK((lines_of(written(long_line + "\ny")) == long_line + "|y|"));
  CHECK(lines_of(written("abc\n"), 3) == "abc|");
  CHECK(message_of([&] { lines_of(written("a\nabcd\n"), 3); }) ==
        "test: line 2 of \"" + (folder / "a") +
            "\" is longer than 3 bytes, wanted at most that "
            "(max_row_bytes) [text.row_too_long]");
  CHECK(message_of([&] { lines_of(written("a\n\ncaf\xe9 b\n")); }) ==
        "test: line 3 of \"" + (folder / "a") +
            "\" is not UTF-8 at byte 4 of its text, wanted "
            "UTF-8 without zero bytes [text.row_encoding]");
  CHECK(id_of([&] { lines_of(written(std::string_view("a\0b", 3))); }) == "text.row_encoding");
  CHECK(id_of([&] { lines_of(folder / "nowhere"); }) == "file.read");
  CHECK(id_of([&] { lines_of(folder.path()); }) == "file.read");
}

TEST_CASE("gzip and UTF-16 are the same text", "[unit][text]") {
  const TemporaryFolder folder;
  std::u16string text;
  std::string same;
  // Blocks end within pairs and between them.
  for (int i = 0; i < 40000; ++i) {
    text +=
        u"\u00e9 \U0001f600\u4e2d" + std::u16string(static_cast<std::size_t>(i % 7), u'x') + u"\n";
    same += "\u00e9 \U0001f600\u4e2d" + std::string(static_cast<std::size_t>(i % 7), 'x') + "|";
  }
  REQUIRE(2 * text.size() > 3 * text::ByteSource::buffer_bytes);
  for (const bool big_endian : {false, true}) {
    write_text(folder / "a", wide(text, big_endian));
    CHECK((lines_of(folder / "a") == same));  // too long to be printed
    write_gzip(folder / "a.gz", wide(text, big_endian));
    CHECK((lines_of(folder / "a.gz") == same));
    // Half of a pair, the other half, and half a unit: none of them is a character.
    for (const std::u16string_view bad : {u"a\xD83D", u"a\xDE00 b", u"a\xD83D\xD83D\xDE00"}) {
      write_text(folder / "a", wide(bad, big_endian));
      CHECK(id_of([&] { lines_of(folder / "a"); }) == "text.row_encoding");
    }
    write_text(folder / "a", wide(u"ab", big_endian) + "c");
    CHECK(id_of([&] { lines_of(folder / "a"); }) == "text.row_encoding");
  }
  write_text(folder / "a", std::string_view("\xFF\xFE", 2));
  CHECK(lines_of(folder / "a") == "");
}

TEST_CASE("rows of every kind of file, and from a pipe", "[unit][text]") {
  const TemporaryFolder folder;
  std::u16string content;
  for (int i = 0; i < 3000; ++i)
    content += i % 2 == 0 ? u"\"good, \u00e9\",1\r\n" : u"\"bad\",0\r\n";
  std::string narrow;
  for (const char16_t unit : content)
    narrow += unit == u'\u00e9' ? std::string("\u00e9") : std::string(1, static_cast<char>(unit));
  const auto read = [](const std::string& path) {
    text::RowReader reader(path, {.reads_ahead = true});
    std::string all;
    for (text::Row row; reader.next(row);) all += row.label + row.text;
    return all;
  };
  write_text(folder / "a.csv", narrow);
  const std::string wanted = read(folder / "a.csv");
  write_text(folder / "b.csv", wide(content, false));
  write_gzip(folder / "b.csv.gz", wide(content, true));
  write_gzip(folder / "c.csv.gz", "\xEF\xBB\xBF" + narrow);
  for (const char* name : {"b.csv", "b.csv.gz", "c.csv.gz"}) CHECK((read(folder / name) == wanted));
  for (const char* name : {"a.csv", "b.csv", "b.csv.gz"}) {
    const std::string pipe = folder / "pipe.csv";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    std::thread writer(
        [&] { std::ofstream(pipe, std::ios::binary) << std::ifstream(folder / name).rdbuf(); });
    CHECK((read(pipe) == wanted));
    writer.join();
    ::unlink(pipe.c_str());
  }
}
