#pragma once
// Rules of operators that say where the rows of a batch are in their results (Operator::batch), and
// tensors with these rows in front, for sums that follow the shards of a batch.

#include <soma/ops/operator.hpp>
#include <soma/tensor/ragged.hpp>
#include <soma/tensor/tensor.hpp>

#include <cstddef>
#include <string_view>

namespace SOMA_NAMESPACE::detail {

// The batch of a tensor that was reshaped, at its place there; not defined() if the new dimensions
// cut it. A batch of one row that is merged with a neighbour has two places, of which the first one
// is taken.
Sequences reshaped_batch(const Sequences& batch, const Shape& from, const Shape& to);

// The batch of a tensor that is broadcast to `to`: dimensions are counted from the last one on.
Sequences broadcast_batch(const Sequences& batch, const Shape& from, const Shape& to);

// The batch of an output that has it in the same dimension as an input; not defined() if the sizes
// differ.
Sequences batch_of_same_dimension(const Sequences& batch, const Tensor& input,
                                  const Tensor& output);

// ---- batch rules

// The first output is what inputs make by broadcasting.
void batch_by_broadcasting(const BatchCall& call);
// The first output has one row for each sequence.
void batch_of_summaries(const BatchCall& call);
// The first output has the rows, the others have one row for each sequence.
void batch_with_summaries(const BatchCall& call);

// ---- tensors with the rows of the batch in front

// The number of elements of a tensor's dimensions first ... last - 1.
std::size_t elements_between(const Shape& shape, std::size_t first, std::size_t last);

// The shape with the dimension of the batch in two: the times that all rows lie in it, and one of
// them. Error tensor.rank: it has all dimensions already.
Shape with_cut(const Shape& shape, const Sequences& batch);
// The shape with dimensions `dimension` and `dimension` + 1 in one.
Shape without_cut(const Shape& shape, std::size_t dimension);

// The tensor as rows [rows of the batch times inner ones, last dimension], in the order of the
// batch. The batch is not in the last dimension; a batch that is not defined() leaves the order.
Tensor rows_in_batch_order(Context& context, const Tensor& tensor, const Sequences& batch);

// Checks that a tensor has the rows of a batch at their place. Error operator.sequences.
void check_batch(std::string_view operation, const Tensor& tensor, const Sequences& batch);

}  // namespace SOMA_NAMESPACE::detail

#ifndef SOMA_DISPATCH
#include <soma/ops/impl/batch.ipp>
#endif
