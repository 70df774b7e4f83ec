#pragma once
// The functions of stream_source.hpp.

#include <soma/text/stream_source.hpp>

#include <soma/data/batch_options.hpp>
#include <soma/data/order.hpp>
#include <soma/data/token_source.hpp>
#include <soma/text/labelled_text.hpp>
#include <soma/text/row_reader.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE StreamSource::StreamSource(Context& context, std::string path,
                                       std::vector<std::string> labels, Encode encode,
                                       const StreamOptions& options)
    : context_(context),
      path_(std::move(path)),
      labels_(std::move(labels)),
      index_(labels_, options.rows.merge_labels),
      encode_(std::move(encode)),
      options_(options) {
  data::detail::check_batch_options(operation, context, options.batches);
  options_.buffer_rows = (std::max)(options.buffer_rows, std::size_t{1});
  if (labels_.empty() && options.rows.labels != data::LabelKind::number)
    fail(error_id::data_empty, operation, "labels", "none", "at least one");
  if (ByteSource::is_pipe(path_))
    fail(error_id::file_read, operation, "file", soma::quoted(path_) + ", a pipe",
         "a file, because each epoch reads it again");
  state_ = ByteSource::open(operation, path_).state();
}

SOMA_INLINE bool StreamSource::next(data::Batch& batch) {
  if (unfinished_) seek(position_);
  if (!collect()) {
    position_ = {position_.epoch + 1, 0};
    epoch_.reset();
    return false;
  }
  const auto copy_list = [&](std::size_t i, std::int32_t* ids, std::int32_t* types) {
    std::copy(held_[i].ids.begin(), held_[i].ids.end(), ids);
    if (types != nullptr) std::copy(held_[i].types.begin(), held_[i].types.end(), types);
  };
  std::vector<std::size_t> lengths;
  data::RowLabels labels;
  for (const Encoded& encoded : held_) {
    lengths.push_back(encoded.ids.size());
    switch (options_.rows.labels) {
      case data::LabelKind::one:
        labels.classes.push_back(encoded.label);
        break;
      case data::LabelKind::several:
        labels.lists.add(encoded.labels);
        break;
      case data::LabelKind::number:
        labels.numbers.push_back(encoded.number);
    }
  }
  unfinished_ = true;  // until there is room for it
  data::Batch made = data::detail::token_batch(context_, lengths, has_pairs(), labels,
                                               options_.batches.shards, copy_list);
  unfinished_ = false;
  made.epoch = position_.epoch;
  made.index = position_.batch++;
  batch = std::move(made);
  return true;
}

SOMA_INLINE void StreamSource::seek(data::Position position) {
  if (!epoch_ || unfinished_ || position.epoch != position_.epoch ||
      position.batch < position_.batch) {
    epoch_.reset();
    unfinished_ = false;
    position_ = {position.epoch, 0};
  }
  while (position_.batch < position.batch) {
    if (!collect()) {
      const std::uint64_t count = position_.batch;
      fail(error_id::data_position, operation, "batch", std::to_string(position.batch),
           "at most " + std::to_string(count) + ", which epoch " + std::to_string(position.epoch) +
               " has");
    }
    ++position_.batch;
  }
}

SOMA_INLINE std::uint64_t StreamSource::hash() const {
  if (!hash_) hash_ = compute_hash();
  return *hash_;
}

SOMA_INLINE void StreamSource::describe(soma::Record& record) const {
  hash();
  record.set("data.content",
             "a file and how its rows are read, hash " + std::to_string(content_hash_));
  data::detail::describe_options(record, options_.batches);
}

SOMA_INLINE std::size_t StreamSource::largest_rows() const {
  const data::BatchOptions& limits = options_.batches;
  if (limits.batch_tokens != 0) return (std::max)(limits.batch_tokens, options_.max_tokens);
  return checked_multiply(limits.batch_sequences, options_.max_tokens, operation);
}

SOMA_INLINE std::size_t StreamSource::largest_sequences() const {
  const data::BatchOptions& limits = options_.batches;
  return limits.batch_sequences != 0 ? limits.batch_sequences : limits.batch_tokens;
}

SOMA_INLINE std::vector<SkippedRows> StreamSource::skipped() const {
  return epoch_ ? epoch_->reader.skipped() : std::vector<SkippedRows>{};
}

SOMA_INLINE bool StreamSource::has_pairs() const { return static_cast<bool>(options_.encode_pair); }

SOMA_INLINE void StreamSource::begin_epoch() {
  RowOptions reading = options_.rows;
  reading.known_labels = labels_;
  reading.notes = nullptr;
  const Draw draw = data::epoch_draw(options_.batches.seed, position_.epoch, "buffer");
  epoch_.emplace(Epoch{RowReader(path_, reading, operation), DrawSequence(draw)});
  if (epoch_->reader.state() != state_)
    fail(error_id::text_file_changed, operation, "file", soma::quoted(path_) + ", written to",
         "the file that was there when the source was made");
}

