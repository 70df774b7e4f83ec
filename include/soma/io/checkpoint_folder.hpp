#pragma once
// Checkpoints in a folder: each is a folder of its own, which appears in whole or not at all.
//   step-0000000123/weights.safetensors optimizer.safetensors precision.safetensors
//                   progress.json identity.json checksums.txt
//   best/           the same
//   lock            held by whoever writes
// A folder whose name ends in ".partial" is one that was not finished, or is being deleted; one
// that ends in ".damaged" did not match its checksums and is left to be looked at.

#include <soma/io/atomic_folder.hpp>
#include <soma/io/checksums.hpp>
#include <soma/io/folders.hpp>
#include <soma/io/record_json.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/state/checkpoint.hpp>
#include <soma/state/operators.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
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

namespace detail {

inline constexpr std::array<std::string_view, 5> checkpoint_files{
    "weights.safetensors", "optimizer.safetensors", "precision.safetensors", "progress.json",
    "identity.json"};

// Writes a checkpoint as the folder `path`, in whole or not at all.
inline void write_checkpoint(std::string_view operation, const std::string& path,
                             const Checkpoint& checkpoint) {
  AtomicFolder folder(operation, path);
  save_safetensors(folder / checkpoint_files[0], checkpoint.weights);
  save_safetensors(folder / checkpoint_files[1], checkpoint.optimizer);
  save_safetensors(folder / checkpoint_files[2], checkpoint.precision);
  const std::pair<std::string_view, const Record*> records[] = {
      {checkpoint_files[3], &checkpoint.progress}, {checkpoint_files[4], &checkpoint.identity}};
  for (const auto& [name, record] : records) {
    AtomicFile file(operation, folder / name);
    file.write(to_json(*record).append("\n"));
    file.commit();
  }
  write_checksums(operation, folder / ".", checkpoint_files);
  folder.commit();
}

// Of a folder whose checksums match.
inline Checkpoint read_checkpoint(Context& context, std::string_view operation,
                                  const std::string& path) {
  const auto file = [&](std::size_t i) { return path + "/" + std::string(checkpoint_files[i]); };
  const auto record = [&](std::size_t i, std::string_view what) {
    const auto mapped = MappedFile::open(operation, file(i));
    const std::string_view text(reinterpret_cast<const char*>(mapped->bytes().data()),
                                mapped->bytes().size());
    return record_from_json(text, std::string(what) + " of " + soma::quoted(path));
  };
  Record progress = record(3, "progress");
  check_operators(progress, context);
  return {.weights = load_safetensors(context, file(0)).tensors,
          .optimizer = load_safetensors(context, file(1)).tensors,
          .precision = load_safetensors(context, file(2)).tensors,
          .progress = std::move(progress),
          .identity = record(4, "identity")};
}

}  // namespace detail

// The checkpoint in one such folder (".../best"), whoever else uses the others. Tensors are
// read-only and lie in the mapped files, which may be deleted meanwhile. Errors checkpoint.damaged,
// file.read; checkpoint.operator (the context lacks one that the checkpoint's model ran);
// safetensors.*, record.json of files that were made by something else.
inline Checkpoint load_checkpoint(Context& context, std::string_view path) {
  constexpr std::string_view operation = "load_checkpoint";
  const std::string folder(path);
  const std::string problem = detail::checksum_problem(operation, folder, detail::checkpoint_files);
  if (!problem.empty())
    fail(error_id::checkpoint_damaged, operation, "folder",
         soma::quoted(folder) + ", which " + problem, "a whole checkpoint");
  return detail::read_checkpoint(context, operation, folder);
}

struct CheckpointFolderOptions {
  std::size_t keep = 3;  // the newest that many stay; 0: all. The best one is not among them.
};

