#pragma once
// Executables in a folder: a device that loads them need not compile their graphs. A file has no
// weights and no instructions: it holds the key of its graph, the predictions, and the hash of the
// instructions that its programs made when the file was written.
//
//   8 bytes "somaexe2"; texts (8 bytes of length, then bytes): version, machine; numbers of 8
//   bytes: calls, instructions, stream, predicted nanoseconds, and of these the busy ones of each
//   engine (the bits of doubles), peak bytes, operators; a text for each operator; the text of the
//   key; XXH64 of all before.

#include <soma/base/version.hpp>
#include <soma/io/atomic_file.hpp>
#include <soma/io/checksums.hpp>
#include <soma/io/folders.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/programs/graph/executables.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace soma {

namespace detail {

inline constexpr std::string_view executable_magic = "somaexe2";
inline constexpr std::string_view executable_suffix = ".somaexe";

inline std::string version_text() {
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
         std::to_string(version.patch);
}

inline std::string executable_bytes(const Executable& executable, std::string_view machine) {
  std::string bytes(executable_magic);
  const auto number = [&bytes](std::uint64_t value) {
    for (int i = 0; i < 64; i += 8) bytes.push_back(static_cast<char>(value >> i & 255));
  };
  const auto text = [&](std::string_view value) {
    number(value.size());
    bytes.append(value);
  };
  text(version_text());
  text(machine);
  number(executable.calls);
  number(executable.instructions);
  number(executable.stream);
  number(std::bit_cast<std::uint64_t>(executable.predicted.ns));
  for (const double busy : executable.predicted.busy_ns) number(std::bit_cast<std::uint64_t>(busy));
  number(executable.peak_bytes);
  number(executable.operators.size());
  for (const std::string& name : executable.operators) text(name);
  text(executable.key.bytes());
  number(XXH64(bytes.data(), bytes.size(), 0));
  return bytes;
}

// Reads the form of executable_bytes(). Sizes are compared with the remaining bytes before anything
// is read.
class ExecutableReader {
 public:
  ExecutableReader(std::string_view path, std::string_view bytes) : path_(path), left_(bytes) {
    if (bytes.size() < executable_magic.size() + 8 || !bytes.starts_with(executable_magic))
      corrupt("not begun as one");
    left_.remove_suffix(8);
    std::string_view end = bytes.substr(left_.size());
    const std::uint64_t hash = XXH64(left_.data(), left_.size(), 0);
    left_.remove_prefix(executable_magic.size());
    std::swap(left_, end);
    const std::uint64_t stored = number();
    std::swap(left_, end);
    if (hash != stored) corrupt("changed or cut short: its checksum differs");
  }
  std::uint64_t number() {
    if (left_.size() < 8) corrupt("cut short");
    std::uint64_t value = 0;
    for (std::size_t i = 8; i-- > 0;) value = value << 8 | static_cast<unsigned char>(left_[i]);
    left_.remove_prefix(8);
    return value;
  }
  std::string text() {
    const std::uint64_t size = number();
    if (size > left_.size()) corrupt("cut short");
    std::string value(left_.substr(0, static_cast<std::size_t>(size)));
    left_.remove_prefix(static_cast<std::size_t>(size));
    return value;
  }
  void end() const {
    if (!left_.empty()) corrupt("longer than what it holds");
  }
  [[noreturn]] void refuse(ErrorId id, std::string_view given, std::string_view wanted) const {
    fail(id, "load_executables", "file", soma::quoted(path_).append(" (").append(given) + ")",
         wanted);
  }

 private:
  [[noreturn]] void corrupt(std::string_view problem) const {
    refuse(error_id::executable_corrupt, problem, "an executable as it was written");
  }
  std::string_view path_, left_;
};

}  // namespace detail

// Writes each executable to a file of its own in a folder, which is made; each file is complete or
// absent. Files of the same names are replaced. Errors file.write.
inline void save_executables(const std::string& folder, const ExecutableCache& cache,
                             std::string_view machine) {
  soma::make_folders("save_executables", folder);
  for (const Executable& executable : cache.executables()) {
    const std::string& key = executable.key.bytes();
    const std::uint64_t hash = XXH64(key.data(), key.size(), 0);
    std::string name;
    for (int i = 60; i >= 0; i -= 4) name.push_back("0123456789abcdef"[hash >> i & 15]);
    AtomicFile file("save_executables",
                    folder + "/" + name + std::string(detail::executable_suffix));
    file.write(detail::executable_bytes(executable, machine));
    file.commit();
  }
}

// Loads all executables of a folder, in the order of their names; all are verified before any is
// returned. `knows`: true if this program has an operator of that name. Errors file.read,
// executable.corrupt, executable.version, executable.machine, executable.operator.
template <class Knows>
std::vector<Executable> load_executables(const std::string& folder, std::string_view machine,
                                         const Knows& knows) {
  std::vector<std::string> paths;
  std::error_code problem;
  for (std::filesystem::directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem))
    if (at->path().extension() == detail::executable_suffix) paths.push_back(at->path().string());
  if (problem)
    detail::file_failed(error_id::file_read, "load_executables", folder, "cannot list",
                        problem.value(), "a folder of executables");
  std::sort(paths.begin(), paths.end());
  std::vector<Executable> all;
  for (const std::string& path : paths) {
    const auto file = MappedFile::open("load_executables", path);
    const std::span<const std::byte> bytes = file->bytes();
    detail::ExecutableReader from(path,
                                  {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    const std::string written_by = from.text(), written_for = from.text();
    if (written_by != detail::version_text())
      from.refuse(error_id::executable_version, "of version " + written_by,
                  "one of version " + detail::version_text());
    if (written_for != machine)
      from.refuse(error_id::executable_machine, "for " + written_for,
                  "one for " + std::string(machine));
    Executable executable;
    executable.loaded = true;
    executable.calls = from.number();
    executable.instructions = from.number();
    executable.stream = from.number();
    executable.predicted.ns = std::bit_cast<double>(from.number());
    for (double& busy : executable.predicted.busy_ns) busy = std::bit_cast<double>(from.number());
    executable.peak_bytes = from.number();
    for (std::uint64_t count = from.number(); count > 0; --count) {
      executable.operators.push_back(from.text());
      if (!knows(executable.operators.back()))
        from.refuse(error_id::executable_operator,
                    "calls " + soma::quoted(executable.operators.back()),
                    "operators that this program has");
    }
    executable.key = GraphKey(from.text());
    from.end();
    all.push_back(std::move(executable));
  }
  return all;
}

}  // namespace soma
