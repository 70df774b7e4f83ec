#pragma once
// The division of an epoch into batches.

#include <soma/base/error.hpp>
#include <soma/base/record.hpp>
#include <soma/data/content_hash.hpp>
#include <soma/tensor/ragged.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace SOMA_NAMESPACE::data {

// A batch takes sequences in order while it keeps both limits, and at least one sequence: a
// sequence of more than batch_tokens tokens is a batch of its own. 0 means no limit; one limit must
// be set.
struct BatchOptions {
  std::size_t batch_sequences = 32;
  std::size_t batch_tokens = 0;         // rows, all sequences together
  bool shuffle = true;                  // each epoch in an order of its own
  std::uint64_t seed = 0;               // for the random orders of the epochs
  std::size_t shards = default_shards;  // SequencesOptions::shards: the most ranks of a batch
  bool drop_last = false;  // leave out an epoch's last batch if it reaches neither limit
};

namespace detail {

// Errors data.batch_size, ragged.shards.
void check_batch_options(std::string_view operation, Context& context, const BatchOptions& options);

// True if a batch of this size has no room for a sequence of `tokens` more tokens.
bool batch_is_closed(const BatchOptions& options, std::size_t sequences, std::size_t held,
                     std::size_t tokens);

// True if a batch of this size reaches a limit.
bool batch_is_full(const BatchOptions& options, std::size_t sequences, std::size_t held);

void add_options(ContentHash& hash, const BatchOptions& options);

void describe_options(Record& record, const BatchOptions& options);

}  // namespace detail
}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/batch_options.ipp>
#endif
