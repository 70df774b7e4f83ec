// Executables as files: what is written is read back, and nothing damaged or foreign is taken.

#include <soma/io/executable_files.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <unistd.h>

using namespace soma;
using soma_test::contains;
using soma_test::id_of;
using soma_test::message_of;

namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "soma_executables.XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
  std::string path;
};

ExecutableCache two_executables() {
  ExecutableCache cache(1 << 20);
  for (const char letter : {'a', 'b'}) {
    Executable executable;
    executable.key = GraphKey(std::string(40, letter));
    executable.calls = 2;
    executable.instructions = 17;
    executable.stream = 0x123456789abcdef0u;
    executable.predicted_ns = 1234.5;
    executable.peak_bytes = 4096;
    executable.operators = {"add", "linear"};
    cache.add(std::move(executable));
  }
  return cache;
}

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

bool knows(std::string_view name) { return name == "add" || name == "linear"; }

}  // namespace

TEST_CASE("executables are read back as they were written", "[io]") {
  const Folder folder;
  const std::string path = folder.path + "/new/ahead";
  save_executables(path, two_executables(), "trn1");
  save_executables(path, two_executables(), "trn1");  // the same files again
  const std::vector<Executable> all = load_executables(path, "trn1", knows);
  REQUIRE(all.size() == 2);
  std::set<std::string> keys;
  for (const Executable& executable : all) {
    keys.insert(executable.key.bytes());
    CHECK(executable.loaded);
    CHECK(executable.calls == 2);
    CHECK(executable.instructions == 17);
    CHECK(executable.stream == 0x123456789abcdef0u);
    CHECK(executable.predicted_ns == 1234.5);
    CHECK(executable.peak_bytes == 4096);
    CHECK(executable.operators == std::vector<std::string>{"add", "linear"});
  }
  CHECK(keys == std::set<std::string>{std::string(40, 'a'), std::string(40, 'b')});
}

TEST_CASE("damaged and foreign executables are refused, each by its id", "[io]") {
  const Folder folder;
  save_executables(folder.path, two_executables(), "trn1");
  const auto load = [&](std::string_view machine = "trn1") {
    return id_of([&] { (void)load_executables(folder.path, machine, knows); });
  };
  CHECK(load() == "no error");
  const fs::path path = fs::directory_iterator(folder.path)->path();
  const std::string whole = content(path);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write(path, whole.substr(0, size));
    INFO("cut to " << size);
    REQUIRE(load() == "executable.corrupt");
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x40);
    write(path, changed);
    INFO("byte " << at);
    REQUIRE(load() == "executable.corrupt");
  }
  write(path, whole + "x");
  CHECK(load() == "executable.corrupt");
  write(path, whole);
  CHECK_THAT(message_of([&] { (void)load_executables(folder.path, "trn2", knows); }),
             contains("for trn1") && contains("one for trn2") && contains("[executable.machine]"));
  CHECK_THAT(message_of([&] {
               (void)load_executables(folder.path, "trn1",
                                      [](std::string_view name) { return name == "add"; });
             }),
             contains("\"linear\"") && contains("[executable.operator]"));
  // A file of another version: the same bytes with a different version number and its checksum.
  std::string other = whole;
  other[16] = '9';
  other.resize(other.size() - 8);
  const std::uint64_t hash = XXH64(other.data(), other.size(), 0);
  for (int i = 0; i < 64; i += 8) other.push_back(static_cast<char>(hash >> i & 255));
  write(path, other);
  CHECK_THAT(message_of([&] { (void)load_executables(folder.path, "trn1", knows); }),
             contains("of version 9") && contains("[executable.version]"));
  CHECK(id_of([&] { (void)load_executables(folder.path + "/nowhere", "trn1", knows); }) ==
        "file.read");
}
