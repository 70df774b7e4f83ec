#pragma once
// The functions of token_source.hpp.

#include <soma/data/token_source.hpp>

#include <soma/data/indexed_source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::data {

SOMA_INLINE void TokenLists::add(std::span<const std::int32_t> list, std::int64_t label) {
  ids.insert(ids.end(), list.begin(), list.end());
  offsets.push_back(ids.size());
  labels.push_back(label);
}

SOMA_INLINE std::size_t TokenLists::count() const {
  return offsets.empty() ? 0 : offsets.size() - 1;
}

SOMA_INLINE TokenSource::TokenSource(Context& context, TokenLists lists,
                                     const BatchOptions& options)
    : IndexedSource("TokenSource", context, options), context_(context), lists_(std::move(lists)) {
  check();
  start(lists_.count());
}

SOMA_INLINE void TokenSource::add_content(ContentHash& hash) const {
  hash.add_list(std::span(lists_.ids));
  hash.add_list(std::span(lists_.types));
  for (const std::uint64_t offset : lists_.offsets) hash.add(offset);
  hash.add_list(std::span(lists_.labels));
  if (!lists_.numbers.empty()) hash.add_list(std::span(lists_.numbers));
  for (const std::uint64_t offset : lists_.label_lists.offsets) hash.add(offset);
  if (!lists_.label_lists.empty()) hash.add_list(std::span(lists_.label_lists.ids));
}

SOMA_INLINE void TokenSource::check() const {
  const auto& [ids, types, offsets, labels, numbers, label_lists] = lists_;
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != ids.size())
    fail(error_id::data_offsets, "TokenSource", "offsets",
         offsets.empty()
             ? std::string("empty")
             : std::to_string(offsets.front()) + " to " + std::to_string(offsets.back()),
         "0 to the number of ids, " + std::to_string(ids.size()));
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    if (offsets[i + 1] < offsets[i])
      fail(error_id::data_offsets, "TokenSource", "offset " + std::to_string(i + 1),
           std::to_string(offsets[i + 1]), "at least " + std::to_string(offsets[i]));
    if (offsets[i + 1] == offsets[i])
      fail(error_id::ragged_empty_sequence, "TokenSource", "list " + std::to_string(i), "empty",
           "at least one token");
  }
  if (!types.empty() && types.size() != ids.size())
    fail(error_id::data_offsets, "TokenSource", "types", std::to_string(types.size()),
         "none, or one for each id: " + std::to_string(ids.size()));
  const std::size_t count = lists_.count();
  std::size_t kinds = 0;
  for (const std::size_t labelled : {labels.size(), numbers.size(), label_lists.count()}) {
    kinds += labelled != 0 ? 1 : 0;
    if (labelled != 0 && (labelled != count || kinds > 1))
      fail(error_id::data_labels, "TokenSource", "labels",
           kinds > 1 ? "of several kinds" : std::to_string(labelled),
           "none, or one for each list: " + std::to_string(count));
  }
  const std::vector<std::size_t>& ends = label_lists.offsets;
  if (!ends.empty() && (!std::is_sorted(ends.begin(), ends.end()) || ends.front() != 0 ||
                        ends.back() != label_lists.ids.size()))
    fail(error_id::data_offsets, "TokenSource", "offsets of label_lists",
         std::to_string(ends.front()) + " to " + std::to_string(ends.back()),
         "ascending from 0 to the number of its ids, " + std::to_string(label_lists.ids.size()));
}

SOMA_INLINE Batch TokenSource::make(std::span<const std::uint32_t> items) const {
  std::vector<std::size_t> lengths;
  RowLabels labels;
  for (const std::uint32_t item : items) {
    lengths.push_back(length(item));
    if (!lists_.labels.empty()) labels.classes.push_back(lists_.labels[item]);
    if (!lists_.numbers.empty()) labels.numbers.push_back(lists_.numbers[item]);
    if (!lists_.label_lists.empty()) labels.lists.add(lists_.label_lists.list(item));
  }
  const auto copy_list = [&](std::size_t i, std::int32_t* ids, std::int32_t* types) {
    const std::size_t first = lists_.offsets[items[i]];
    std::copy_n(lists_.ids.data() + first, lengths[i], ids);
    if (types != nullptr) std::copy_n(lists_.types.data() + first, lengths[i], types);
  };
  return detail::token_batch(context_, lengths, !lists_.types.empty(), labels, options().shards,
                             copy_list);
}

}  // namespace SOMA_NAMESPACE::data
