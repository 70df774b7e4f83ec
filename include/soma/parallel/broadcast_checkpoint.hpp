#pragma once
// Sends a checkpoint from the rank that has the files to all others.

#include <soma/parallel/agreement.hpp>
#include <soma/parallel/collectives.hpp>
#include <soma/state/checkpoint.hpp>

#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

std::uint64_t count_of(std::string_view text);

// Names, types and shapes first, then the elements.
StateDict broadcast_state(Communicator& communicator, Context& context, const StateDict& state);

Record broadcast_record(Communicator& communicator, const Record& record);

}  // namespace detail

// Returns rank 0's checkpoint on all ranks; only rank 0's argument is read. Errors as of broadcast.
Checkpoint broadcast_checkpoint(Communicator& communicator, Context& context,
                                const Checkpoint& checkpoint);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/parallel/impl/broadcast_checkpoint.ipp>
#endif
