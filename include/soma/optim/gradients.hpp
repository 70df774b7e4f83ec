#pragma once
// The norm of all gradients, clipping, and the test that all gradients are finite.

#include <soma/autograd/parameter.hpp>
#include <soma/autograd/row_blocks.hpp>
#include <soma/kernels/table.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace SOMA_NAMESPACE::optim {

namespace detail {

// The squares of one parameter's gradient, block by block of the rows of its variable.
class SquaredBlocks {
 public:
  SquaredBlocks(Heap& heap, const Parameter& parameter, Tensor values, const Gradient& gradient);

  std::size_t pieces() const;
  void square(const Kernels& kernels, std::size_t index);
  // The sum along the tree. A block without values adds 0, which changes no sum of squares.
  double sum() const;

 private:
  // The number of elements in the piece of the tree that one thread adds: many rows of an
  // embedding, because each of its rows is a block by itself.
  static constexpr std::size_t elements_of_piece = 8192;

  struct Piece {
    RowBlock block, own;  // `own`: the rows of the values
    double squares;
    unsigned sums;  // the number of sums with neighbours in the tree that this piece completes
  };

  // The first value in `own` that does not lie before `row`. Dense gradients count rows; sparse
  // gradients look them up.
  std::size_t index_of(std::size_t row, const RowBlock& own) const;
  // A half without values adds nothing, so a single row needs no smaller block.
  bool is_leaf(const RowBlock& block, const RowBlock& own) const;
  // The sum of squares, along the tree, of the values in `own`, which lie in the block.
  double squares_of(const Kernels& kernels, const RowBlock& block, const RowBlock& own) const;
  // `own`: the values that lie in the block.
  void add_pieces(const RowBlock& block, const RowBlock& own);

  Tensor values_, rows_;
  const std::int64_t* numbers_ = nullptr;  // the elements of rows_; nullptr: dense
  std::size_t row_elements_ = 0, first_ = 0;
  HeapVector<Piece> pieces_;
};

}  // namespace detail

// sqrt of the sum of squares of all gradients, in double: over the blocks of each parameter in
// their tree (RowBlock), then over the parameters in order. Parameters without a gradient add
// nothing. One pass over the gradients. If each rank holds a part of the gradients, share(sums)
// adds the parameters' sums over all ranks (all_reduce_parts()).
template <class Share>
double gradient_norm(Context& context, const Parameters& parameters, const Share& share) {
  HeapVector<detail::SquaredBlocks> squared(context.heap());
  struct Work {
    std::size_t parameter, piece;
  };
  HeapVector<Work> work(context.heap());
  HeapVector<double> sums(context.heap());
  squared.reserve(parameters.size());
  for (const Parameter& parameter : parameters) {
    const Gradient gradient = parameter.gradient();
    if (!gradient.defined()) continue;
    squared.push_back(detail::SquaredBlocks(context.heap(), parameter,
                                            contiguous(context, gradient.values), gradient));
    for (std::size_t i = 0; i < squared.back().pieces(); ++i)
      work.push_back({squared.size() - 1, i});
  }
  soma::detail::for_ranges(context, work.size(), row_block_elements,
                           [&](std::size_t begin, std::size_t end) {
                             for (std::size_t i = begin; i < end; ++i)
                               squared[work[i].parameter].square(context.kernels(), work[i].piece);
                           });
  const FloatEnvironment environment;
  for (const detail::SquaredBlocks& each : squared) sums.push_back(each.sum());
  share(std::span<double>(sums.data(), sums.size()));
  double total = 0;
  for (const double sum : sums) total += sum;
  return std::sqrt(total);
}
double gradient_norm(Context& context, const Parameters& parameters);

// The factor for the gradients that limits their norm to `limit`: limit / (norm + 1e-6) if the norm
// exceeds the limit, else 1. Pass the factor to the optimizer's step, which applies it as it reads
// gradients. The factor is 0 for an infinite norm and NaN for a NaN norm, so a step with it would
// show in the weights. To skip such a step, test std::isfinite(norm) first. Error operator.value: a
// limit that is NaN or below 0.
float clipping_factor(double norm, double limit);

bool gradients_finite(Context& context, const Parameters& parameters);

}  // namespace SOMA_NAMESPACE::optim

#ifndef SOMA_DISPATCH
#include <soma/optim/impl/gradients.ipp>
#endif
