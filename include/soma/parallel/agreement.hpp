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

namespace soma {

namespace detail {

// Sends a text from the root to all ranks, which do not know its length. Senders and receivers
// refuse longer texts.
inline std::string broadcast_text(Communicator& communicator, std::string text, int root) {
  constexpr std::uint64_t longest = std::uint64_t{1} << 24;
  std::uint64_t length = text.size();
  broadcast(communicator, std::as_writable_bytes(std::span(&length, 1)), root);
  if (length > longest)
    fail(error_id::message_size, "agree", "record of rank " + std::to_string(root),
         std::to_string(length) + " bytes", "at most " + std::to_string(longest));
  text.resize(length);
  broadcast(communicator, std::as_writable_bytes(std::span(text)), root);
  return text;
}

// Joins texts, each after its length and a colon; split() reverses it. A malformed list ends at its
// first mistake.
inline std::string join(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts)
    joined.append(std::to_string(text.size())).append(":").append(text);
  return joined;
}
inline std::vector<std::string> split(std::string_view joined) {
  std::vector<std::string> texts;
  while (!joined.empty()) {
    std::size_t length = 0;
    const auto [end, problem] =
        std::from_chars(joined.data(), joined.data() + joined.size(), length);
    const auto used = static_cast<std::size_t>(end - joined.data());
    if (problem != std::errc() || used == joined.size() || length > joined.size() - used - 1) break;
    texts.emplace_back(joined.substr(used + 1, length));
    joined.remove_prefix(used + 1 + length);
  }
  return texts;
}

struct Difference {
  std::string item, given, wanted;
};

// The first item of rank 0's record (names and values in turn) that differs in this record, or else
// the first item that only this record has; an empty name if there is none.
inline Difference difference(const std::vector<std::string>& first, const Record& own) {
  for (std::size_t i = 0; i + 1 < first.size(); i += 2) {
    const RecordValue* value = own.find(first[i]);
    const std::string given = value == nullptr ? "missing" : to_text(*value);
    if (given != first[i + 1]) return {first[i], given, first[i + 1]};
  }
  for (const auto& [name, value] : own.entries()) {
    bool known = false;
    for (std::size_t i = 0; i < first.size(); i += 2) known = known || first[i] == name;
    if (!known) return {name, to_text(value), "missing"};
  }
  return {};
}

// The lowest rank with `mine` true, or -1.
inline int lowest_rank(Communicator& communicator, bool mine) {
  std::uint8_t flag = mine ? 1 : 0;
  std::int32_t lowest = communicator.rank() == 0 && mine ? 0 : -1;
  if (communicator.rank() == 0) {
    for (int rank = 1; rank < communicator.size(); ++rank) {
      communicator.receive(rank, collective_tag, std::as_writable_bytes(std::span(&flag, 1)));
      if (flag != 0 && lowest < 0) lowest = rank;
    }
  } else {
    communicator.send(0, collective_tag, std::as_bytes(std::span(&flag, 1)));
  }
  broadcast(communicator, std::as_writable_bytes(std::span(&lowest, 1)));
  return lowest;
}

}  // namespace detail

// Every rank passes the same names and values, in any order; numbers are compared exactly.
// Otherwise all ranks get error parallel.mismatch, which names the lowest rank that differs from
// rank 0, the item and both values. Works for any number of ranks. Each rank sends a message to
// rank 0, so use it at the start of a run only. Other errors as of Communicator;
// parallel.message_size for a record above 16 MiB.
inline void agree(Communicator& communicator, const Record& record) {
  std::vector<std::string> items;
  for (const auto& [name, value] : record.entries()) {
    items.push_back(name);
    items.push_back(to_text(value));
  }
  const std::string first = detail::broadcast_text(communicator, detail::join(items), 0);
  const detail::Difference own = detail::difference(detail::split(first), record);
  const bool differs = !own.item.empty() || !own.given.empty();
  const int rank = detail::lowest_rank(communicator, differs);
  if (rank < 0) return;
  const std::vector<std::string> words = detail::split(
      detail::broadcast_text(communicator, detail::join({own.item, own.given, own.wanted}), rank));
  // A rank that ends first may end the others. All ranks that arrive here have the message, even if
  // they miss the barrier (without exceptions, the transport's own error ends a rank whose
  // neighbour has ended).
#if SOMA_HAS_EXCEPTIONS
  try {
    communicator.barrier();
  } catch (const Error&) {
  }
#else
  communicator.barrier();
#endif
  const auto word = [&](std::size_t i) { return i < words.size() ? words[i] : std::string("?"); };
  fail(error_id::parallel_mismatch, record.purpose(),
       soma::quoted(word(0)) + " of rank " + std::to_string(rank), word(1),
       word(2) + " as on rank 0");
}

// broadcast(), after which all ranks compare a hash of the received bytes. Error parallel.mismatch
// names `what` and the lowest rank that has received something else.
inline void broadcast_checked(Communicator& communicator, std::span<std::byte> bytes,
                              std::string_view what, int root = 0) {
  broadcast(communicator, bytes, root);
  data::ContentHash hash;
  hash.add_bytes(bytes);
  Record record("broadcast_checked");
  record.set("hash of " + std::string(what), hash.value());
  agree(communicator, record);
}

}  // namespace soma
