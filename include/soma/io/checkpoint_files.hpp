#pragma once
// Writes, checks and reads the files of one checkpoint.
//   weights.safetensors optimizer.safetensors precision.safetensors
//   progress.json identity.json checksums.txt
//   task.safetensors                            where the task keeps something beside weights
// Where ranks have parts of a state, there are their files instead of its one:
//   optimizer-00001-of-00004.safetensors ...
// Whose tensors are whole, or rows that follow each other part after part (join_parts). Until the
// folder is complete, each part has its line of checksums.txt in a file of its own beside it.

#include <soma/io/atomic_folder.hpp>
#include <soma/io/checksums.hpp>
#include <soma/io/record_json.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/state/checkpoint.hpp>
#include <soma/state/join_parts.hpp>
#include <soma/state/operators.hpp>

#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::detail {

inline constexpr std::string_view part_separator = "-of-";
inline constexpr std::size_t part_digits = 5, most_parts = 99999;

std::string_view state_name(CheckpointState state);
std::string state_file(CheckpointState state);
std::string part_file(CheckpointState state, const CheckpointPart& part);

// In the order of checksums.txt.
std::vector<std::string> checkpoint_files(const CheckpointParts& parts, bool has_task);

// The folder's list of checksums. A damaged list does not match the files, whatever its content.
// Error file.read.
std::string read_checksums(std::string_view operation, const std::string& folder);
bool names_task(std::string_view checksums);
// The number of parts of each state in the list.
CheckpointParts count_parts(std::string_view text);

// True if the folder has one of the files that every checkpoint has: other programs' folders may
// have a checkpoint's name.
bool is_checkpoint(const std::string& folder);

// As checksum_problem(), for all files of the checkpoint.
std::string checkpoint_problem(std::string_view operation, const std::string& folder);

void write_text_file(std::string_view operation, const std::string& path, std::string_view text);

// A file beside the part, until the folder is complete.
inline std::string part_checksum(const std::string& path) { return path + ".checksum"; }

// Writes one rank's part, with its checksum, to `place` in the folder of checkpoints.
void write_part(std::string_view operation, const std::string& path, const std::string& place,
                CheckpointState which, const CheckpointPart& part, const StateDict& state);

// Collects and deletes the checksums beside a state's parts. Error checkpoint.parts names the first
// part that is missing or differs from its checksum.
std::string take_part_checksums(std::string_view operation, const AtomicFolder& folder,
                                CheckpointState which, std::size_t parts);

// Writes into a folder that already has the parts, if any.
void write_checkpoint(std::string_view operation, AtomicFolder& folder,
                      const Checkpoint& checkpoint);

// Reads a folder whose checksums match. `names`: the wanted entries of weights and optimizer;
// nullptr: all. Files are mapped, so that other entries are not read.
Checkpoint read_checkpoint(Context& context, std::string_view operation, const std::string& path,
                           const CheckpointNames* names = nullptr);

}  // namespace SOMA_NAMESPACE::detail

#ifndef SOMA_DISPATCH
#include <soma/io/impl/checkpoint_files.ipp>
#endif
