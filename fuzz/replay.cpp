// Runs files through a fuzz target: its corpus as an ordinary test, or a finding in a debugger.
//
//   <name>_replay FILE_OR_FOLDER ...

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

bool run(const std::filesystem::path& path) {
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
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  int files = 0;
  for (int i = 1; i < count; ++i) {
    const std::filesystem::path path = arguments[i];
    std::vector<std::filesystem::path> all{path};
    if (std::filesystem::is_directory(path)) {
      all.clear();
      for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
        if (entry.is_regular_file()) all.push_back(entry.path());
    }
    for (const std::filesystem::path& file : all) {
      if (!run(file)) return 1;
      ++files;
    }
  }
  std::printf("%d files\n", files);
  return files > 0 ? 0 : 1;
}
