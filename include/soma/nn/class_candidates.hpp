#pragma once
// ClassCandidates: builds a set of classes, each class at most once: first the given classes, then
// classes that collide with queries in an index, then random classes.

#include <soma/nn/class_index.hpp>
#include <soma/numeric/draw_sequence.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/runtime/parallel.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::nn {

// Memory: 6 bytes for each class. Used by one thread at a time.
class ClassCandidates {
 public:
  explicit ClassCandidates(std::size_t classes) : position_(classes, none), hits_(classes, 0) {}

  // Starts an empty set with room for `room` classes.
  void begin(std::size_t room);
  // Changes the room, as for a set whose labels are more than were expected.
  void widen(std::size_t room) { room_ = room; }
  // Adds a valid class, even if the set is full.
  void add(std::size_t id);
  std::size_t size() const;

  // Adds the classes that share most buckets with queries first ... last - 1 of `count`; `buckets`
  // come from ClassIndex::buckets_of. Classes with equally many are ordered by a mixture of class
  // id and step.
  void add_colliding(const ClassIndex& index, std::span<const std::uint16_t> buckets,
                     std::size_t count, std::size_t first, std::size_t last, std::uint64_t step);
  // The same for all queries, on the context's threads: each thread counts the hits of some
  // classes.
  void add_colliding(Context& context, const ClassIndex& index,
                     std::span<const std::uint16_t> buckets, std::size_t count, std::uint64_t step);
  // Adds random classes until the set is full. Its room must not exceed the number of classes.
  void fill(DrawSequence draws);

  // classes(): the set in the order of addition, or ascending once ascending() was called.
  std::span<const std::int32_t> classes() const { return chosen_; }
  std::span<const std::int32_t> ascending();
  // The position of a class in the set, after ascending().
  std::int32_t position(std::size_t id) const { return position_[id]; }

 private:
  static constexpr std::int32_t none = -1, taken = 0;

  // The classes that share buckets with queries.
  struct Found {
    std::vector<std::uint32_t> ids{};
    std::vector<std::size_t> with{};  // [n]: how many classes have n hits
  };

  // Counts the hits of classes `least` ... `end` - 1.
  void count_hits(const ClassIndex& index, std::span<const std::uint16_t> buckets,
                  std::size_t count, std::size_t first, std::size_t last, std::size_t least,
                  std::size_t end, Found& found);
  // Adds the classes with the most hits that fit.
  void take_found(std::span<const Found> parts, std::uint64_t step);

  static constexpr std::uint64_t mixed(std::uint64_t id, std::uint64_t step) {
    std::uint64_t x = (id + (step << 32)) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    return x ^ x >> 32;
  }

  std::vector<std::int32_t> position_;  // the position of each class in the set
  std::vector<std::uint16_t> hits_;
  std::vector<std::int32_t> chosen_{};
  std::vector<Found> parts_{};       // one entry for each task
  std::vector<std::size_t> with_{};  // [n]: classes with n hits, over all parts
  std::vector<std::pair<std::uint64_t, std::uint32_t>> equal_{};
  std::size_t room_ = 0;
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/class_candidates.ipp>
#endif
