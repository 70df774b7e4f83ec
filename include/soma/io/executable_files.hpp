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
#include <soma/system/paths.hpp>

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

namespace SOMA_NAMESPACE {

namespace detail {

inline constexpr std::string_view executable_magic = "somaexe2";
inline constexpr std::string_view executable_suffix = ".somaexe";

std::string version_text();

std::string executable_bytes(const Executable& executable, std::string_view machine);

// Reads the form of executable_bytes(). Sizes are compared with the remaining bytes before anything
// is read.
class ExecutableReader {
 public:
  ExecutableReader(std::string_view path, std::string_view bytes);
  std::uint64_t number();
  std::string text();
  void end() const;
  [[noreturn]] void refuse(ErrorId id, std::string_view given, std::string_view wanted) const;

 private:
  [[noreturn]] void corrupt(std::string_view problem) const;
  std::string_view path_, left_;
};

}  // namespace detail

// Writes each executable to a file of its own in a folder, which is made; each file is complete or
// absent. Files of the same names are replaced. Errors file.write.
void save_executables(const std::string& folder, const ExecutableCache& cache,
                      std::string_view machine);

// Loads all executables of a folder, in the order of their names; all are verified before any is
// returned. `knows`: true if this program has an operator of that name. Errors file.read,
// executable.corrupt, executable.version, executable.machine, executable.operator.
template <class Knows>
std::vector<Executable> load_executables(const std::string& folder, std::string_view machine,
                                         const Knows& knows) {
  std::vector<std::string> paths;
  std::error_code problem;
  for (std::filesystem::directory_iterator at(system::path_of(folder), problem), end;
       !problem && at != end; at.increment(problem))
    if (at->path().extension() == detail::executable_suffix)
      paths.push_back(system::text_of(at->path()));
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

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/io/impl/executable_files.ipp>
#endif
