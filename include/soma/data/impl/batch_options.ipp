#pragma once
// The functions of batch_options.hpp.

#include <soma/data/batch_options.hpp>

#include <soma/base/error.hpp>
#include <soma/base/record.hpp>
#include <soma/data/content_hash.hpp>
#include <soma/tensor/ragged.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace SOMA_NAMESPACE::data::detail {

SOMA_INLINE void check_batch_options(std::string_view operation, Context& context,
                                     const BatchOptions& options) {
  if (options.batch_sequences == 0 && options.batch_tokens == 0)
    fail(error_id::data_batch_size, operation, "batch_sequences and batch_tokens", "0",
         "at least one of them");
  Sequences::uniform(context, 0, options.shards);
}

SOMA_INLINE bool batch_is_closed(const BatchOptions& options, std::size_t sequences,
                                 std::size_t held, std::size_t tokens) {
  if (sequences == 0) return false;
  if (options.batch_sequences != 0 && sequences >= options.batch_sequences) return true;
  return options.batch_tokens != 0 &&
         (held >= options.batch_tokens || tokens > options.batch_tokens - held);
}

SOMA_INLINE bool batch_is_full(const BatchOptions& options, std::size_t sequences,
                               std::size_t held) {
  return (options.batch_sequences != 0 && sequences >= options.batch_sequences) ||
         (options.batch_tokens != 0 && held >= options.batch_tokens);
}

SOMA_INLINE void add_options(ContentHash& hash, const BatchOptions& options) {
  hash.add(options.batch_sequences);
  hash.add(options.batch_tokens);
  hash.add(options.shuffle ? 1 : 0);
  hash.add(options.shuffle ? options.seed : 0);
  hash.add(options.shards);
  hash.add(options.drop_last ? 1 : 0);
}

SOMA_INLINE void describe_options(Record& record, const BatchOptions& options) {
  record.set("data.batch_sequences", options.batch_sequences);
  record.set("data.batch_tokens", options.batch_tokens);
  record.set("data.shuffle", options.shuffle);
  if (options.shuffle) record.set("data.seed", options.seed);
  record.set("data.shards", options.shards);
  record.set("data.drop_last", options.drop_last);
}

}  // namespace SOMA_NAMESPACE::data::detail
