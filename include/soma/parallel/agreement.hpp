#pragma once
// Before ranks train together: do all of them have the same settings, the same data, the same
// weights? A difference is refused on all of them, with the same words.

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

// A text from the root to all, who do not know its length. Longer ones are refused by whoever sends
// or receives them.
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

// Texts, one after the other, each behind its length and a colon; and back. What is no such list
// ends where it goes wrong.
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

// The first item of rank 0's record (names and values in turn) that is not the same in this one, or
// else the first that only this one has; an empty name: none.
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

// The lowest rank that says so, or -1.
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

// Every rank gives the same names and values, in any order; numbers are compared exactly. Otherwise
// all ranks get error parallel.mismatch, which names the lowest rank that differs from rank 0, the
// item and both values. Any number of ranks; a message to rank 0 from each, so for the start of a
// run. Other errors as Communicator; parallel.message_size for a record above 16 MiB.
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
  // Who ends first may end the others. All that come here have the words, whatever else they miss
  // (without exceptions, the transport's own error ends a rank whose neighbour has ended).
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

// broadcast(), after which all ranks compare a hash of what they have. Error parallel.mismatch,
// which names `what` and the lowest rank that has received something else.
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