SOMA_INLINE bool StreamSource::collect() {
  unfinished_ = true;
  if (!epoch_) begin_epoch();
  const data::BatchOptions& limits = options_.batches;
  held_.clear();
  std::size_t tokens = 0;
  bool closed = false;
  while (!closed) {
    if (!epoch_->waiting) epoch_->waiting = read_next();
    if (!epoch_->waiting) break;
    const std::size_t size = epoch_->waiting->ids.size();
    closed = data::detail::batch_is_closed(limits, held_.size(), tokens, size);
    if (closed) break;
    tokens += size;
    held_.push_back(std::move(*epoch_->waiting));
    epoch_->waiting.reset();
    // A row without room in this batch is not read: its error belongs to the next batch.
    closed = data::detail::batch_is_full(limits, held_.size(), tokens);
  }
  unfinished_ = false;
  if (closed) return true;
  if (limits.drop_last && !data::detail::batch_is_full(limits, held_.size(), tokens)) return false;
  return !held_.empty();
}

SOMA_INLINE auto StreamSource::read_next() -> std::optional<Encoded> {
  Epoch& epoch = *epoch_;
  const std::size_t wanted = options_.batches.shuffle ? options_.buffer_rows : 1;
  while (!epoch.at_end && epoch.buffer.size() < wanted) {
    Row row;
    epoch.at_end = !epoch.reader.next(row);
    if (!epoch.at_end) epoch.buffer.push_back(std::move(row));
  }
  if (epoch.buffer.empty()) return std::nullopt;
  const auto chosen = epoch.draws.below(static_cast<std::uint32_t>(epoch.buffer.size()));
  std::swap(epoch.buffer[chosen], epoch.buffer.back());
  const Row row = std::move(epoch.buffer.back());
  epoch.buffer.pop_back();
  return encode(row);
}

SOMA_INLINE auto StreamSource::encode(const Row& row) const -> Encoded {
  const auto place = [&] {
    return "line " + std::to_string(row.line) + " of " + soma::quoted(path_);
  };
  Encoded encoded;
  const auto known = [&](const std::string& label) {
    const std::optional<std::size_t> at = index_.find(label);
    if (!at)
      fail(error_id::text_label_unseen, operation, "label in " + place(), quoted_label(label),
           index_.wanted_for(label));
    return static_cast<std::int64_t>(*at);
  };
  const data::LabelKind kind = options_.rows.labels;
  if (kind == data::LabelKind::one) encoded.label = known(row.label);
  if (kind == data::LabelKind::several)
    for (const std::string& label : row.labels)
      encoded.labels.push_back(static_cast<std::int32_t>(known(label)));
  detail::sort_classes(encoded.labels);
  encoded.number = row.number;
  if (has_pairs())
    options_.encode_pair(row.text, row.pair, encoded.ids, encoded.types);
  else
    encode_(row.text, encoded.ids);
  if (encoded.ids.empty())
    fail(error_id::ragged_empty_sequence, operation, place(), "encoded as nothing",
         "at least one token");
  if (encoded.ids.size() > options_.max_tokens)
    fail(error_id::data_too_long, operation, place(),
         "encoded as " + std::to_string(encoded.ids.size()) + " tokens",
         "at most " + std::to_string(options_.max_tokens) + " (max_tokens)");
  return encoded;
}

SOMA_INLINE std::uint64_t StreamSource::compute_hash() const {
  data::ContentHash hash;
  ByteSource bytes = ByteSource::open(operation, path_, options_.rows.stop);
  for (std::string_view part = bytes.ahead(); !part.empty(); part = bytes.ahead()) {
    hash.add_bytes(std::as_bytes(std::span(part.data(), part.size())));
    bytes.skip(part.size());
  }
  for (const std::string& label : labels_) hash.add_text(label);
  const RowOptions& rows = options_.rows;
  for (const std::string* column : {&rows.text_column, &rows.label_column}) hash.add_text(*column);
  for (const std::uint64_t number :
       {static_cast<std::uint64_t>(rows.format), static_cast<std::uint64_t>(rows.header),
        std::uint64_t{rows.max_row_bytes}, std::uint64_t{rows.skip_bad_rows ? 1u : 0u},
        std::uint64_t{options_.batches.shuffle ? options_.buffer_rows : 0},
        std::uint64_t{options_.max_tokens}, options_.settings})
    hash.add(number);
  if (rows.labels != data::LabelKind::one) hash.add(static_cast<std::uint64_t>(rows.labels));
  for (const std::string& column : rows.text_columns) hash.add_text(column);
  for (const std::string& column : rows.label_columns) hash.add_text(column);
  if (rows.merge_labels) hash.add(1);
  if (!rows.pair_column.empty()) hash.add_text(rows.pair_column);
  if (rows.separator != 0) hash.add(static_cast<unsigned char>(rows.separator));
  if (rows.labels == data::LabelKind::several)
    hash.add(static_cast<unsigned char>(rows.label_separator));
  content_hash_ = hash.value();
  data::detail::add_options(hash, options_.batches);
  return hash.value();
}

}  // namespace SOMA_NAMESPACE::text
