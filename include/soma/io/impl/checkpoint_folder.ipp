#pragma once
// The functions of checkpoint_folder.hpp.

#include <soma/base/contains.hpp>
#include <soma/io/checkpoint_folder.hpp>

#include <soma/io/atomic_folder.hpp>
#include <soma/io/checkpoint_files.hpp>
#include <soma/io/folders.hpp>
#include <soma/state/checkpoint.hpp>
#include <soma/system/files.hpp>
#include <soma/system/paths.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE Checkpoint load_checkpoint(Context& context, std::string_view path) {
  constexpr std::string_view operation = "load_checkpoint";
  const std::string folder(path);
  const std::string problem = detail::checkpoint_problem(operation, folder);
  if (!problem.empty())
    fail(error_id::checkpoint_damaged, operation, "folder",
         soma::quoted(folder) + ", which " + problem, "a whole checkpoint");
  return detail::read_checkpoint(context, operation, folder);
}

SOMA_INLINE CheckpointFolder::CheckpointFolder(std::string_view path,
                                               const CheckpointFolderOptions& options)
    : path_(path), options_(options) {
  soma::make_folders(operation, path_);
  const std::string name = path_ + "/lock";
  lock_ = system::open_lock(name);
  if (lock_ >= 0) return;
  if (errno != EWOULDBLOCK)
    detail::file_failed(error_id::file_write, operation, name, "cannot open or lock", errno,
                        "a file that can be locked");
  fail(error_id::checkpoint_locked, operation, "folder", soma::quoted(path_) + ", which is in use",
       "a folder that nobody else writes to");
}

SOMA_INLINE CheckpointFolder::~CheckpointFolder() {
  parts_.reset();  // as long as the lock is held
  if (lock_ >= 0) system::close_file(lock_);
}

SOMA_INLINE void CheckpointFolder::save(std::uint64_t step, const Checkpoint& checkpoint) {
  constexpr std::string_view name = "CheckpointFolder::save";
  std::unique_ptr<AtomicFolder> folder = std::move(parts_);  // gone, whatever happens
  take_begun(name, folder, checkpoint, step);
  const std::vector<std::uint64_t> before = steps();
  // A run resumes from the newest checkpoint: a run that started anew would later be thrown back.
  if (!before.empty() && before.back() > step)
    fail(error_id::checkpoint_step, name, "step", std::to_string(step),
         "at least " + std::to_string(before.back()) + ", the newest in " + soma::quoted(path_));
  if (const std::vector<std::string> others = foreign(); contains(others, folder_of(step)))
    fail(error_id::checkpoint_step, name, "step",
         std::to_string(step) + ", whose folder has other files", "a folder for checkpoints alone");
  if (folder == nullptr) folder = std::make_unique<AtomicFolder>(name, folder_of(step));
  detail::write_checkpoint(name, *folder, checkpoint);
  std::vector<std::uint64_t> all = steps();
  if (options_.keep == 0 || all.size() <= options_.keep) return;
  all.resize(all.size() - options_.keep);
  for (const std::uint64_t old : all) detail::remove_folder(folder_of(old));
}

// The folder is always a new one, so that a rank of an earlier run that still writes a part does
// not find it.
SOMA_INLINE std::string CheckpointFolder::begin_parts(std::optional<std::uint64_t> step) {
  drop_parts();
  remove_partial();
  parts_ = std::make_unique<AtomicFolder>("CheckpointFolder::save",
                                          step ? folder_of(*step) : best_folder());
  parts_step_ = step;
  return parts_->partial().substr(path_.size() + 1);
}

SOMA_INLINE void CheckpointFolder::save_part(const std::string& place, CheckpointState which,
                                             const CheckpointPart& part, const StateDict& state) {
  detail::write_part("CheckpointFolder::save_part", path_, place, which, part, state);
}

SOMA_INLINE void CheckpointFolder::drop_parts() { parts_.reset(); }

