#pragma once
// The functions of embedding_bag.hpp.

#include <soma/autograd/embedding_bag.hpp>

#include <soma/autograd/tape.hpp>
#include <soma/base/sizes.hpp>
#include <soma/ops/sparse/table.hpp>
#include <soma/system/machine.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE void check_table_fits(std::string_view operation, std::size_t rows, std::size_t width) {
  const std::uint64_t bytes =
      checked_multiply(checked_multiply(rows, width, operation), sizeof(float), operation);
  const std::uint64_t most = physical_memory_bytes();
  if (most != 0 && bytes > most)
    fail(error_id::out_of_memory, operation, "table",
         std::to_string(rows) + " x " + std::to_string(width) + ", " + std::to_string(bytes) +
             " bytes",
         "at most the machine's memory, " + std::to_string(most) + " bytes");
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE Var embedding_bag(Tape& tape, const Var& table, const Var& ids, BagMode mode,
                              const Var& weights) {
  const SparseOperators& operators =
      *sparse_table(tape.context(), "sparse::embedding_bag").operators;
  const Var y =
      tape.apply(*operators.embedding_bag, EmbeddingBagSetting{mode}, {table, ids, weights});
  return tape.with_sequences(y, ids.sequences().summary(tape.context()));
}

}  // namespace SOMA_NAMESPACE
