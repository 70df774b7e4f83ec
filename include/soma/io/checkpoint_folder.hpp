#pragma once
// Checkpoints in a folder: each is a folder of its own, which appears completely or not at all.
//   step-0000000123/   its files: checkpoint_files.hpp
//   best/              the same
//   lock               held by whoever writes
// A checkpoint with two numbers and ".partial" after its name was not finished, or is being
// deleted; one that ends in ".damaged" did not match its checksums and is kept for inspection. A
// path with such a name and none of a checkpoint's files belongs to others, and stays as it is.

#include <soma/io/atomic_folder.hpp>
#include <soma/io/checkpoint_files.hpp>
#include <soma/io/folders.hpp>
#include <soma/state/checkpoint.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

// Loads the checkpoint in one such folder (".../best"), while other processes may use the others.
// Tensors are read-only and lie in the mapped files, which may be deleted meanwhile; tensors whose
// rows are in several parts are copies. Errors checkpoint.damaged, file.read; checkpoint.operator
// (the context lacks an operator of the checkpoint's model); safetensors.*, record.json,
// checkpoint.parts for files from other programs.
Checkpoint load_checkpoint(Context& context, std::string_view path);

struct CheckpointFolderOptions {
  // The number of newest checkpoints that stay, without the best one, which always stays; 0: all.
  std::size_t keep = 3;
};

// Only one object at a time, in this process or another, may use a folder: it holds the folder's
// lock. The lock ends with the process, however that ends (a forked child holds it too).
class CheckpointFolder final : public CheckpointStore {
 public:
  // Makes the folder if it does not exist. Errors file.write, checkpoint.locked.
  explicit CheckpointFolder(std::string_view path, const CheckpointFolderOptions& options = {});
  SOMA_INLINE ~CheckpointFolder() override;
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  // Replaces the checkpoint of that step, if there is one. Older checkpoints are deleted only once
  // the new one is complete and on the disk. Costs writing everything and reading it back once,
  // except for states that were saved in parts. Errors file.write (earlier checkpoints are
  // unchanged, and nothing remains of this one), checkpoint.step, checkpoint.parts (parts are
  // missing), and those of save_safetensors and to_json.
  SOMA_INLINE void save(std::uint64_t step, const Checkpoint& checkpoint) override;

  // The place is a new folder. Errors file.write.
  SOMA_INLINE std::string begin_parts(std::optional<std::uint64_t> step) override;
  // Saves rank 0's own part; the other ranks have a CheckpointPartFolder. Errors as there.
  SOMA_INLINE void save_part(const std::string& place, CheckpointState which,
                             const CheckpointPart& part, const StateDict& state) override;
  SOMA_INLINE void drop_parts() override;

  // A folder gets its name only when it is complete and on the disk, so a folder that does not
  // match its checksums was damaged later. That should not end a run that can resume from the
  // previous checkpoint: the log gets a warning, the folder is renamed to ".damaged", and the next
  // older checkpoint is loaded. A warning also names each path of others with a checkpoint's name.
  // Error checkpoint.damaged: there are checkpoints, and none is complete (then none is renamed).
  // Other errors as of load_checkpoint.
  SOMA_INLINE bool load_latest(Context& context, Checkpoint& checkpoint) override;
  // As load_latest(), but returns the name only: every rank reads for itself. Costs reading the
  // whole checkpoint once, for the checksums.
  SOMA_INLINE std::string find_latest(Context& context) override;

  // Errors as of save and load_checkpoint.
  SOMA_INLINE void save_best(const Checkpoint& checkpoint) override;
  SOMA_INLINE bool load_best(Context& context, Checkpoint& checkpoint) override;
  SOMA_INLINE std::string find_best() override;
  SOMA_INLINE Checkpoint load_named(Context& context, const std::string& place,
                                    const CheckpointNames& names) override;

  // The steps of all checkpoints, ascending. Error file.read.
  std::vector<std::uint64_t> steps() const;
  SOMA_INLINE std::optional<std::uint64_t> newest() const override;

  // Deletes all checkpoints, the best one and unfinished ones, but none that is ".damaged". Error
  // file.write: one remains.
  void clear();

 private:
  static constexpr std::string_view operation = "CheckpointFolder", prefix = "step-", best = "best";
  static constexpr std::string_view loading = "CheckpointFolder::load_latest";
  static constexpr std::size_t digits = 10;  // more where a step has more

  // Folders that are not complete, the newest first, and the reasons.
  using Damaged = std::vector<std::pair<std::string, std::string>>;

  std::string best_folder() const;
  bool has_best() const;
  // Empty if there are no checkpoints. Error checkpoint.damaged: there are some, and none is
  // complete.
  std::string newest_whole(Damaged& damaged) const;
  // The folder for a checkpoint with parts: the folder that was begun for it. No folder of another
  // checkpoint may remain. Error checkpoint.parts.
  void take_begun(std::string_view name, std::unique_ptr<AtomicFolder>& folder,
                  const Checkpoint& checkpoint, std::optional<std::uint64_t> step) const;

  std::string folder_of(std::uint64_t step) const;
  // The paths with a checkpoint's name that are none: never read, renamed or deleted.
  std::vector<std::string> foreign() const;
  void name_foreign(Context& context) const;
  static std::optional<std::uint64_t> step_of(std::string_view name);

  std::vector<std::string> names() const;
  // True if the name is the partial_name() of a checkpoint: other names with that ending belong to
  // others.
  static bool is_partial(std::string_view name);
  // Deletes the remains of a killed process.
  void remove_partial() const;
  static void set_aside(Context& context, const Damaged& damaged);

  std::string path_;
  CheckpointFolderOptions options_;
  int lock_ = -1;
  std::unique_ptr<AtomicFolder> parts_{};      // begun, not saved
  std::optional<std::uint64_t> parts_step_{};  // none: of the best one
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/io/impl/checkpoint_folder.ipp>
#endif