// One object at a time may use a folder, in this process or another: it holds the folder's lock.
// The lock ends with the process, however that ends (a child that was forked holds it too).
class CheckpointFolder final : public CheckpointStore {
 public:
  // The folder is made where it is not there yet. Errors file.write, checkpoint.locked.
  explicit CheckpointFolder(std::string_view path, const CheckpointFolderOptions& options = {})
      : path_(path), options_(options) {
    detail::make_folders(operation, path_);
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
         soma::quoted(path_) + ", which is in use", "one that nobody else writes to");
  }
  ~CheckpointFolder() override {
    if (lock_ >= 0) ::close(lock_);
  }
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  // Replaces the one of that step, if there is one. Only when it is whole, and on the disk, are
  // older ones deleted. Costs writing everything and reading it back once. Errors file.write (what
  // was there before is unchanged, and nothing of this one is left), checkpoint.step, and those of
  // save_safetensors and to_json.
  void save(std::uint64_t step, const Checkpoint& checkpoint) override {
    remove_partial();
    const std::vector<std::uint64_t> before = steps();
    // The newest is what a run goes on from: one that began anew would later be thrown back.
    if (!before.empty() && before.back() > step)
      fail(error_id::checkpoint_step, "CheckpointFolder::save", "step", std::to_string(step),
           "at least " + std::to_string(before.back()) + ", the newest in " + soma::quoted(path_));
    detail::write_checkpoint("CheckpointFolder::save", folder_of(step), checkpoint);
    std::vector<std::uint64_t> all = steps();
    if (options_.keep == 0 || all.size() <= options_.keep) return;
    all.resize(all.size() - options_.keep);
    for (const std::uint64_t old : all) detail::remove_folder(folder_of(old));
  }

  // A folder has its name only since it was whole and on the disk, so one that does not match its
  // checksums was damaged afterwards. That should not end a run that can go on from the one before:
  // the log is warned, the folder renamed to ".damaged", and the next older one is taken. Error
  // checkpoint.damaged: there are some, and none is whole (then none is renamed). Others as
  // load_checkpoint.
  bool load_latest(Context& context, Checkpoint& checkpoint) override {
    constexpr std::string_view name = "CheckpointFolder::load_latest";
    std::vector<std::pair<std::string, std::string>> damaged;
    const std::vector<std::uint64_t> all = steps();
    for (std::size_t i = all.size(); i-- > 0;) {
      const std::string folder = folder_of(all[i]);
      std::string problem = detail::checksum_problem(name, folder, detail::checkpoint_files);
      if (problem.empty()) {
        checkpoint = detail::read_checkpoint(context, name, folder);
        for (const auto& [path, why] : damaged) set_aside(context, path, why);
        return true;
      }
      damaged.emplace_back(folder, std::move(problem));
    }
    if (damaged.empty()) return false;
    fail(error_id::checkpoint_damaged, name, "folder",
         soma::quoted(damaged.front().first) + ", which " + damaged.front().second +
             (damaged.size() > 1 ? ", as " + std::to_string(damaged.size() - 1) + " older ones"
                                 : std::string()),
         "a whole checkpoint");
  }

  // Errors as of save and load_checkpoint.
  void save_best(const Checkpoint& checkpoint) override {
    remove_partial();
    detail::write_checkpoint("CheckpointFolder::save_best", path_ + "/best", checkpoint);
  }
  bool load_best(Context& context, Checkpoint& checkpoint) override {
    std::error_code problem;
    if (!std::filesystem::exists(path_ + "/best", problem)) return false;
    checkpoint = load_checkpoint(context, path_ + "/best");
    return true;
  }

  // Of all checkpoints, ascending. Error file.read.
  std::vector<std::uint64_t> steps() const {
    std::vector<std::uint64_t> result;
    for (const std::string& name : names())
      if (const std::optional<std::uint64_t> step = step_of(name)) result.push_back(*step);
    std::sort(result.begin(), result.end());
    return result;
  }

 private:
  static constexpr std::string_view operation = "CheckpointFolder", prefix = "step-";
  static constexpr std::size_t digits = 10;  // more where a step has more

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
    // One name for each step, or the same step would be there twice.
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
  // What a process that was killed has left. Nobody else is at work: the lock is ours.
  void remove_partial() const {
    std::error_code problem;
    for (const std::string& name : names())
      if (name.ends_with(".partial")) std::filesystem::remove_all(path_ + "/" + name, problem);
  }
  static void set_aside(Context& context, const std::string& path, const std::string& why) {
    std::error_code problem;
    std::filesystem::remove_all(path + ".damaged", problem);
    std::filesystem::rename(path, path + ".damaged", problem);
    context.log(LogLevel::warning, "CheckpointFolder: " + soma::quoted(path) + " " + why +
                                       "; an older checkpoint is taken, and it is renamed to "
                                       "\".damaged\"" +
                                       (problem ? ", which failed" : ""));
  }

  std::string path_;
  CheckpointFolderOptions options_;
  int lock_ = -1;
};

}  // namespace soma
