#pragma once
// The division of an epoch into batches.

#include <soma/base/error.hpp>
#include <soma/base/record.hpp>
#include <soma/data/content_hash.hpp>
#include <soma/tensor/ragged.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace soma::data {

// A batch takes sequences in order while it keeps both limits, and at least one sequence: a
// sequence of more than batch_tokens tokens is a batch of its own. 0 means no limit; one limit must
// be set.
struct BatchOptions {
  std::size_t batch_sequences = 32;
  std::size_t batch_tokens = 0;  // rows, all sequences together
  bool shuffle = true;           // each epoch in an order of its own
  std::uint64_t seed = 0;        // for the random orders of the epochs
  std::size_t shards = default_shards;
  bool drop_last = false;  // leave out an epoch's last batch if it reaches neither limit
};

namespace detail {

// Errors data.batch_size, ragged.shards.
inline void check_batch_options(std::string_view operation, Context& context,
                                const BatchOptions& options) {
  if (options.batch_sequences == 0 && options.batch_tokens == 0)
    fail(error_id::data_batch_size, operation, "batch_sequences and batch_tokens", "0",
         "at least one of them");
  Sequences::uniform(context, 0, options.shards);
}

// True if a batch of this size has no room for a sequence of `tokens` more tokens.
inline bool batch_is_closed(const BatchOptions& options, std::size_t sequences, std::size_t held,
                            std::size_t tokens) {
  if (sequences == 0) return false;
  if (options.batch_sequences != 0 && sequences >= options.batch_sequences) return true;
  return options.batch_tokens != 0 &&
         (held >= options.batch_tokens || tokens > options.batch_tokens - held);
}

// True if a batch of this size reaches a limit.
inline bool batch_is_full(const BatchOptions& options, std::size_t sequences, std::size_t held) {
  return (options.batch_sequences != 0 && sequences >= options.batch_sequences) ||
         (options.batch_tokens != 0 && held >= options.batch_tokens);
}

inline void add_options(ContentHash& hash, const BatchOptions& options) {
  hash.add(options.batch_sequences);
  hash.add(options.batch_tokens);
  hash.add(options.shuffle ? 1 : 0);
  hash.add(options.shuffle ? options.seed : 0);
  hash.add(options.shards);
  hash.add(options.drop_last ? 1 : 0);
}

inline void describe_options(Record& record, const BatchOptions& options) {
  record.set("data.batch_sequences", options.batch_sequences);
  record.set("data.batch_tokens", options.batch_tokens);
  record.set("data.shuffle", options.shuffle);
  if (options.shuffle) record.set("data.seed", options.seed);
  record.set("data.shards", options.shards);
  record.set("data.drop_last", options.drop_last);
}

}  // namespace detail
}  // namespace soma::data
