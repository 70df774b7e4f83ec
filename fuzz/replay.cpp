// Runs files through a fuzz target: its corpus as an ordinary test, or a finding in a debugger.
//
//   fuzz_replay TARGET FILE_OR_FOLDER ...

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

// targets.inc lists the fuzz targets; the build gives each entry the name of its target.
#define SOMA_FUZZ_TARGET(name) \
  extern "C" int replay_##name(const std::uint8_t* data, std::size_t size);
#include "targets.inc"
#undef SOMA_FUZZ_TARGET

namespace {

using Entry = int (*)(const std::uint8_t* data, std::size_t size);
struct Target {
  const char* name;
  Entry entry;
};
#define SOMA_FUZZ_TARGET(name) {#name, replay_##name},
constexpr Target targets[] = {
#include "targets.inc"
};
#undef SOMA_FUZZ_TARGET

Entry find(std::string_view name) {
  for (const Target& target : targets)
    if (target.name == name) return target.entry;
  return nullptr;
}

bool run(Entry entry, const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.good()) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    return false;
  }
  // A copy without room behind it, so that a sanitizer sees a read too far.
  const std::vector<std::uint8_t> bytes(content.begin(), content.end());
  std::printf("%s\n", path.c_str());
  std::fflush(stdout);  // the last line is the one that broke it
  entry(bytes.data(), bytes.size());
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  const Entry entry = count > 1 ? find(arguments[1]) : nullptr;
  if (entry == nullptr) {
    std::fprintf(stderr, "usage: fuzz_replay TARGET FILE_OR_FOLDER ...; targets:");
    for (const Target& target : targets) std::fprintf(stderr, " %s", target.name);
    std::fprintf(stderr, "\n");
    return 2;
  }
  int files = 0;
  for (int i = 2; i < count; ++i) {
    const std::filesystem::path path = arguments[i];
    std::vector<std::filesystem::path> all{path};
    if (std::filesystem::is_directory(path)) {
      all.clear();
      for (const auto& found : std::filesystem::recursive_directory_iterator(path))
        if (found.is_regular_file()) all.push_back(found.path());
    }
    for (const std::filesystem::path& file : all) {
      if (!run(entry, file)) return 1;
      ++files;
    }
  }
  std::printf("%d files\n", files);
  return files > 0 ? 0 : 1;
}
