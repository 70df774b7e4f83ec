#pragma once
// StreamSource: batches of a labelled file that need not fit in memory. Rows are read in order and
// shuffled through a buffer.

#include <soma/data/batch_options.hpp>
#include <soma/data/order.hpp>
#include <soma/data/token_source.hpp>
#include <soma/text/row_reader.hpp>
#include <soma/text/rows/label_counter.hpp>

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

// Appends the token ids of a text. Must be a pure function of the text.
using Encode = std::function<void(std::string_view text, std::vector<std::int32_t>& ids)>;

// The same for two texts, with the types of the tokens: 0 for the first text, 1 for the second.
using EncodePair =
    std::function<void(std::string_view text, std::string_view pair, std::vector<std::int32_t>& ids,
                       std::vector<std::int32_t>& types)>;

struct StreamOptions {
  RowOptions rows{};
  data::BatchOptions batches{};
  std::size_t buffer_rows = 10000;  // rows that the next one is drawn from; 0 counts as 1
  std::size_t max_tokens = 512;     // no text has more: encode has to cut
  std::uint64_t settings = 0;       // another number for another `encode`
  EncodePair encode_pair{};         // encodes pairs (rows.pair_column), instead of encode
};

// Memory: buffer_rows texts and one batch. The order of an epoch is a pure function of (seed,
// epoch, file): each row that is read takes the place of a random row of the buffer. So a row comes
// less than buffer_rows places earlier than in the file, or any number of places later: shuffle a
// file whose rows are sorted by class beforehand. Without shuffle the order is the file's.
class StreamSource final : public data::BatchSource {
 public:
  // `labels`: all labels that may occur; a class is an index in them. Rows with numbers need none.
  // Errors data.batch_size, ragged.shards, data.empty (no labels), file.read (also a pipe, which
  // cannot be read again).
  StreamSource(Context& context, std::string path, std::vector<std::string> labels, Encode encode,
               const StreamOptions& options = {});

  // Errors of RowReader::next, and text.file_changed (between epochs), text.label_unseen,
  // data.too_long (encode gave more than max_tokens), ragged.empty_sequence (encode gave no
  // tokens). After an error the position stays, and another call meets the same error.
  SOMA_INLINE bool next(data::Batch& batch) override;

  data::Position position() const override { return position_; }
  // Seeks by replay: it costs as much as reading up to that place, without making tensors. Error
  // data.position beyond the epoch's end; the source is then at its end.
  SOMA_INLINE void seek(data::Position position) override;

  // The number is not known.
  std::uint64_t batches(std::uint64_t) const override { return 0; }

  // A hash of the file's bytes (unpacked), the labels and the options: one pass over the file.
  SOMA_INLINE std::uint64_t hash() const override;
  SOMA_INLINE void describe(soma::Record& record) const override;

  SOMA_INLINE std::size_t largest_rows() const override;
  SOMA_INLINE std::size_t largest_sequences() const override;

  // Rows that skip_bad_rows left out in the current epoch so far.
  std::vector<SkippedRows> skipped() const;

 private:
  static constexpr std::string_view operation = "StreamSource";

  struct Encoded {
    std::vector<std::int32_t> ids{}, types{};
    std::int64_t label = 0;
    std::vector<std::int32_t> labels{};
    float number = 0;
  };
  struct Epoch {
    RowReader reader;
    DrawSequence draws;
    std::vector<Row> buffer{};
    bool at_end = false;
    std::optional<Encoded> waiting{};  // read, but the batch before had no room
  };

  bool has_pairs() const;

  void begin_epoch();

  // Collects the sequences of the next batch in held_; returns false at the end of the epoch.
  bool collect();

  // Takes one row out of the buffer, which is filled first.
  std::optional<Encoded> read_next();
  Encoded encode(const Row& row) const;

  std::uint64_t compute_hash() const;

  Context& context_;
  std::string path_;
  std::vector<std::string> labels_;
  LabelIndex index_;
  Encode encode_;
  StreamOptions options_;
  FileState state_;
  data::Position position_;
  std::optional<Epoch> epoch_;  // none: begun by the next collect()
  std::vector<Encoded> held_;
  bool unfinished_ = false;  // collect() was left by an error: rows are lost
  mutable std::optional<std::uint64_t> hash_;
  mutable std::uint64_t content_hash_ = 0;  // without the settings of batches; set with hash_
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/stream_source.ipp>
#endif
