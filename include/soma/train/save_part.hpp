#pragma once
// Saves parts of a checkpoint from all ranks in the folder that the first rank has begun.

#include <soma/parallel/agreement.hpp>
#include <soma/state/checkpoint.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train {

// The part that one rank writes.
struct PartToSave {
  CheckpointState which;
  CheckpointPart part;
  StateDict state;
};

// Removes from the checkpoint a state that `count` ranks write in parts; `mine`: true if this rank
// is one of them, with this index.
void take_part(Checkpoint& checkpoint, CheckpointState which, const CheckpointPart& part, bool mine,
               std::vector<PartToSave>& parts);

// Collective: every rank calls it, with any number of parts. When it returns, all parts are
// written. `step`: not set for the best checkpoint. any(bool): true if the argument is true on any
// rank.
template <class Any>
void save_parts(Communicator& communicator, CheckpointStore* store,
                std::optional<std::uint64_t> step, const std::vector<PartToSave>& parts,
                const Any& any) {
  const bool first = communicator.rank() == 0;
  const std::string place = soma::detail::broadcast_text(
      communicator, first ? store->begin_parts(step) : std::string(), 0);
  const auto write = [&] {
    for (const PartToSave& each : parts) store->save_part(place, each.which, each.part, each.state);
  };
  std::exception_ptr problem;
#if SOMA_HAS_EXCEPTIONS
  try {
    write();
  } catch (...) {
    problem = std::current_exception();
  }
#else
  write();
#endif
  if (!any(problem != nullptr)) return;
  // Rank 0 may be ended together with the others before it can clean up.
  if (first) store->drop_parts();
  communicator.barrier();
#if SOMA_HAS_EXCEPTIONS
  if (problem != nullptr) std::rethrow_exception(problem);
#endif
  communicator.barrier();  // ends with what a rank with a problem says
}

// Tests if every rank can write at rank 0's place: each rank writes a part that is then dropped.
template <class Any>
void try_parts(Communicator& communicator, CheckpointStore* store, const Any& any) {
  const CheckpointPart part{static_cast<std::size_t>(communicator.rank()),
                            static_cast<std::size_t>(communicator.size())};
  save_parts(communicator, store, 0, {{CheckpointState::optimizer, part, {}}}, any);
  if (communicator.rank() == 0) store->drop_parts();
}

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/save_part.ipp>
#endif
