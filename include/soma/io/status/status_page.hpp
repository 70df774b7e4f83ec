#pragma once
// StatusPage: the state of a run in a file of one page, which other programs of the same user can
// read while it is written. The writer never waits: a sequence number is odd during a write, and a
// reader that sees the number change reads again (a sequence lock). Linux.
//
// Pages lie in $XDG_RUNTIME_DIR/soma (mode 0700), each with mode 0600 and the number of its process
// as its name. A page is deleted with its StatusPage; readers ignore the page of a killed process,
// and the next writer deletes it.

#include <soma/base/file_error.hpp>
#include <soma/io/folders.hpp>
#include <soma/io/status/process_start.hpp>
#include <soma/system/files.hpp>
#include <soma/system/process.hpp>
#include <soma/system/shared_page.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

namespace SOMA_NAMESPACE {

struct RunStatus {
  std::uint64_t process = 0;
  std::uint64_t process_start = 0;  // clock ticks after the system's start, as /proc says
  std::int64_t updated = 0;         // nanoseconds, of CLOCK_REALTIME
  std::uint64_t step = 0, steps = 0, epoch = 0;  // steps 0: not known
  double steps_per_second = 0, loss = 0;
  double cpus = 0;  // CPUs that all threads together keep busy
  std::uint64_t resident_bytes = 0;
  std::uint64_t device_bytes = 0;  // device memory of tensors, at most so far; 0: no accelerator
  // The busy shares of threads (measured), or of the engines of an accelerator's core in the order
  // of neuroncore::Engine (predicted).
  std::uint64_t busy_count = 0;
  std::array<double, 64> busy{};
  std::uint64_t predicted = 0;  // 1: engines
  std::array<char, 512> command{};
  std::array<char, 128> model{};
};

namespace detail {

inline constexpr std::uint64_t status_magic = 0x0230'7461'7473'6d73;  // "smstat0", version 2

struct StatusPageWords {
  static_assert(std::is_trivially_copyable_v<RunStatus> && sizeof(RunStatus) % 8 == 0);
  std::uint64_t magic = status_magic;
  std::uint64_t sequence = 0;
  std::array<std::uint64_t, sizeof(RunStatus) / 8> words{};
};
static_assert(sizeof(StatusPageWords) <= 4096);

// Copies the part that fits, and a zero after it.
template <std::size_t size>
void copy_text(std::array<char, size>& to, std::string_view text) {
  to = {};
  std::memcpy(to.data(), text.data(), text.size() < size ? text.size() : size - 1);
}

void write_status(StatusPageWords& page, const RunStatus& status);

// Not set if the page changed during all attempts.
std::optional<RunStatus> read_status(const StatusPageWords& page);

}  // namespace detail

// The default folder of pages. Error file.write: $XDG_RUNTIME_DIR is not set.
std::string status_folder();

struct RunsFound {
  std::vector<RunStatus> runs;        // ascending by process
  std::vector<std::string> left_out;  // "<file>: <why>"
};

// The runs whose pages lie in a folder; empty if there is no such folder. Files that are no page of
// a live process of this user are listed in left_out, with the reason. Error file.read: the folder
// cannot be listed.
RunsFound runs_in(const std::string& folder);

class StatusPage {
 public:
  // Makes the folder and a page of this process. Errors file.write: it is impossible, or this
  // process already has a page there.
  StatusPage(std::string folder, std::string_view command, std::string_view model);
  StatusPage(const StatusPage&) = delete;
  StatusPage& operator=(const StatusPage&) = delete;
  ~StatusPage();

  // The content of the next publish(); process, command and model are already set.
  RunStatus& status() { return status_; }
  // Takes some hundred nanoseconds; one thread at a time.
  void publish();

 private:
  // Deletes pages of this user's processes that ended without deleting them.
  static void take_away_dead(const std::string& folder);

  std::string path_;
  RunStatus status_{};
  detail::StatusPageWords* page_ = nullptr;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/io/status/impl/status_page.ipp>
#endif
