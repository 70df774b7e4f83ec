#pragma once
// CheckpointPartFolder: where a rank other than 0 writes its parts of a checkpoint, and reads what
// it needs.

#include <soma/io/checkpoint_files.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace soma {

// The folder that rank 0's CheckpointFolder uses, perhaps under another path or on another machine:
// both see the same files. Takes no lock, and nothing but parts; whoever calls one of the functions
// for whole checkpoints gets error checkpoint.parts.
class CheckpointPartFolder final : public CheckpointStore {
 public:
  explicit CheckpointPartFolder(std::string_view path) : path_(path) {}

  // On the disk when this returns. Costs writing it and reading it back once. Errors
  // checkpoint.parts (what rank 0 has begun is not there), file.write, and those of
  // save_safetensors.
  void save_part(const std::string& place, CheckpointState which, const CheckpointPart& part,
                 const StateDict& state) override {
    detail::write_part("CheckpointPartFolder::save_part", path_, place, which, part, state);
  }
  // Of a checkpoint that rank 0 has found to be whole. Errors file.read, and those of
  // load_checkpoint but checkpoint.damaged.
  Checkpoint load_named(Context& context, const std::string& place,
                        const CheckpointNames& names) override {
    return detail::read_checkpoint(context, "CheckpointPartFolder::load_named", path_ + "/" + place,
                                   &names);
  }

  void save(std::uint64_t, const Checkpoint&) override { only_parts("save"); }
  bool load_latest(Context&, Checkpoint&) override { only_parts("load_latest"); }
  void save_best(const Checkpoint&) override { only_parts("save_best"); }
  bool load_best(Context&, Checkpoint&) override { only_parts("load_best"); }

 private:
  [[noreturn]] void only_parts(std::string_view function) const {
    fail(error_id::checkpoint_parts, std::string("CheckpointPartFolder::").append(function),
         "folder", soma::quoted(path_) + ", for parts only", "rank 0's CheckpointFolder");
  }

  std::string path_;
};

}  // namespace soma
