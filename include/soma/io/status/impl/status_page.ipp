#pragma once
// The functions of status_page.hpp.

#include <soma/io/status/status_page.hpp>

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

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE void write_status(StatusPageWords& page, const RunStatus& status) {
  std::array<std::uint64_t, sizeof(RunStatus) / 8> words;
  std::memcpy(words.data(), &status, sizeof status);
  const std::uint64_t sequence = page.sequence;
  __atomic_store_n(&page.sequence, sequence + 1, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  for (std::size_t i = 0; i < words.size(); ++i)
    __atomic_store_n(&page.words[i], words[i], __ATOMIC_RELAXED);
  __atomic_store_n(&page.sequence, sequence + 2, __ATOMIC_RELEASE);
}

SOMA_INLINE std::optional<RunStatus> read_status(const StatusPageWords& page) {
  for (int attempt = 0; attempt < 10000; ++attempt) {
    const std::uint64_t before = __atomic_load_n(&page.sequence, __ATOMIC_ACQUIRE);
    if (before % 2 != 0) continue;
    std::array<std::uint64_t, sizeof(RunStatus) / 8> words;
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = __atomic_load_n(&page.words[i], __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&page.sequence, __ATOMIC_RELAXED) != before) continue;
    RunStatus status;
    std::memcpy(static_cast<void*>(&status), words.data(), sizeof status);
    status.command.back() = status.model.back() = '\0';
    if (status.busy_count > status.busy.size()) status.busy_count = status.busy.size();
    return status;
  }
  return std::nullopt;
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE std::string status_folder() {
  const char* base = std::getenv("XDG_RUNTIME_DIR");
  if (base == nullptr || *base == '\0')
    fail(error_id::file_write, "status_folder", "XDG_RUNTIME_DIR", "not set",
         "a folder of this user's, or a folder that is named");
  return std::string(base) + "/soma";
}

SOMA_INLINE RunsFound runs_in(const std::string& folder) {
  RunsFound found;
  std::error_code problem;
  std::filesystem::directory_iterator entries(folder, problem);
  if (problem == std::errc::no_such_file_or_directory) return found;
  if (problem)
    detail::file_failed(error_id::file_read, "runs_in", folder, "cannot list", problem.value(),
                        "a folder of pages");
  std::vector<std::string> names;
  for (; entries != std::filesystem::directory_iterator(); entries.increment(problem)) {
    if (problem) break;
    names.push_back(entries->path().filename().string());
  }
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  for (const std::string& name : names) {
    const auto leave_out = [&](std::string_view why) {
      found.left_out.push_back(soma::quoted(name).append(": ").append(why));
    };
    const std::string path = folder + "/" + name;
    constexpr std::size_t bytes = sizeof(detail::StatusPageWords);
    std::string_view why;
    const void* data = system::open_page(path, bytes, why);
    if (data == nullptr) {
      if (!why.empty()) leave_out(why);
      continue;
    }
    const auto& page = *static_cast<const detail::StatusPageWords*>(data);
    std::optional<RunStatus> status;
    const bool ours = page.magic == detail::status_magic;
    if (ours) status = detail::read_status(page);
    system::close_page(data, bytes);
    if (!ours)
      leave_out("is no page of a run, or one of another version");
    else if (!status)
      leave_out("was written all the while");
    else if (std::to_string(status->process) != name)
      leave_out("names process " + std::to_string(status->process));
    else if (detail::process_start(status->process) != status->process_start)
      leave_out("its process has ended");
    else
      found.runs.push_back(*status);
  }
  return found;
}

SOMA_INLINE StatusPage::StatusPage(std::string folder, std::string_view command,
                                   std::string_view model) {
  soma::make_folders("StatusPage", folder);
  system::make_private(folder);
  status_.process = system::process_number();
  status_.process_start = detail::process_start(status_.process).value_or(0);
  detail::copy_text(status_.command, command);
  detail::copy_text(status_.model, model);
  take_away_dead(folder);
  path_ = folder + "/" + std::to_string(status_.process);
  const std::string partial = path_ + ".partial";
  system::remove_file(partial);  // left by a killed process with the same number
  const auto failed = [&](std::string_view what) {
    const int number = errno;
    system::remove_file(partial);
    detail::file_failed(error_id::file_write, "StatusPage", path_, what, number,
                        "a page that this process can make");
  };
  constexpr std::size_t bytes = sizeof(detail::StatusPageWords);
  std::string_view step;
  void* data = system::create_page(partial, bytes, step);
  if (data == nullptr) failed(step);
  page_ = ::new (data) detail::StatusPageWords;
  detail::write_status(*page_, status_);
  if (!system::add_name(partial, path_)) {
    const int number = errno;
    system::close_page(data, bytes);
    errno = number;
    failed("there is one, or it cannot be made");
  }
  system::remove_file(partial);
}

SOMA_INLINE StatusPage::~StatusPage() {
  system::remove_file(path_);
  system::close_page(page_, sizeof(detail::StatusPageWords));
}

SOMA_INLINE void StatusPage::publish() { detail::write_status(*page_, status_); }

SOMA_INLINE void StatusPage::take_away_dead(const std::string& folder) {
  std::error_code problem;
  std::filesystem::directory_iterator entries(folder, problem);
  for (; !problem && entries != std::filesystem::directory_iterator(); entries.increment(problem)) {
    const std::string name = entries->path().filename().string();
    const bool number = name.find_first_not_of("0123456789") == std::string::npos;
    if (!number || name.size() > 10) continue;
    if (!detail::process_start(std::strtoull(name.c_str(), nullptr, 10)))
      system::remove_file(entries->path().string());
  }
}

}  // namespace SOMA_NAMESPACE
