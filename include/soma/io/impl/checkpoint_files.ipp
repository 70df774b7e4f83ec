#pragma once
// The functions of checkpoint_files.hpp.

#include <soma/io/checkpoint_files.hpp>

#include <soma/io/atomic_folder.hpp>
#include <soma/io/checksums.hpp>
#include <soma/io/record_json.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/state/checkpoint.hpp>
#include <soma/state/join_parts.hpp>
#include <soma/state/operators.hpp>
#include <soma/system/files.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::detail {

inline constexpr std::array<std::string_view, 2> record_files{"progress.json", "identity.json"};

SOMA_INLINE std::string_view state_name(CheckpointState state) {
  constexpr std::array<std::string_view, all_checkpoint_states.size()> names{"weights", "optimizer",
                                                                             "precision", "task"};
  return names[static_cast<std::size_t>(state)];
}

SOMA_INLINE std::string state_file(CheckpointState state) {
  return std::string(state_name(state)).append(".safetensors");
}

SOMA_INLINE std::string part_file(CheckpointState state, const CheckpointPart& part) {
  const auto padded = [](std::size_t number) {
    const std::string text = std::to_string(number);
    return std::string(text.size() < part_digits ? part_digits - text.size() : 0, '0') + text;
  };
  std::string name(state_name(state));
  name.append("-").append(padded(part.index + 1)).append(part_separator);
  return name.append(padded(part.count)).append(".safetensors");
}

SOMA_INLINE std::vector<std::string> checkpoint_files(const CheckpointParts& parts, bool has_task) {
  std::vector<std::string> names;
  for (const CheckpointState state : all_checkpoint_states) {
    if (state == CheckpointState::task && !has_task) continue;
    if (parts[state] == 0) names.push_back(state_file(state));
    for (std::size_t i = 0; i < parts[state]; ++i)
      names.push_back(part_file(state, {i, parts[state]}));
  }
  for (const std::string_view name : record_files) names.emplace_back(name);
  return names;
}

SOMA_INLINE std::string read_checksums(std::string_view operation, const std::string& folder) {
  const std::string path = folder + "/" + std::string(checksums_name);
  if (!system::is_regular(path)) return {};
  const auto list = MappedFile::open(operation, path);
  return {reinterpret_cast<const char*>(list->bytes().data()), list->bytes().size()};
}

SOMA_INLINE bool names_task(std::string_view checksums) {
  return checksums.find("  " + state_file(CheckpointState::task) + "\n") != checksums.npos;
}

SOMA_INLINE CheckpointParts count_parts(std::string_view text) {
  CheckpointParts parts;
  for (const CheckpointState state : all_checkpoint_states) {
    std::string first(state_name(state));
    first.append("-").append(part_digits - 1, '0').append("1").append(part_separator);
    const std::size_t place = text.find(first);
    if (place == std::string_view::npos) continue;
    const std::string_view number = text.substr(place + first.size(), part_digits);
    std::from_chars(number.data(), number.data() + number.size(), parts[state]);
  }
  return parts;
}

SOMA_INLINE bool is_checkpoint(const std::string& folder) {
  const auto has = [&](std::string_view name) {
    return system::is_regular((folder + "/").append(name));
  };
  return has(checksums_name) || std::any_of(record_files.begin(), record_files.end(), has);
}

SOMA_INLINE std::string checkpoint_problem(std::string_view operation, const std::string& folder) {
  const std::string list = read_checksums(operation, folder);
  return checksum_problem(operation, folder, checkpoint_files(count_parts(list), names_task(list)));
}

SOMA_INLINE void write_text_file(std::string_view operation, const std::string& path,
                                 std::string_view text) {
  AtomicFile file(operation, path);
  file.write(text);
  file.commit();
}

SOMA_INLINE void write_part(std::string_view operation, const std::string& path,
                            const std::string& place, CheckpointState which,
                            const CheckpointPart& part, const StateDict& state) {
  const std::string folder = path + "/" + place;
  if (part.index >= part.count || part.count > most_parts)
    fail(error_id::checkpoint_parts, operation, "part",
         std::to_string(part.index + 1) + " of " + std::to_string(part.count),
         "one of at most " + std::to_string(most_parts));
  if (!system::is_folder(folder))
    fail(error_id::checkpoint_parts, operation, "folder",
         soma::quoted(folder) + ", which is not there",
         "the folder that rank 0 has made, in a folder that all ranks share");
  const std::string name = part_file(which, part), file = folder + "/" + name;
  save_safetensors(file, state);
  write_text_file(operation, part_checksum(file), checksum_line_of(operation, folder, name));
}