SOMA_INLINE bool CheckpointFolder::load_latest(Context& context, Checkpoint& checkpoint) {
  name_foreign(context);
  Damaged damaged;
  const std::string folder = newest_whole(damaged);
  if (folder.empty()) return false;
  checkpoint = detail::read_checkpoint(context, loading, folder);
  set_aside(context, damaged);
  return true;
}

SOMA_INLINE std::string CheckpointFolder::find_latest(Context& context) {
  name_foreign(context);
  Damaged damaged;
  const std::string folder = newest_whole(damaged);
  set_aside(context, damaged);
  return folder.empty() ? folder : folder.substr(path_.size() + 1);
}

SOMA_INLINE void CheckpointFolder::save_best(const Checkpoint& checkpoint) {
  constexpr std::string_view name = "CheckpointFolder::save_best";
  std::unique_ptr<AtomicFolder> folder = std::move(parts_);
  take_begun(name, folder, checkpoint, std::nullopt);
  if (folder == nullptr) folder = std::make_unique<AtomicFolder>(name, best_folder());
  detail::write_checkpoint(name, *folder, checkpoint);
}

SOMA_INLINE bool CheckpointFolder::load_best(Context& context, Checkpoint& checkpoint) {
  if (!has_best()) return false;
  checkpoint = load_checkpoint(context, best_folder());
  return true;
}

SOMA_INLINE std::string CheckpointFolder::find_best() {
  if (!has_best()) return {};
  constexpr std::string_view name = "CheckpointFolder::find_best";
  if (const std::string problem = detail::checkpoint_problem(name, best_folder()); !problem.empty())
    fail(error_id::checkpoint_damaged, name, "folder",
         soma::quoted(best_folder()) + ", which " + problem, "a whole checkpoint");
  return std::string(best);
}

SOMA_INLINE Checkpoint CheckpointFolder::load_named(Context& context, const std::string& place,
                                                    const CheckpointNames& names) {
  return detail::read_checkpoint(context, "CheckpointFolder::load_named", path_ + "/" + place,
                                 &names);
}

SOMA_INLINE std::vector<std::uint64_t> CheckpointFolder::steps() const {
  std::vector<std::uint64_t> result;
  for (const std::string& name : names())
    if (const std::optional<std::uint64_t> step = step_of(name);
        step && detail::is_checkpoint(path_ + "/" + name))
      result.push_back(*step);
  std::sort(result.begin(), result.end());
  return result;
}

SOMA_INLINE std::vector<std::string> CheckpointFolder::foreign() const {
  std::vector<std::string> result;
  for (const std::string& name : names())
    if (step_of(name) && !detail::is_checkpoint(path_ + "/" + name))
      result.push_back(path_ + "/" + name);
  return result;
}

SOMA_INLINE void CheckpointFolder::name_foreign(Context& context) const {
  for (const std::string& path : foreign())
    context.log(LogLevel::warning, "CheckpointFolder: " + soma::quoted(path) +
                                       " is no checkpoint, in spite of its name; it is left alone");
}

SOMA_INLINE std::optional<std::uint64_t> CheckpointFolder::newest() const {
  const std::vector<std::uint64_t> all = steps();
  return all.empty() ? std::nullopt : std::optional(all.back());
}

SOMA_INLINE void CheckpointFolder::clear() {
  drop_parts();
  remove_partial();
  std::vector<std::string> folders;
  for (const std::uint64_t step : steps()) folders.push_back(folder_of(step));
  if (has_best()) folders.push_back(best_folder());
  for (const std::string& folder : folders) {
    detail::remove_folder(folder);
    std::error_code problem;
    if (std::filesystem::exists(system::path_of(folder), problem))
      fail(error_id::file_write, "CheckpointFolder::clear", "folder",
           soma::quoted(folder) + ", which remains", "a folder that can be deleted");
  }
}

