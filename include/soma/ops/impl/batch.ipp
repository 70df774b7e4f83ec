#pragma once
// The functions of batch.hpp.

#include <soma/ops/batch.hpp>

#include <soma/ops/tensor_rows.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE std::size_t elements_between(const Shape& shape, std::size_t first, std::size_t last) {
  std::size_t elements = 1;
  for (std::size_t i = first; i < last; ++i) elements *= shape[i];
  return elements;
}

// The rows divide the elements into those before them and those behind; a dimension of the new
// shape has all rows if its own elements before and behind divide these.
SOMA_INLINE Sequences reshaped_batch(const Sequences& batch, const Shape& from, const Shape& to) {
  const BatchPlace& place = batch.place();
  const std::size_t before = elements_between(from, 0, place.dimension) * place.outer;
  const std::size_t behind = elements_between(from, place.dimension + 1, from.rank()) * place.inner;
  const auto divides = [](std::size_t part, std::size_t whole) {
    return part == 0 ? whole == 0 : whole % part == 0;
  };
  const auto quotient = [](std::size_t whole, std::size_t part) {
    return part == 0 ? std::size_t{1} : whole / part;
  };
  // With one row several dimensions may have it: best is one with the rows alone, in the same
  // dimension as before.
  Sequences found;
  int best = 0;
  for (std::size_t d = 0; d < to.rank(); ++d) {
    const std::size_t first = elements_between(to, 0, d);
    const std::size_t last = elements_between(to, d + 1, to.rank());
    if (!divides(first, before) || !divides(last, behind)) continue;
    const BatchPlace there{d, quotient(before, first), quotient(behind, last)};
    if (there.outer * batch.rows() * there.inner != to[d]) continue;
    const bool alone = there.outer == 1 && there.inner == 1;
    const int fit = !alone ? 1 : d == place.dimension ? 3 : 2;
    if (fit <= best) continue;
    found = batch.at(there);
    best = fit;
  }
  return found;
}

SOMA_INLINE Sequences broadcast_batch(const Sequences& batch, const Shape& from, const Shape& to) {
  BatchPlace place = batch.place();
  if (to.rank() < from.rank()) return {};
  const std::size_t dimension = place.dimension + to.rank() - from.rank();
  if (to[dimension] != from[place.dimension]) return {};  // one row for all of another batch
  place.dimension = dimension;
  return batch.at(place);
}

SOMA_INLINE Sequences batch_of_same_dimension(const Sequences& batch, const Tensor& input,
                                              const Tensor& output) {
  const std::size_t dimension = batch.place().dimension;
  const bool same = dimension < output.rank() && output.size(dimension) == input.size(dimension);
  return same ? batch : Sequences();
}

SOMA_INLINE void batch_by_broadcasting(const BatchCall& call) {
  for (std::size_t i = 0; i < call.inputs.size() && !call.results[0].defined(); ++i)
    if (call.batches[i].defined())
      call.results[0] =
          broadcast_batch(call.batches[i], call.inputs[i].shape(), call.outputs[0].shape());
}

SOMA_INLINE void batch_of_summaries(const BatchCall& call) {
  call.results[0] = call.batches[call.first()].summary(call.context);
}

SOMA_INLINE void batch_with_summaries(const BatchCall& call) {
  const Sequences& batch = call.batches[call.first()];
  call.results[0] = batch;
  const Sequences summary = batch.summary(call.context);
  for (std::size_t i = 1; i < call.results.size(); ++i)
    if (summary.fits(call.outputs[i])) call.results[i] = summary;
}

SOMA_INLINE Shape with_cut(const Shape& shape, const Sequences& batch) {
  const BatchPlace& place = batch.place();
  if (shape.rank() == max_rank)
    fail(error_id::tensor_rank, "batch", "tensor", to_string(shape),
         "at most rank " + std::to_string(max_rank - 1) +
             " if all rows of the batch lie several times in a dimension");
  std::array<std::size_t, max_rank> sizes{};
  for (std::size_t i = 0; i < shape.rank(); ++i) sizes[i < place.dimension ? i : i + 1] = shape[i];
  sizes[place.dimension] = place.outer;
  sizes[place.dimension + 1] = batch.rows() * place.inner;
  return Shape(std::span<const std::size_t>(sizes.data(), shape.rank() + 1));
}

SOMA_INLINE Shape without_cut(const Shape& shape, std::size_t dimension) {
  return shape.without(dimension).with(dimension, shape[dimension] * shape[dimension + 1]);
}

SOMA_INLINE Tensor rows_in_batch_order(Context& context, const Tensor& tensor,
                                       const Sequences& batch) {
  Tensor front = tensor;
  if (batch.defined() && !batch.place().leads()) {
    const bool several = batch.place().outer != 1;
    if (several) front = contiguous(context, front).reshape(with_cut(front.shape(), batch));
    front = front.transpose(0, batch.place().dimension + (several ? 1 : 0));
  }
  if (front.rank() == 2) return front;
  return contiguous(context, front).reshape(Shape{front.shape().rows(), front.shape().columns()});
}

SOMA_INLINE void check_batch(std::string_view operation, const Tensor& tensor,
                             const Sequences& batch) {
  if (!batch.defined() || batch.fits(tensor)) return;
  const BatchPlace& place = batch.place();
  const std::string each = place.outer == 1 && place.inner == 1
                               ? std::string()
                               : " (" + std::to_string(place.outer) +
                                     " times all, each followed by " + std::to_string(place.inner) +
                                     ")";
  fail(error_id::operator_sequences, operation, "sequences",
       std::to_string(batch.rows()) + " rows in dimension " + std::to_string(place.dimension) +
           each + " of " + tensor.describe(),
       "as many rows as that dimension has");
}

}  // namespace SOMA_NAMESPACE::detail
