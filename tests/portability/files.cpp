// The promises of soma about files, on the system that runs this: complete or absent, replaced
// under their names, locked by one process; names in UTF-8. Prints what fails and returns how much.
// Usage: files FOLDER, which is made and may be deleted; with "die" behind it the program is the
// writer that is killed.

#include <soma/io/append_file.hpp>
#include <soma/io/checkpoint_folder.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/soma.hpp>
#include <soma/system/files.hpp>
#include <soma/system/paths.hpp>
#include <soma/train.hpp>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

using namespace soma;

namespace {

int failures = 0;

void check(bool holds, std::string_view what) {
  if (holds) return;
  std::printf("FAILED: %.*s\n", static_cast<int>(what.size()), what.data());
  ++failures;
}

template <class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file("files", path);
  file.write(text);
  file.commit();
}

std::size_t partial_entries(const std::string& folder) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(system::path_of(folder)))
    count += has(system::name_of(entry), ".partial") ? 1u : 0u;
  return count;
}

void names_and_bytes(const std::string& folder) {
  make_folders("files", folder + "/\xC3\xA4\xE2\x82\xAC");
  const std::string path = folder + "/\xC3\xA4\xE2\x82\xAC/\xC3\xBC.txt";
  write_file(path, "a\nb\r\n\x1A");
  const auto open = MappedFile::open("files", path);
  check(open->bytes().size() == 6, "bytes stay as they are");
  write_file(path, "second");
  check(static_cast<char>(open->bytes()[0]) == 'a', "a file that is open keeps its bytes");
  check(static_cast<char>(MappedFile::open("files", path)->bytes()[0]) == 's',
        "a file that is open can be replaced");
  check(has(error_of([&] { MappedFile::open("files", folder + "/none"); }), "file.read"),
        "a missing file is an error");
}

void logs(const std::string& folder) {
  const std::string path = folder + "/log";
  {
    AppendFile log("files", path, ExistingFile::append);
    log.write("line\n");
    check(log.last() == '\n' && log.size() == 5, "a log grows");
    check(has(error_of([&] { AppendFile("files", path, ExistingFile::append); }), "in use"),
          "a log has one writer");
    check(MappedFile::open("files", path)->bytes().size() == 5, "a log that is open can be read");
  }
  check(AppendFile("files", path, ExistingFile::append).size() == 5, "a log goes on");
  check(AppendFile("files", path, ExistingFile::replace).size() == 0, "a log begins anew");
}

void folders(const std::string& folder) {
  const std::string path = folder + "/model";
  for (const std::string_view name : {"one", "two"}) {
    AtomicFolder made("files", path);
    write_file(made / name, name);
    made.commit();
  }
  check(system::is_regular(path + "/two") && !system::is_regular(path + "/one"),
        "a folder is replaced as a whole");
  { const AtomicFolder dropped("files", path); }
  check(partial_entries(folder) == 0, "nothing remains of a folder that was not committed");
}

void killed_writer(const std::string& folder, const std::string& program) {
  std::string command = "\"" + program + "\" \"" + folder + "\" die";
#if SOMA_WINDOWS
  command = "\"" + command + "\"";  // that system's shell takes the first and the last mark away
#endif
  check(std::system(command.c_str()) != 0, "the writer dies");
  check(partial_entries(folder + "/run") == 1, "a killed writer leaves what it had begun");
  const CheckpointFolder held(folder + "/run");
  check(has(error_of([&] { CheckpointFolder other(folder + "/run"); }), "checkpoint.locked"),
        "a folder has one holder");
  AtomicFolder again("files", folder + "/run/step-0000000007");
  write_file(again / "x", "x");
  again.commit();
  check(partial_entries(folder + "/run") == 0, "the next writer deletes the remains");
}

void same_path(const std::string& folder) {
  auto context = make_context();
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  StateDict tensors;
  tensors.set("w", Tensor::from<float>(context, values, {2, 3}));
  const std::string path = folder + "/w.safetensors";
  save_safetensors(path, tensors);
  const SafetensorsFile loaded = load_safetensors(context, path);
  save_safetensors(path, loaded.tensors);
  check(load_safetensors(context, path).at("w").span<float>()[5] == 6,
        "what was loaded can be saved to the same path");
}

[[noreturn]] void die(const std::string& folder) {
  const CheckpointFolder held(folder + "/run");
  const AtomicFolder begun("files", folder + "/run/step-0000000007");
  write_file(begun / "x", "half");
  std::_Exit(9);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string folder = argv[1];
  if (argc > 2) die(folder);
  std::error_code ignored;
  std::filesystem::remove_all(system::path_of(folder), ignored);
  make_folders("files", folder);
  names_and_bytes(folder);
  logs(folder);
  folders(folder);
  if (system::has_threads) killed_writer(folder, argv[0]);
  same_path(folder);
  std::printf("files: %s\n", failures == 0 ? "all hold" : "see above");
  return failures;
}
