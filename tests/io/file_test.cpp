// Files that appear whole or not at all, and files seen as memory.

#include <soma/io/atomic_file.hpp>
#include <soma/io/mapped_file.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"

#include <csignal>
#include <string>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

using namespace soma;
using namespace soma_test;

namespace {

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace

TEST_CASE("a file appears when it is complete", "[unit][io]") {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  {
    AtomicFile file("test", path);
    file.write("one ");
    CHECK_FALSE(std::filesystem::exists(path));
    CHECK(folder.files() == 1);  // beside its place
    file.write("two");
    file.commit();
    CHECK(read_text(path) == "one two");
  }
  CHECK(folder.files() == 1);
  {
    AtomicFile file("test", path);
    file.write("three");
    CHECK(read_text(path) == "one two");
  }
  CHECK(read_text(path) == "one two");  // abandoned
  CHECK(folder.files() == 1);
  {
    AtomicFile empty("test", path);
    empty.commit();
  }
  CHECK(read_text(path).empty());
}

TEST_CASE("pieces of all sizes are written in order", "[unit][io]") {
  const TemporaryFolder folder;
  std::string wanted;
  AtomicFile file("test", folder / "file");
  for (const std::size_t size : std::initializer_list<std::size_t>{1, 65535, 65536, 0, 65537, 10,
                                                                   200000, 65536, 65535, 1, 1}) {
    const std::string piece(size, static_cast<char>('a' + size % 26));
    file.write(piece);
    wanted += piece;
  }
  file.commit();
  CHECK(read_text(folder / "file") == wanted);
}

TEST_CASE("what cannot be written is an error that says why", "[unit][io]") {
  const TemporaryFolder folder;
  const std::string missing = folder / "missing/file";
  CHECK(message_of([&] { AtomicFile("test", missing); }) ==
        "test: file is \"" + missing +
            "\" (cannot create a file beside it: No such file or directory), wanted a file that "
            "can be written [file.write]");
  CHECK(message_of([&] { AtomicFile("test", folder.path()); }) ==
        "test: file is \"" + folder.path() +
            "\" (not a regular file), wanted a file that can be written [file.write]");
  CHECK(id_of([&] { AtomicFile("test", "/dev/null"); }) == "file.write");
  CHECK(id_of([&] { AtomicFile("test", std::string_view("a\0b", 3)); }) == "file.write");
  CHECK(id_of([&] { AtomicFile("test", ""); }) == "file.write");
  CHECK(folder.files() == 0);
}

TEST_CASE("a full disk leaves the old file and nothing else", "[unit][io]") {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  write_text(path, "old");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100000, 100000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string id = id_of([&] {
      AtomicFile file("test", path);
      for (int i = 0; i < 100; ++i) file.write(std::string(10000, 'x'));
      file.commit();
    });
    _exit(id == "file.write" ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(read_text(path) == "old");
  CHECK(folder.files() == 1);
}

TEST_CASE("a file that disappears under the writer is an error", "[unit][io]") {
  const TemporaryFolder folder;
  AtomicFile file("test", folder / "file");
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    std::filesystem::remove(entry.path());
  CHECK(message_of([&] { file.commit(); }).find("cannot rename: No such file") !=
        std::string::npos);
}

TEST_CASE("files are seen as memory", "[unit][io]") {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  write_text(path, std::string(10000, 'x') + "y");
  const auto file = MappedFile::open("test", path);
  CHECK(file->bytes().size() == 10001);
  CHECK(text_of(*file).back() == 'y');
  {
    AtomicFile replaced("test", path);
    replaced.write("new");
    replaced.commit();
  }
  CHECK(text_of(*file).back() == 'y');  // the old one, as long as it is held
  CHECK(text_of(*MappedFile::open("test", path)) == "new");
  write_text(folder / "empty", "");
  CHECK(MappedFile::open("test", folder / "empty")->bytes().empty());
}

TEST_CASE("what cannot be read is an error that says why", "[unit][io]") {
  const TemporaryFolder folder;
  const std::string missing = folder / "missing";
  CHECK(message_of([&] { MappedFile::open("test", missing); }) ==
        "test: file is \"" + missing +
            "\" (cannot open: No such file or directory), wanted a file that can be read "
            "[file.read]");
  CHECK(message_of([&] { MappedFile::open("test", folder.path()); }).find("(not a regular file)") !=
        std::string::npos);
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(id_of([&] { MappedFile::open("test", folder / "pipe"); }) == "file.read");
  CHECK(id_of([&] { MappedFile::open("test", std::string_view("a\0b", 3)); }) == "file.read");
}
