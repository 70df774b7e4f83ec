#pragma once
// The functions of document_source.hpp.

#include <soma/data/document_source.hpp>

#include <soma/base/error.hpp>
#include <soma/data/indexed_source.hpp>
#include <soma/data/token_source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::data {

SOMA_INLINE void DocumentLists::add(std::span<const std::int32_t> document,
                                    std::size_t first_target) {
  if (first_target != 1 && first_targets.empty()) first_targets.assign(count(), 1);
  if (first_target != 1 || !first_targets.empty()) first_targets.push_back(first_target);
  ids.insert(ids.end(), document.begin(), document.end());
  offsets.push_back(ids.size());
}

SOMA_INLINE std::size_t DocumentLists::count() const { return offsets.size() - 1; }

SOMA_INLINE std::vector<Window> windows_of(const DocumentLists& documents,
                                           const WindowOptions& options) {
  if (options.length == 0 || options.overlap >= options.length)
    fail(error_id::train_options, "windows_of", options.length == 0 ? "length" : "overlap",
         std::to_string(options.length == 0 ? 0 : options.overlap),
         options.length == 0 ? "at least 1 row"
                             : "below the length, " + std::to_string(options.length));
  std::vector<Window> result;
  for (std::size_t i = 0; i < documents.count(); ++i) {
    const std::size_t begin = documents.offsets[i], last = documents.offsets[i + 1];
    if (last - begin < 2) continue;
    // The row before a target predicts it.
    const std::size_t rows = last - 1;
    const std::size_t first =
        begin + (documents.first_targets.empty() ? 1 : documents.first_targets[i]) - 1;
    for (std::size_t at = begin, fresh = begin;; at = fresh - options.overlap) {
      const std::size_t end = (std::min)(rows, at + options.length);
      const Window window{i, at, (std::max)(fresh, first), end};
      if (window.first < end) result.push_back(window);
      if (end == rows) break;
      fresh = end;
    }
  }
  return result;
}

SOMA_INLINE std::size_t count_targets(const Tensor& targets) {
  const std::span<const std::int32_t> all = targets.span<std::int32_t>();
  return all.size() - static_cast<std::size_t>(std::count(all.begin(), all.end(), no_target));
}

SOMA_INLINE DocumentSource::DocumentSource(Context& context, DocumentLists documents,
                                           const WindowOptions& windows,
                                           const BatchOptions& options)
    : IndexedSource("DocumentSource", context, options),
      context_(context),
      documents_(std::move(documents)) {
  check();
  windows_ = windows_of(documents_, windows);
  std::vector<bool> used(documents_.count());
  for (const Window& window : windows_) {
    used[window.document] = true;
    targets_ += window.end - window.first;
  }
  left_out_ = static_cast<std::size_t>(std::count(used.begin(), used.end(), false));
  if (windows_.empty())
    fail(error_id::data_empty, "DocumentSource", "documents",
         std::to_string(documents_.count()) + " without a token that is a target",
         "a document of at least two tokens");
  start(windows_.size());
}

SOMA_INLINE std::size_t DocumentSource::length(std::size_t item) const {
  return windows_[item].end - windows_[item].begin;
}

SOMA_INLINE void DocumentSource::add_content(ContentHash& hash) const {
  hash.add_list(std::span(documents_.ids));
  for (const Window& window : windows_)
    for (const std::size_t place : {window.begin, window.first, window.end})
      hash.add(std::uint64_t{place});
}

SOMA_INLINE void DocumentSource::check() const {
  const auto& [ids, offsets, first_targets] = documents_;
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != ids.size() ||
      !std::is_sorted(offsets.begin(), offsets.end()))
    fail(error_id::data_offsets, "DocumentSource", "offsets",
         offsets.empty()
             ? std::string("empty")
             : std::to_string(offsets.front()) + " to " + std::to_string(offsets.back()),
         "ascending from 0 to the number of ids, " + std::to_string(ids.size()));
  if (first_targets.empty()) return;
  if (first_targets.size() != documents_.count())
    fail(error_id::data_labels, "DocumentSource", "first_targets",
         std::to_string(first_targets.size()),
         "none, or one for each document: " + std::to_string(documents_.count()));
  if (const auto zero = std::find(first_targets.begin(), first_targets.end(), std::size_t{0});
      zero != first_targets.end())
    fail(error_id::data_labels, "DocumentSource",
         "first target of document " + std::to_string(zero - first_targets.begin()), "0",
         "at least 1: no row is before the first token");
}

SOMA_INLINE Batch DocumentSource::make(std::span<const std::uint32_t> items) const {
  std::vector<std::size_t> lengths;
  std::size_t rows = 0;
  for (const std::uint32_t item : items) {
    lengths.push_back(length(item));
    rows += lengths.back();
  }
  Batch batch = detail::token_batch(context_, lengths, false, {}, options().shards,
                                    [&](std::size_t i, std::int32_t* to, std::int32_t*) {
                                      const Window& window = windows_[items[i]];
                                      std::copy(documents_.ids.data() + window.begin,
                                                documents_.ids.data() + window.end, to);
                                    });
  const Tensor targets = Tensor::empty(context_, Shape{rows}, DType::int32);
  auto* next = targets.mutable_data<std::int32_t>();
  for (const std::uint32_t item : items) {
    const Window& window = windows_[item];
    for (std::size_t row = window.begin; row < window.end; ++row)
      *next++ = row < window.first ? no_target : documents_.ids[row + 1];
  }
  batch.fields.push_back({std::string(targets_field), targets, true});
  return batch;
}

}  // namespace SOMA_NAMESPACE::data
