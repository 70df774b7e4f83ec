#pragma once
// Uniform, normal and Bernoulli draws, over the context's executor. Element i gets the number of
// logical index draw.index + i of its stream (numeric/draw.hpp), whatever the threads, the target
// and the cut.

#include <soma/kernels/table.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/runtime/parallel.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace soma {

namespace detail {

inline void fill_random(Context& context, std::span<float> out, RandomArgs args) {
  constexpr std::size_t block = 32768;  // 128 KiB: large beside the cost of handing out work
  const std::size_t blocks = (out.size() + block - 1) / block;
  const auto width = static_cast<std::size_t>(blocks <= 1 ? 1 : context.executor().width);
  const std::size_t tasks = (std::min)(blocks, width);
  parallel(context, static_cast<int>(tasks), [&](int task) {
    const auto part = [&](std::size_t index) {
      return (std::min)(out.size(),
                        (blocks / tasks * index + (std::min)(index, blocks % tasks)) * block);
    };
    const std::size_t first = part(static_cast<std::size_t>(task));
    RandomArgs own = args;
    own.draw.index += first;
    own.out = out.data() + first;
    own.count = part(static_cast<std::size_t>(task) + 1) - first;
    context.kernels().random(own);
  });
}

}  // namespace detail

// Multiples of 2^-24 from 0 to below 1.
inline void fill_uniform(Context& context, std::span<float> out, const Draw& draw) {
  detail::fill_random(context, out, {Distribution::uniform, draw, nullptr, 0, 0});
}

// Mean 0, variance 1, by Box and Muller from 31 and 24 random bits: magnitudes reach 6.55. The same
// bits on every target; a few units in the last place from the exact transform.
inline void fill_normal(Context& context, std::span<float> out, const Draw& draw) {
  detail::fill_random(context, out, {Distribution::normal, draw, nullptr, 0, 0});
}

// 1 with that probability, to a multiple of 2^-32 below it, else 0. Error random.probability
// outside 0 to 1.
inline void fill_bernoulli(Context& context, std::span<float> out, const Draw& draw,
                           double probability) {
  if (!(probability >= 0 && probability <= 1))
    fail(error_id::probability, "fill_bernoulli", "probability", std::to_string(probability),
         "0 to 1");
  const auto threshold = static_cast<std::uint64_t>(probability * 0x1p32);
  detail::fill_random(context, out, {Distribution::bernoulli, draw, nullptr, 0, threshold});
}

}  // namespace soma
