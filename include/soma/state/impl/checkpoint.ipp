#pragma once
// The functions of checkpoint.hpp.

#include <soma/state/checkpoint.hpp>

#include <soma/base/record.hpp>
#include <soma/state/state_dict.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE {

SOMA_INLINE std::size_t& CheckpointParts::operator[](CheckpointState state) {
  return counts[static_cast<std::size_t>(state)];
}

SOMA_INLINE std::size_t CheckpointParts::operator[](CheckpointState state) const {
  return counts[static_cast<std::size_t>(state)];
}

SOMA_INLINE bool CheckpointParts::any() const { return counts != decltype(counts){}; }

SOMA_INLINE const StateDict& Checkpoint::state(CheckpointState which) const {
  return which == CheckpointState::weights     ? weights
         : which == CheckpointState::optimizer ? optimizer
         : which == CheckpointState::precision ? precision
                                               : task;
}

SOMA_INLINE StateDict& Checkpoint::state(CheckpointState which) {
  return const_cast<StateDict&>(std::as_const(*this).state(which));
}

SOMA_INLINE std::string CheckpointStore::begin_parts(std::optional<std::uint64_t> /*step*/) {
  no_parts();
}

SOMA_INLINE void CheckpointStore::save_part(const std::string& /*place*/, CheckpointState /*which*/,
                                            const CheckpointPart& /*part*/,
                                            const StateDict& /*state*/) {
  no_parts();
}

SOMA_INLINE std::string CheckpointStore::find_latest(Context& /*context*/) { no_parts(); }

SOMA_INLINE std::string CheckpointStore::find_best() { no_parts(); }

SOMA_INLINE Checkpoint CheckpointStore::load_named(Context& /*context*/,
                                                   const std::string& /*place*/,
                                                   const CheckpointNames& /*names*/) {
  no_parts();
}

SOMA_INLINE void CheckpointStore::no_parts() {
  fail(error_id::checkpoint_parts, "CheckpointStore", "store",
       "a store that takes whole states only",
       "a store that ranks can save parts to, such as CheckpointFolder");
}

SOMA_INLINE void check_identity(const Record& saved, const Record& current) {
  std::string names, given, wanted;
  const auto differ = [&](std::string_view name, std::string_view now, std::string_view then) {
    const std::string_view comma = names.empty() ? "" : ", ";
    names.append(comma).append(soma::quoted(name));
    given.append(comma).append(now);
    wanted.append(comma).append(then);
  };
  constexpr std::string_view absent = "not there";
  for (const auto& [name, value] : current.entries()) {
    const RecordValue* then = saved.find(name);
    // Compared as text, because a file does not store whether a 5 was signed.
    if (then == nullptr)
      differ(name, to_text(value), absent);
    else if (to_text(value) != to_text(*then))
      differ(name, to_text(value), to_text(*then));
  }
  for (const auto& [name, value] : saved.entries())
    if (!current.contains(name)) differ(name, absent, to_text(value));
  if (!names.empty())
    fail(error_id::checkpoint_identity, "check_identity", names, given,
         wanted.append(", as the checkpoint has it"));
}

}  // namespace SOMA_NAMESPACE
