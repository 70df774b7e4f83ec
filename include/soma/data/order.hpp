#pragma once
// The order in which an epoch visits its items: a pure function of (seed, epoch).

#include <soma/base/error.hpp>
#include <soma/numeric/draw_sequence.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::data {

// The draws that shuffle an epoch. `site` separates different uses. Error random.index_range: an
// epoch of 2^32 or more.
Draw epoch_draw(std::uint64_t seed, std::uint64_t epoch, std::string_view site);

// The numbers 0 .. count - 1 in order.
std::vector<std::uint32_t> identity_order(std::size_t count);

// The numbers 0 .. count - 1 shuffled (Fisher and Yates, from the last index down; every order is
// equally likely): the same on every machine. O(count), some 10 ns an item. Error
// random.index_range (count or epoch of 2^32 or more).
std::vector<std::uint32_t> shuffled_order(std::size_t count, std::uint64_t seed,
                                          std::uint64_t epoch);
// The same by other draws, from this one on.
std::vector<std::uint32_t> shuffled_order(std::size_t count, const Draw& first);

}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/order.ipp>
#endif
