#pragma once
// The functions of checkpoint_part_folder.hpp.

#include <soma/io/checkpoint_part_folder.hpp>

#include <soma/io/checkpoint_files.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

SOMA_INLINE void CheckpointPartFolder::save_part(const std::string& place, CheckpointState which,
                                                 const CheckpointPart& part,
                                                 const StateDict& state) {
  detail::write_part("CheckpointPartFolder::save_part", path_, place, which, part, state);
}

SOMA_INLINE Checkpoint CheckpointPartFolder::load_named(Context& context, const std::string& place,
                                                        const CheckpointNames& names) {
  return detail::read_checkpoint(context, "CheckpointPartFolder::load_named", path_ + "/" + place,
                                 &names);
}

SOMA_INLINE void CheckpointPartFolder::save(std::uint64_t, const Checkpoint&) {
  only_parts("save");
}

SOMA_INLINE bool CheckpointPartFolder::load_latest(Context&, Checkpoint&) {
  only_parts("load_latest");
}

SOMA_INLINE void CheckpointPartFolder::save_best(const Checkpoint&) { only_parts("save_best"); }

SOMA_INLINE bool CheckpointPartFolder::load_best(Context&, Checkpoint&) { only_parts("load_best"); }

SOMA_INLINE void CheckpointPartFolder::only_parts(std::string_view function) const {
  fail(error_id::checkpoint_parts, std::string("CheckpointPartFolder::").append(function), "folder",
       soma::quoted(path_) + ", for parts only", "rank 0's CheckpointFolder");
}

}  // namespace SOMA_NAMESPACE