SOMA_INLINE std::string CheckpointFolder::best_folder() const {
  return path_ + "/" + std::string(best);
}

SOMA_INLINE bool CheckpointFolder::has_best() const {
  std::error_code problem;
  return std::filesystem::exists(system::path_of(best_folder()), problem);
}

SOMA_INLINE std::string CheckpointFolder::newest_whole(Damaged& damaged) const {
  const std::vector<std::uint64_t> all = steps();
  for (std::size_t i = all.size(); i-- > 0;) {
    const std::string folder = folder_of(all[i]);
    std::string problem = detail::checkpoint_problem(loading, folder);
    if (problem.empty()) return folder;
    damaged.emplace_back(folder, std::move(problem));
  }
  if (damaged.empty()) return {};
  fail(error_id::checkpoint_damaged, loading, "folder",
       soma::quoted(damaged.front().first) + ", which " + damaged.front().second +
           (damaged.size() > 1 ? ", as " + std::to_string(damaged.size() - 1) + " older ones"
                               : std::string()),
       "a whole checkpoint");
}

SOMA_INLINE void CheckpointFolder::take_begun(std::string_view name,
                                              std::unique_ptr<AtomicFolder>& folder,
                                              const Checkpoint& checkpoint,
                                              std::optional<std::uint64_t> step) const {
  if (!checkpoint.parts.any()) {
    folder.reset();
    return remove_partial();
  }
  if (folder == nullptr || parts_step_ != step)
    fail(error_id::checkpoint_parts, name, "step",
         step ? std::to_string(*step) : std::string("the best step"),
         "the step that begin_parts() got");
}

SOMA_INLINE std::string CheckpointFolder::folder_of(std::uint64_t step) const {
  const std::string number = std::to_string(step);
  std::string path = path_ + "/" + std::string(prefix);
  return path.append(number.size() < digits ? digits - number.size() : 0, '0').append(number);
}

SOMA_INLINE std::optional<std::uint64_t> CheckpointFolder::step_of(std::string_view name) {
  if (!name.starts_with(prefix) || name.size() < prefix.size() + digits) return std::nullopt;
  name.remove_prefix(prefix.size());
  std::uint64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  // Each step has exactly one name, otherwise the same step could exist twice.
  if (name.size() > digits && name.starts_with('0')) return std::nullopt;
  return step;
}

SOMA_INLINE std::vector<std::string> CheckpointFolder::names() const {
  std::vector<std::string> result;
  std::error_code problem;
  for (std::filesystem::directory_iterator entry(system::path_of(path_), problem), end;
       !problem && entry != end; entry.increment(problem))
    result.push_back(system::name_of(*entry));
  if (problem)
    detail::file_failed(error_id::file_read, operation, path_, "cannot list it", problem.value(),
                        "a folder that can be read");
  return result;
}

SOMA_INLINE bool CheckpointFolder::is_partial(std::string_view name) {
  name = detail::whole_name(name);
  return name == best || step_of(name);
}

// No other process is at work, because this one holds the lock.
SOMA_INLINE void CheckpointFolder::remove_partial() const {
  std::error_code problem;
  for (const std::string& name : names())
    if (is_partial(name)) std::filesystem::remove_all(system::path_of(path_ + "/" + name), problem);
}

SOMA_INLINE void CheckpointFolder::set_aside(Context& context, const Damaged& damaged) {
  for (const auto& [path, why] : damaged) {
    std::error_code problem;
    const std::filesystem::path place = system::path_of(path + ".damaged");
    std::filesystem::remove_all(place, problem);
    std::filesystem::rename(system::path_of(path), place, problem);
    context.log(LogLevel::warning, "CheckpointFolder: " + soma::quoted(path) + " " + why +
                                       "; an older checkpoint is taken, and it is renamed to "
                                       "\".damaged\"" +
                                       (problem ? ", which failed" : ""));
  }
}

}  // namespace SOMA_NAMESPACE
