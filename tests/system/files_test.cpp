// Files and paths as the rest of soma asks for them, on whatever system runs this.
#include <soma/system/files.hpp>
#include <soma/system/paths.hpp>
#include <soma/system/process.hpp>

#include "catch.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace {

namespace system = soma::system;

// A folder that is new and disappears with the test. Its name is not ASCII.
struct Folder {
  const std::string path;
  Folder() : path("system_files_\xC3\xA4_" + std::to_string(system::process_number())) {
    REQUIRE(system::make_folder(path));
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(system::path_of(path), ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(std::string_view name) const { return path + "/" + std::string(name); }
};

void write(const std::string& path, std::string_view text) {
  const int file = system::create_file(path);
  REQUIRE(file >= 0);
  REQUIRE(system::write_all(file, text.data(), text.size()));
  REQUIRE(system::synchronise(file));
  REQUIRE(system::close_file(file));
}

std::string content(const std::string& path) {
  const int file = system::open_to_read(path);
  REQUIRE(file >= 0);
  std::string text(100, '?');
  const std::ptrdiff_t count = system::read_some(file, text.data(), text.size());
  REQUIRE(count >= 0);
  text.resize(static_cast<std::size_t>(count));
  system::close_file(file);
  return text;
}

}  // namespace

TEST_CASE("bytes and names are what was given", "[unit][system]") {
  const Folder folder;
  const std::string name = folder / "\xE2\x82\xAC.txt";
  const std::string_view bytes = "one\ntwo\r\n\x1A after the end";
  write(name, bytes);
  CHECK(content(name) == bytes);
  CHECK(system::info_of(name).kind == system::FileKind::regular);
  CHECK(system::info_of(name).bytes == bytes.size());
  CHECK(system::is_regular(name));
  CHECK_FALSE(system::is_folder(name));
  CHECK(system::is_folder(folder.path));
  CHECK(system::info_of(folder / "none").kind == system::FileKind::none);
  for (const auto& entry : std::filesystem::directory_iterator(system::path_of(folder.path)))
    CHECK(system::name_of(entry) == "\xE2\x82\xAC.txt");
  CHECK(system::create_file(name) == -1);
  CHECK(errno == EEXIST);
  CHECK(system::open_to_read(folder / "none") == -1);
  CHECK(errno == ENOENT);
}

TEST_CASE("a rename replaces a file, and no folder", "[unit][system]") {
  const Folder folder;
  write(folder / "a", "new");
  write(folder / "b", "old");
  REQUIRE(system::rename_over(folder / "a", folder / "b"));
  CHECK(content(folder / "b") == "new");
  CHECK_FALSE(system::is_regular(folder / "a"));
  REQUIRE(system::make_folder(folder / "c"));
  REQUIRE(system::make_folder(folder / "d"));
  write(folder / "d/file", "x");
  REQUIRE_FALSE(system::rename_over(folder / "c", folder / "d"));
  CHECK((errno == EEXIST || errno == ENOTEMPTY));
  CHECK(content(folder / "d/file") == "x");
}

TEST_CASE("a mapped file can be replaced, and keeps its bytes", "[unit][system]") {
  const Folder folder;
  write(folder / "a", "first");
  const int file = system::open_to_read(folder / "a");
  const std::byte* memory = system::map(file, 5);
  REQUIRE(memory != nullptr);
  system::close_file(file);
  write(folder / "b", "later");
  REQUIRE(system::rename_over(folder / "b", folder / "a"));
  CHECK(std::memcmp(memory, "first", 5) == 0);
  CHECK(content(folder / "a") == "later");
  system::unmap(memory, 5);
}

TEST_CASE("a lock has one holder, and ends with its file", "[unit][system]") {
  const Folder folder;
  const int lock = system::open_lock(folder / "lock");
  REQUIRE(lock >= 0);
  CHECK(system::open_lock(folder / "lock") == -1);
  CHECK(errno == EWOULDBLOCK);
  REQUIRE(system::close_file(lock));
  const int again = system::open_lock(folder / "lock");
  CHECK(again >= 0);
  system::close_file(again);
}

TEST_CASE("a locked folder can be filled, listed, renamed and deleted", "[unit][system]") {
  const Folder folder;
  REQUIRE(system::make_folder(folder / "a"));
  const int lock = system::lock_folder(folder / "a");
  REQUIRE(lock >= 0);
  CHECK(system::lock_folder(folder / "a") == -1);
  CHECK(errno == EWOULDBLOCK);
  write(folder / "a/file", "x");
  std::size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(system::path_of(folder / "a"))) {
    CHECK(system::name_of(entry) == "file");
    ++entries;
  }
  CHECK(entries == 1);
  REQUIRE(system::rename_over(folder / "a", folder / "b"));
  CHECK(system::lock_folder(folder / "b") == -1);
  REQUIRE(system::remove_file(folder / "b/file"));
  CHECK(system::remove_empty_folder(folder / "b"));
  system::close_file(lock);
  CHECK(system::lock_folder(folder / "b") == -1);
  CHECK(errno == ENOENT);
}

TEST_CASE("appending goes on behind what is there", "[unit][system]") {
  const Folder folder;
  for (const std::string_view text : {"one", "two"}) {
    const int file = system::open_to_append(folder / "log", false);
    REQUIRE(file >= 0);
    REQUIRE(system::lock_file(file));
    CHECK(content(folder / "log").size() == (text == "one" ? 0 : 3));
    char first = '?';
    CHECK(system::read_at(file, 0, &first, 1) == (text == "two"));
    REQUIRE(system::write_all(file, text.data(), text.size()));
    REQUIRE(system::close_file(file));
  }
  CHECK(content(folder / "log") == "onetwo");
  const int file = system::open_to_append(folder / "log", false);
  REQUIRE(system::set_size(file, 2));
  system::close_file(file);
  CHECK(content(folder / "log") == "on");
  CHECK(system::open_to_append(folder / "log", true) == -1);
  CHECK(errno == EEXIST);
}