SOMA_INLINE std::string take_part_checksums(std::string_view operation, const AtomicFolder& folder,
                                            CheckpointState which, std::size_t parts) {
  std::string lines;
  for (std::size_t i = 0; i < parts; ++i) {
    const std::string name = part_file(which, {i, parts}), file = folder / name;
    const auto refuse = [&](std::string_view problem) {
      fail(error_id::checkpoint_parts, operation, "part", soma::quoted(file).append(problem),
           "one from each of " + std::to_string(parts) + " ranks, in a folder that all share");
    };
    const system::FileInfo part = system::info_of(file);
    if (part.kind == system::FileKind::none ||
        system::info_of(part_checksum(file)).kind == system::FileKind::none)
      refuse(", which is not there");
    const auto text = MappedFile::open(operation, part_checksum(file));
    const std::string_view line(reinterpret_cast<const char*>(text->bytes().data()),
                                text->bytes().size());
    if (!line.ends_with("  " + std::to_string(part.bytes) + "  " + name + "\n"))
      refuse(" of " + std::to_string(part.bytes) + " bytes, not those that were written");
    lines.append(line);
    system::remove_file(part_checksum(file));
  }
  return lines;
}

SOMA_INLINE void write_checkpoint(std::string_view operation, AtomicFolder& folder,
                                  const Checkpoint& checkpoint) {
  std::string checksums;
  const auto add_checksum = [&](std::string_view name) {
    checksums += checksum_line_of(operation, folder.partial(), name);
  };
  const auto write_state = [&](CheckpointState which) {
    if (checkpoint.parts[which] != 0) {
      checksums += take_part_checksums(operation, folder, which, checkpoint.parts[which]);
      return;
    }
    if (which == CheckpointState::task && checkpoint.task.empty()) return;
    save_safetensors(folder / state_file(which), checkpoint.state(which));
    add_checksum(state_file(which));
  };
  const auto write_record = [&](std::string_view name, const Record& record) {
    write_text_file(operation, folder / name, to_json(record).append("\n"));
    add_checksum(name);
  };
  for (const CheckpointState state : all_checkpoint_states) write_state(state);
  write_record("progress.json", checkpoint.progress);
  write_record("identity.json", checkpoint.identity);
  write_text_file(operation, folder / checksums_name, checksums);
  folder.commit();
}

SOMA_INLINE Checkpoint read_checkpoint(Context& context, std::string_view operation,
                                       const std::string& path, const CheckpointNames* names) {
  const std::string list = read_checksums(operation, path);
  const CheckpointParts parts = count_parts(list);
  const auto record = [&](std::string_view what) {
    const auto mapped = MappedFile::open(operation, path + "/" + std::string(what) + ".json");
    const std::string_view text(reinterpret_cast<const char*>(mapped->bytes().data()),
                                mapped->bytes().size());
    return record_from_json(text, std::string(what) + " of " + soma::quoted(path));
  };
  const auto tensors = [&](CheckpointState which, const std::string& name) {
    StateDict all = load_safetensors(context, path + "/" + name).tensors;
    const bool whole = which == CheckpointState::precision || which == CheckpointState::task;
    if (names == nullptr || whole) return all;
    StateDict wanted;
    for (const auto& [entry, tensor] : all)
      if (names->wants(entry)) wanted.set(entry, tensor);
    return wanted;
  };
  Checkpoint checkpoint;
  checkpoint.progress = record("progress");
  check_operators(checkpoint.progress, context);
  for (const CheckpointState which : all_checkpoint_states) {
    if (which == CheckpointState::task && !names_task(list)) continue;
    std::vector<StateDict> all;
    for (std::size_t i = 0; i < parts[which]; ++i)
      all.push_back(tensors(which, part_file(which, {i, parts[which]})));
    if (parts[which] == 0) all.push_back(tensors(which, state_file(which)));
    checkpoint.state(which) = join_parts(context, all);
  }
  checkpoint.identity = record("identity");
  return checkpoint;
}

}  // namespace SOMA_NAMESPACE::detail
