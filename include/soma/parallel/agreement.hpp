#pragma once
// Checks before ranks train together that all of them have the same settings, data and weights. All
// ranks refuse a difference, with the same message.

#include <soma/base/record.hpp>
#include <soma/data/content_hash.hpp>
#include <soma/parallel/collectives.hpp>
#include <soma/parallel/communicator.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

// Sends a text from the root to all ranks, which do not know its length. Senders and receivers
// refuse longer texts.
std::string broadcast_text(Communicator& communicator, std::string text, int root);

// Joins texts, each after its length and a colon; split() reverses it. A malformed list ends at its
// first mistake.
std::string join(const std::vector<std::string>& texts);
std::vector<std::string> split(std::string_view joined);

struct Difference {
  std::string item, given, wanted;
};

// The first item of rank 0's record (names and values in turn) that differs in this record, or else
// the first item that only this record has; an empty name if there is none.
Difference difference(const std::vector<std::string>& first, const Record& own);

// The lowest rank with `mine` true, or -1.
int lowest_rank(Communicator& communicator, bool mine);

}  // namespace detail

// Every rank passes the same names and values, in any order; numbers are compared exactly.
// Otherwise all ranks get error parallel.mismatch, which names the lowest rank that differs from
// rank 0, the item and both values. Works for any number of ranks. Each rank sends a message to
// rank 0, so use it at the start of a run only. Other errors as of Communicator;
// parallel.message_size for a record above 16 MiB.
void agree(Communicator& communicator, const Record& record);

// broadcast(), after which all ranks compare a hash of the received bytes. Error parallel.mismatch
// names `what` and the lowest rank that has received something else.
void broadcast_checked(Communicator& communicator, std::span<std::byte> bytes,
                       std::string_view what, int root = 0);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/parallel/impl/agreement.ipp>
#endif
