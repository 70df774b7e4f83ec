// Folders that appear whole or not at all.

#include <soma/io/atomic_folder.hpp>

#include "catch.hpp"
#include "io/child.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"

#include <filesystem>
#include <iterator>
#include <string>

using namespace soma;
using namespace soma_test;

namespace fs = std::filesystem;

TEST_CASE("a folder appears when it is complete", "[unit][io]") {
  const TemporaryFolder folder;
  const std::string path = folder / "model";
  {
    AtomicFolder whole("test", path);
    write_text(whole / "a", "1");
    CHECK_FALSE(fs::exists(path));
    whole.commit();
    CHECK(read_text(path + "/a") == "1");
  }
  CHECK(folder.files() == 1);
  {
    AtomicFolder abandoned("test", path);
    write_text(abandoned / "a", "2");
  }
  CHECK(read_text(path + "/a") == "1");
  CHECK(folder.files() == 1);
  {
    AtomicFolder replaced("test", path + "//");
    write_text(replaced / "b", "3");
    CHECK(read_text(path + "/a") == "1");
    REQUIRE(replaced.replaced().size() == 1);
    CHECK(replaced.replaced()[0].path().filename() == "a");
    replaced.commit();
  }
  CHECK_FALSE(fs::exists(path + "/a"));
  CHECK(read_text(path + "/b") == "3");
  CHECK(folder.files() == 1);
}

TEST_CASE("what can be no folder is an error that says why", "[unit][io]") {
  const TemporaryFolder folder;
  write_text(folder / "file", "x");
  CHECK(message_of([&] { AtomicFolder("test", folder / "file"); }) ==
        "test: file is \"" + (folder / "file") +
            "\" (not a folder), wanted a folder that can be written [file.write]");
  CHECK_THAT(message_of([&] { AtomicFolder("test", folder / "missing/model"); }),
             contains("(cannot create a folder beside it: No such file or directory)"));
  CHECK(id_of([] { AtomicFolder("test", ""); }) == "file.write");
  CHECK(id_of([] { AtomicFolder("test", std::string_view("a\0b", 3)); }) == "file.write");
  CHECK(folder.files() == 1);
}

TEST_CASE("a folder that appears meanwhile is replaced, a file is not", "[unit][io]") {
  const TemporaryFolder folder;
  AtomicFolder first("test", folder / "a"), second("test", folder / "b");
  fs::create_directories(folder / "a/inside");
  write_text(folder / "b", "x");
  write_text(first / "one", "1");
  first.commit();
  CHECK(read_text(folder / "a/one") == "1");
  CHECK_FALSE(fs::exists(folder / "a/inside"));
  CHECK_THAT(message_of([&] { second.commit(); }), contains("(cannot rename: Not a directory)"));
  CHECK(read_text(folder / "b") == "x");
  CHECK(folder.files() == 2);
}

TEST_CASE("a mount point keeps its place, files take theirs in it", "[unit][io]") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "model");
  const int code = in_child([&] {
    if (!mount_memory(folder / "model", "size=1m")) return mounting_not_allowed;
    write_text(folder / "model/a", "old");
    write_text(folder / "model/other", "x");
    {
      AtomicFolder abandoned("test", folder / "model");
      write_text(abandoned / "a", "lost");
    }
    if (read_text(folder / "model/a") != "old") return 1;
    AtomicFolder written("test", folder / "model/");
    write_text(written / "a", "new");
    write_text(written / "b", "2");
    written.commit();
    if (read_text(folder / "model/a") != "new" || read_text(folder / "model/b") != "2") return 2;
    if (read_text(folder / "model/other") != "x") return 3;
    const auto entries = fs::directory_iterator(folder / "model");
    return std::distance(begin(entries), end(entries)) == 3 && folder.files() == 1 ? 0 : 4;
  });
  if (code == mounting_not_allowed) SOMA_TEST_SKIP("no file system may be mounted here");
  CHECK(code == 0);
}

TEST_CASE("the folder that the process works in keeps its place", "[unit][io]") {
  const TemporaryFolder folder;
  for (const std::string name : {".", "./", "../model/.", "sub/.."}) {
    CAPTURE(name);
    fs::remove_all(folder / "model");
    fs::create_directories(folder / "model/sub");
    const int code = in_child([&] {
      fs::current_path(folder / "model");
      AtomicFolder written("test", name);
      write_text(written / "a", "new");
      const std::size_t others = written.replaced().size();
      written.commit();
      return others == 1 && read_text("a") == "new" && fs::equivalent(".", folder / "model") ? 0
                                                                                             : 1;
    });
    CHECK(code == 0);
    CHECK(fs::exists(folder / "model/sub"));
    const auto entries = fs::directory_iterator(folder / "model");
    CHECK(std::distance(begin(entries), end(entries)) == 2);
    CHECK(folder.files() == 1);
  }
}

TEST_CASE("a folder may be named by a path that ends in a point", "[unit][io]") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "model");
  AtomicFolder written("test", folder / "model/.");
  CHECK(written.replaced().empty());
  write_text(written / "a", "1");
  written.commit();
  CHECK(read_text(folder / "model/a") == "1");
  CHECK(folder.files() == 1);
}

TEST_CASE("a link to a folder stays, and the folder gets the files", "[unit][io]") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "disk/model");
  write_text(folder / "disk/model/old", "1");
  fs::create_directory_symlink("disk/model", folder / "link");
  fs::create_directory_symlink("link", folder / "second");
  for (const char* name : {"link", "second", "link/"}) {
    AtomicFolder written("test", folder / name);
    REQUIRE(written.replaced().size() == 1);
    CHECK(written.partial().starts_with(fs::canonical(folder / "disk").string() + "/"));
    write_text(written / "b", "2");
    written.commit();
    CHECK(fs::is_symlink(folder / "link"));
    CHECK(fs::is_symlink(folder / "second"));
    CHECK_FALSE(fs::exists(folder / "disk/model/old"));
  }
  CHECK(read_text(folder / "link/b") == "2");
  fs::create_symlink("gone", folder / "dangling");
  fs::create_symlink("round", folder / "round");
  for (const char* name : {"dangling", "round"})
    CHECK_THAT(message_of([&] { AtomicFolder("test", folder / name); }),
               contains("(a symbolic link that names nothing: "));
  write_text(folder / "file", "x");
  fs::create_symlink("file", folder / "to_file");
  CHECK_THAT(message_of([&] { AtomicFolder("test", folder / "to_file"); }),
             contains("(not a folder)"));
  CHECK(read_text(folder / "file") == "x");
}

TEST_CASE("what a killed process has left goes with the next, what is being written stays",
          "[unit][io]") {
  const TemporaryFolder folder;
  const auto leave_one = [&](const std::string& path) {
    const int code = in_child([&]() -> int {
      const AtomicFolder left("test", path);
      write_text(left / "a", "half");
      _exit(7);
    });
    CHECK(code == 7);
  };
  leave_one(folder / "model");
  leave_one(folder / "model2");
  fs::create_directory(folder / "model.1.partial");    // not such a name
  write_text(folder / "model.1.2.partial", "a file");  // not such a folder
  const AtomicFolder other("test", folder / "model");
  REQUIRE(folder.files() == 5);
  {
    AtomicFolder whole("test", folder / "model");
    CHECK(folder.files() == 6);
    whole.commit();
  }
  CHECK(folder.files() == 5);
  CHECK(fs::exists(other.partial()));
  CHECK(fs::exists(folder / "model.1.2.partial"));
}
