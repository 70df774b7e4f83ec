#pragma once
// Checkpoints in a folder: each is a folder of its own, which appears completely or not at all.
//   step-0000000123/   its files: checkpoint_files.hpp
//   best/              the same
//   lock               held by whoever writes
// A checkpoint with two numbers and ".partial" after its name was not finished, or is being
// deleted; one that ends in ".damaged" did not match its checksums and is kept for inspection.

#include <soma/io/atomic_folder.hpp>
#include <soma/io/checkpoint_files.hpp>
#include <soma/io/folders.hpp>
#include <soma/state/checkpoint.hpp>

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

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace soma {

// Loads the checkpoint in one such folder (".../best"), while other processes may use the others.
// Tensors are read-only and lie in the mapped files, which may be deleted meanwhile; tensors whose
// rows are in several parts are copies. Errors checkpoint.damaged, file.read; checkpoint.operator
// (the context lacks an operator of the checkpoint's model); safetensors.*, record.json,
// checkpoint.parts for files from other programs.
inline Checkpoint load_checkpoint(Context& context, std::string_view path) {
  constexpr std::string_view operation = "load_checkpoint";
  const std::string folder(path);
  const std::string problem = detail::checkpoint_problem(operation, folder);
  if (!problem.empty())
    fail(error_id::checkpoint_damaged, operation, "folder",
         soma::quoted(folder) + ", which " + problem, "a whole checkpoint");
  return detail::read_checkpoint(context, operation, folder);
}

struct CheckpointFolderOptions {
  std::size_t keep = 3;  // the newest that many stay; 0: all. The best one is not among them.
};

// Only one object at a time, in this process or another, may use a folder: it holds the folder's
// lock. The lock ends with the process, however that ends (a forked child holds it too).
class CheckpointFolder final : public CheckpointStore {
 public:
  // Makes the folder if it does not exist. Errors file.write, checkpoint.locked.
  explicit CheckpointFolder(std::string_view path, const CheckpointFolderOptions& options = {})
      : path_(path), options_(options) {
    soma::make_folders(operation, path_);
    const std::string name = path_ + "/lock";
    const auto failed = [&](std::string_view problem, int number) {
      if (lock_ >= 0) ::close(std::exchange(lock_, -1));
      detail::file_failed(error_id::file_write, operation, name, problem, number,
                          "a file that can be locked");
    };
    lock_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock_ < 0) failed("cannot open", errno);
    int result = 0;
    do result = ::flock(lock_, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    if (result == 0) return;
    if (errno != EWOULDBLOCK) failed("cannot lock", errno);
    ::close(std::exchange(lock_, -1));
    fail(error_id::checkpoint_locked, operation, "folder",
         soma::quoted(path_) + ", which is in use", "a folder that nobody else writes to");
  }
  ~CheckpointFolder() override {
    parts_.reset();  // as long as the lock is held
    if (lock_ >= 0) ::close(lock_);
  }
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  // Replaces the checkpoint of that step, if there is one. Older checkpoints are deleted only once
  // the new one is complete and on the disk. Costs writing everything and reading it back once,
  // except for states that were saved in parts. Errors file.write (earlier checkpoints are
  // unchanged, and nothing remains of this one), checkpoint.step, checkpoint.parts (parts are
  // missing), and those of save_safetensors and to_json.
  void save(std::uint64_t step, const Checkpoint& checkpoint) override {
    constexpr std::string_view name = "CheckpointFolder::save";
    std::unique_ptr<AtomicFolder> folder = std::move(parts_);  // gone, whatever happens
    take_begun(name, folder, checkpoint, step);
    const std::vector<std::uint64_t> before = steps();
    // A run resumes from the newest checkpoint: a run that started anew would later be thrown back.
    if (!before.empty() && before.back() > step)
      fail(error_id::checkpoint_step, name, "step", std::to_string(step),
           "at least " + std::to_string(before.back()) + ", the newest in " + soma::quoted(path_));
    if (folder == nullptr) folder = std::make_unique<AtomicFolder>(name, folder_of(step));
    detail::write_checkpoint(name, *folder, checkpoint);
    std::vector<std::uint64_t> all = steps();
    if (options_.keep == 0 || all.size() <= options_.keep) return;
    all.resize(all.size() - options_.keep);
    for (const std::uint64_t old : all) detail::remove_folder(folder_of(old));
  }

  // The place is a new folder, so that a rank of an earlier run that still writes a part finds no
  // place. Errors file.write.
  std::string begin_parts(std::optional<std::uint64_t> step) override {
    drop_parts();
    remove_partial();
    parts_ = std::make_unique<AtomicFolder>("CheckpointFolder::save",
                                            step ? folder_of(*step) : best_folder());
    parts_step_ = step;
    return parts_->partial().substr(path_.size() + 1);
  }
  // Saves rank 0's own part; the other ranks have a CheckpointPartFolder. Errors as there.
  void save_part(const std::string& place, CheckpointState which, const CheckpointPart& part,
                 const StateDict& state) override {
    detail::write_part("CheckpointFolder::save_part", path_, place, which, part, state);
  }
  void drop_parts() override { parts_.reset(); }

  // A folder gets its name only when it is complete and on the disk, so a folder that does not
  // match its checksums was damaged later. That should not end a run that can resume from the
  // previous checkpoint: the log gets a warning, the folder is renamed to ".damaged", and the next
  // older checkpoint is loaded. Error checkpoint.damaged: there are checkpoints, and none is
  // complete (then none is renamed). Other errors as of load_checkpoint.
  bool load_latest(Context& context, Checkpoint& checkpoint) override {
    Damaged damaged;
    const std::string folder = newest_whole(damaged);
    if (folder.empty()) return false;
    checkpoint = detail::read_checkpoint(context, loading, folder);
    set_aside(context, damaged);
    return true;
  }
  // As load_latest(), but returns the name only: every rank reads for itself. Costs reading the
  // whole checkpoint once, for the checksums.
  std::string find_latest(Context& context) override {
    Damaged damaged;
    const std::string folder = newest_whole(damaged);
    set_aside(context, damaged);
    return folder.empty() ? folder : folder.substr(path_.size() + 1);
  }

  // Errors as of save and load_checkpoint.
  void save_best(const Checkpoint& checkpoint) override {
    constexpr std::string_view name = "CheckpointFolder::save_best";
    std::unique_ptr<AtomicFolder> folder = std::move(parts_);
    take_begun(name, folder, checkpoint, std::nullopt);
    if (folder == nullptr) folder = std::make_unique<AtomicFolder>(name, best_folder());
    detail::write_checkpoint(name, *folder, checkpoint);
  }
  bool load_best(Context& context, Checkpoint& checkpoint) override {
    if (!has_best()) return false;
    checkpoint = load_checkpoint(context, best_folder());
    return true;
  }
  std::string find_best() override {
    if (!has_best()) return {};
    constexpr std::string_view name = "CheckpointFolder::find_best";
    if (const std::string problem = detail::checkpoint_problem(name, best_folder());
        !problem.empty())
      fail(error_id::checkpoint_damaged, name, "folder",
           soma::quoted(best_folder()) + ", which " + problem, "a whole checkpoint");
    return std::string(best);
  }
  Checkpoint load_named(Context& context, const std::string& place,
                        const CheckpointNames& names) override {
    return detail::read_checkpoint(context, "CheckpointFolder::load_named", path_ + "/" + place,
                                   &names);
  }

  // The steps of all checkpoints, ascending. Error file.read.
  std::vector<std::uint64_t> steps() const {
    std::vector<std::uint64_t> result;
    for (const std::string& name : names())
      if (const std::optional<std::uint64_t> step = step_of(name)) result.push_back(*step);
    std::sort(result.begin(), result.end());
    return result;
  }

 private:
  static constexpr std::string_view operation = "CheckpointFolder", prefix = "step-", best = "best";
  static constexpr std::string_view loading = "CheckpointFolder::load_latest";
  static constexpr std::size_t digits = 10;  // more where a step has more

  // Folders that are not complete, the newest first, and the reasons.
  using Damaged = std::vector<std::pair<std::string, std::string>>;

  std::string best_folder() const { return path_ + "/" + std::string(best); }
  bool has_best() const {
    std::error_code problem;
    return std::filesystem::exists(best_folder(), problem);
  }
  // Empty if there are no checkpoints. Error checkpoint.damaged: there are some, and none is
  // complete.
  std::string newest_whole(Damaged& damaged) const {
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
  // The folder for a checkpoint with parts: the folder that was begun for it. No folder of another
  // checkpoint may remain. Error checkpoint.parts.
  void take_begun(std::string_view name, std::unique_ptr<AtomicFolder>& folder,
                  const Checkpoint& checkpoint, std::optional<std::uint64_t> step) const {
    if (!checkpoint.parts.any()) {
      folder.reset();
      return remove_partial();
    }
    if (folder == nullptr || parts_step_ != step)
      fail(error_id::checkpoint_parts, name, "step",
           step ? std::to_string(*step) : std::string("the best step"),
           "the step that begin_parts() got");
  }

  std::string folder_of(std::uint64_t step) const {
    const std::string number = std::to_string(step);
    std::string path = path_ + "/" + std::string(prefix);
    return path.append(number.size() < digits ? digits - number.size() : 0, '0').append(number);
  }
  static std::optional<std::uint64_t> step_of(std::string_view name) {
    if (!name.starts_with(prefix) || name.size() < prefix.size() + digits) return std::nullopt;
    name.remove_prefix(prefix.size());
    std::uint64_t step = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
    if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
    // Each step has exactly one name, otherwise the same step could exist twice.
    if (name.size() > digits && name.starts_with('0')) return std::nullopt;
    return step;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> result;
    std::error_code problem;
    for (std::filesystem::directory_iterator entry(path_, problem), end; !problem && entry != end;
         entry.increment(problem))
      result.push_back(entry->path().filename().string());
    if (problem)
      detail::file_failed(error_id::file_read, operation, path_, "cannot list it", problem.value(),
                          "a folder that can be read");
    return result;
  }
  // True if the name is the partial_name() of a checkpoint: other names with that ending belong to
  // others.
  static bool is_partial(std::string_view name) {
    name = detail::whole_name(name);
    return name == best || step_of(name);
  }
  // Deletes the remains of a killed process. No other process is at work, because this one holds
  // the lock.
  void remove_partial() const {
    std::error_code problem;
    for (const std::string& name : names())
      if (is_partial(name)) std::filesystem::remove_all(path_ + "/" + name, problem);
  }
  static void set_aside(Context& context, const Damaged& damaged) {
    for (const auto& [path, why] : damaged) {
      std::error_code problem;
      std::filesystem::remove_all(path + ".damaged", problem);
      std::filesystem::rename(path, path + ".damaged", problem);
      context.log(LogLevel::warning, "CheckpointFolder: " + soma::quoted(path) + " " + why +
                                         "; an older checkpoint is taken, and it is renamed to "
                                         "\".damaged\"" +
                                         (problem ? ", which failed" : ""));
    }
  }

  std::string path_;
  CheckpointFolderOptions options_;
  int lock_ = -1;
  std::unique_ptr<AtomicFolder> parts_{};      // begun, not saved
  std::optional<std::uint64_t> parts_step_{};  // none: of the best one
};

}  // namespace soma
