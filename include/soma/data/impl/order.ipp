#pragma once
// The functions of order.hpp.

#include <soma/data/order.hpp>

#include <soma/base/error.hpp>
#include <soma/numeric/draw_sequence.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::data {

SOMA_INLINE Draw epoch_draw(std::uint64_t seed, std::uint64_t epoch, std::string_view site) {
  if (epoch >> 32 != 0)
    fail(error_id::index_range, "epoch_draw", "epoch", std::to_string(epoch), "below 2^32");
  return {.seed = seed,
          .stream = stream_id("data", site),
          .step = static_cast<std::uint32_t>(epoch),
          .index = 0};
}

SOMA_INLINE std::vector<std::uint32_t> identity_order(std::size_t count) {
  if (std::uint64_t{count} >> 32 != 0)
    fail(error_id::index_range, "identity_order", "count", std::to_string(count), "below 2^32");
  std::vector<std::uint32_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<std::uint32_t>(i);
  return order;
}

SOMA_INLINE std::vector<std::uint32_t> shuffled_order(std::size_t count, std::uint64_t seed,
                                                      std::uint64_t epoch) {
  return shuffled_order(count, epoch_draw(seed, epoch, "order"));
}

SOMA_INLINE std::vector<std::uint32_t> shuffled_order(std::size_t count, const Draw& first) {
  std::vector<std::uint32_t> order = identity_order(count);
  DrawSequence draws(first);
  for (std::size_t i = count; i > 1; --i)
    std::swap(order[i - 1], order[draws.below(static_cast<std::uint32_t>(i))]);
  return order;
}

}  // namespace SOMA_NAMESPACE::data
