#pragma once
// CheckpointPartFolder: the place where a rank other than 0 writes its parts of a checkpoint, and
// reads the entries that it needs.

#include <soma/io/checkpoint_files.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

// The folder of rank 0's CheckpointFolder, perhaps under another path or on another machine: both
// must see the same files. It takes no lock and only handles parts: the functions for whole
// checkpoints give error checkpoint.parts.
class CheckpointPartFolder final : public CheckpointStore {
 public:
  explicit CheckpointPartFolder(std::string_view path) : path_(path) {}

  // When this returns, the part is on the disk. Costs writing it and reading it back once. Errors
  // checkpoint.parts (the folder that rank 0 has begun is missing), file.write, and those of
  // save_safetensors.
  SOMA_INLINE void save_part(const std::string& place, CheckpointState which,
                             const CheckpointPart& part, const StateDict& state) override;
  // Reads a checkpoint that rank 0 has found to be complete. Errors file.read, and those of
  // load_checkpoint except checkpoint.damaged.
  SOMA_INLINE Checkpoint load_named(Context& context, const std::string& place,
                                    const CheckpointNames& names) override;

  SOMA_INLINE void save(std::uint64_t, const Checkpoint&) override;
  SOMA_INLINE bool load_latest(Context&, Checkpoint&) override;
  SOMA_INLINE void save_best(const Checkpoint&) override;
  SOMA_INLINE bool load_best(Context&, Checkpoint&) override;

 private:
  [[noreturn]] void only_parts(std::string_view function) const;

  std::string path_;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/io/impl/checkpoint_part_folder.ipp>
#endif
