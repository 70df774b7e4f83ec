#pragma once
// The functions of random.hpp.

#include <soma/kernels/random/random.hpp>

#include <soma/kernels/table.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/runtime/parallel.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE void fill_random(Context& context, std::span<float> out, RandomArgs args) {
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

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE void fill_uniform(Context& context, std::span<float> out, const Draw& draw) {
  detail::fill_random(context, out, {Distribution::uniform, draw, nullptr, 0, 0});
}

SOMA_INLINE void fill_normal(Context& context, std::span<float> out, const Draw& draw) {
  detail::fill_random(context, out, {Distribution::normal, draw, nullptr, 0, 0});
}

SOMA_INLINE void fill_bernoulli(Context& context, std::span<float> out, const Draw& draw,
                                double probability) {
  if (!(probability >= 0 && probability <= 1))
    fail(error_id::probability, "fill_bernoulli", "probability", std::to_string(probability),
         "0 to 1");
  const auto threshold = static_cast<std::uint64_t>(probability * 0x1p32);
  detail::fill_random(context, out, {Distribution::bernoulli, draw, nullptr, 0, threshold});
}

}  // namespace SOMA_NAMESPACE
