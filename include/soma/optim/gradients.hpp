#pragma once
// What is done to all gradients together: their norm, clipping, and whether they are finite.

#include <soma/autograd/parameter.hpp>
#include <soma/kernels/table.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace soma::optim {

// sqrt of the sum of squares of all gradients, in double: over blocks of 65536 elements of each
// parameter, blocks added in order. Parameters without a gradient add nothing. One pass over the
// gradients.
inline double gradient_norm(Context& context, const Parameters& parameters) {
  constexpr std::size_t block = 65536;
  struct Piece {
    const std::byte* data;
    DType dtype;
    std::size_t count;
    double squares;
  };
  HeapVector<Piece> pieces(context.heap());
  HeapVector<Tensor> kept(context.heap());
  for (const Parameter& parameter : parameters) {
    const Tensor values = parameter.gradient().values;
    if (!values.defined()) continue;
    kept.push_back(contiguous(context, values));
    const Tensor& gradient = kept.back();
    for (std::size_t begin = 0; begin < gradient.elements(); begin += block)
      pieces.push_back({gradient.raw() + begin * size_of(gradient.dtype()), gradient.dtype(),
                        (std::min)(block, gradient.elements() - begin), 0});
  }
  soma::detail::for_ranges(context, pieces.size(), block, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      SumSquaresArgs args{.count = pieces[i].count, .x = pieces[i].data, .dtype = pieces[i].dtype};
      context.kernels().reduce.sum_squares(args);
      pieces[i].squares = args.result;
    }
  });
  const FloatEnvironment environment;
  double total = 0;
  for (const Piece& piece : pieces) total += piece.squares;
  return std::sqrt(total);
}

// What gradients are multiplied by so that their norm is at most `limit`: limit / (norm + 1e-6)
// where the norm exceeds it, else 1. Given to the optimizer's step, which applies it as it reads
// them. So it is 0 for an infinite norm, and NaN for one that is NaN: a step with it would make
// that visible in the weights. Whoever would rather skip the step asks std::isfinite(norm) first.
inline float clipping_factor(double norm, double limit) {
  const FloatEnvironment environment;
  return norm <= limit ? 1.0f : static_cast<float>(limit / (norm + 1e-6));
}

inline bool gradients_finite(Context& context, const Parameters& parameters) {
  for (const Parameter& parameter : parameters)
    if (const Tensor values = parameter.gradient().values;
        values.defined() && !context.built_in().all_finite(context, values))
      return false;
  return true;
}

}  // namespace soma::optim
