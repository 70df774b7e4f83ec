#pragma once
// DocumentSource: batches of documents for a model that predicts the next token. A document is a
// list of token ids; its windows are the sequences of batches. A row of a window is a token of its
// document, and its target is the token behind it. The last token of a document is no row, because
// nothing follows it. No sequence has tokens of two documents, and nothing is padded.

#include <soma/data/batch.hpp>
#include <soma/data/batch_options.hpp>
#include <soma/data/indexed_source.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::data {

// The field of a batch that holds targets: int32, one for each row; no_target where a row has none.
inline constexpr std::string_view targets_field = "targets";
inline constexpr std::int32_t no_target = -100;

// Documents: the tokens of document i are ids[offsets[i]] up to ids[offsets[i + 1]].
struct DocumentLists {
  std::vector<std::int32_t> ids;
  std::vector<std::size_t> offsets{0};
  // The first token of each document that is a target, counted in the document; before it is a
  // prompt. Empty: 1 for all, the token behind the first.
  std::vector<std::size_t> first_targets;

  void add(std::span<const std::int32_t> document, std::size_t first_target = 1);
  std::size_t count() const;
};

struct WindowOptions {
  std::size_t length = 1024;  // the most rows of a window
  // Rows at the beginning of every later window of a document that repeat the end of the window
  // before: they are seen and have no target, so that each token is a target once. Below `length`.
  std::size_t overlap = 0;
};

// A part of a document: rows `begin` to `end`, of which rows from `first` on have targets.
struct Window {
  std::size_t document = 0;
  std::size_t begin = 0, first = 0, end = 0;  // in DocumentLists::ids
};

// The windows of documents, in order. A window without a target is left out: nothing can be learnt
// from it. Error train.options: a length of 0, or an overlap that is not below it.
std::vector<Window> windows_of(const DocumentLists& documents, const WindowOptions& options);

// The number of rows of a field of targets that have one.
std::size_t count_targets(const Tensor& targets);

class DocumentSource final : public IndexedSource {
 public:
  // Errors data.offsets, data.labels (not a first target for each document, or target 0),
  // data.empty (no token is a target), data.batch_size, ragged.shards, train.options.
  DocumentSource(Context& context, DocumentLists documents, const WindowOptions& windows,
                 const BatchOptions& options = {});

  const DocumentLists& documents() const { return documents_; }
  // Batch::items are indices of windows.
  std::span<const Window> windows() const { return windows_; }
  std::size_t targets() const { return targets_; }  // in an epoch
  // Documents without a target, which no batch has.
  std::size_t left_out() const { return left_out_; }

 private:
  SOMA_INLINE std::size_t length(std::size_t item) const override;
  SOMA_INLINE void add_content(ContentHash& hash) const override;
  SOMA_INLINE Batch make(std::span<const std::uint32_t> items) const override;
  void check() const;

  Context& context_;
  DocumentLists documents_;
  std::vector<Window> windows_;
  std::size_t targets_ = 0, left_out_ = 0;
};

}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/document_source.ipp>
#endif
