#pragma once
// The functions of agreement.hpp.

#include <soma/parallel/agreement.hpp>

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

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE std::string broadcast_text(Communicator& communicator, std::string text, int root) {
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

SOMA_INLINE std::string join(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts)
    joined.append(std::to_string(text.size())).append(":").append(text);
  return joined;
}

SOMA_INLINE std::vector<std::string> split(std::string_view joined) {
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

SOMA_INLINE Difference difference(const std::vector<std::string>& first, const Record& own) {
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

SOMA_INLINE int lowest_rank(Communicator& communicator, bool mine) {
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

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE void agree(Communicator& communicator, const Record& record) {
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

SOMA_INLINE void broadcast_checked(Communicator& communicator, std::span<std::byte> bytes,
                                   std::string_view what, int root) {
  broadcast(communicator, bytes, root);
  data::ContentHash hash;
  hash.add_bytes(bytes);
  Record record("broadcast_checked");
  record.set("hash of " + std::string(what), hash.value());
  agree(communicator, record);
}

}  // namespace SOMA_NAMESPACE
