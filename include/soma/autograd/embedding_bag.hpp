#pragma once
// embedding_bag(): the first layer of models with sparse features. Needs add_sparse(context)
// (soma/sparse.hpp).

#include <soma/autograd/tape.hpp>
#include <soma/base/sizes.hpp>
#include <soma/ops/sparse/table.hpp>
#include <soma/system/process.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

namespace detail {

// Checked before a table [rows, width] of fp32 is allocated: a system that promises more memory
// than it has would end the process later. Error memory.exhausted.
void check_table_fits(std::string_view operation, std::size_t rows, std::size_t width);

}  // namespace detail

// For each sequence of ids: the sum, or the mean, of the rows of `table` [V, C] with these ids,
// each times its weight if there are weights (fp32, one for each id). Result [sequences, C]. A
// sequence without ids gives zeros; the mean divides by the number of ids, not by the sum of the
// weights. The gradient of the table is sparse; it takes time proportional to the ids, not to V.
// Errors context.no_sparse, operator.sequences, operator.value (an id that is no row),
// tensor.shape, tensor.dtype, autograd.not_differentiable (weights have no gradient).
Var embedding_bag(Tape& tape, const Var& table, const Var& ids, BagMode mode = BagMode::sum,
                  const Var& weights = {});

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/autograd/impl/embedding_bag.ipp>
#endif
