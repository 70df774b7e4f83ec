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

namespace soma::nn {

// Memory: 6 bytes for each class. Used by one thread at a time.
class ClassCandidates {
 public:
  explicit ClassCandidates(std::size_t classes) : place_(classes, none), hits_(classes, 0) {}

  // Starts an empty set with room for `room` classes.
  void begin(std::size_t room) {
    for (const std::int32_t id : chosen_) place_[static_cast<std::size_t>(id)] = none;
    chosen_.clear();
    room_ = room;
  }
  // Adds a valid class, even if the set is full.
  void add(std::size_t id) {
    if (place_[id] != none) return;
    place_[id] = taken;
    chosen_.push_back(static_cast<std::int32_t>(id));
  }
  std::size_t size() const { return chosen_.size(); }

  // Adds the classes that share most buckets with queries first ... last - 1 of `count`; `buckets`
  // come from ClassIndex::buckets_of. Classes with equally many are ordered by a mixture of class
  // id and step.
  void add_colliding(const ClassIndex& index, std::span<const std::uint16_t> buckets,
                     std::size_t count, std::size_t first, std::size_t last, std::uint64_t step) {
    if (parts_.empty()) parts_.resize(1);
    count_hits(index, buckets, count, first, last, 0, place_.size(), parts_[0]);
    take_found(std::span(parts_).first(1), step);
  }
  // The same for all queries, on the context's threads: each thread counts the hits of some
  // classes.
  void add_colliding(Context& context, const ClassIndex& index,
                     std::span<const std::uint16_t> buckets, std::size_t count,
                     std::uint64_t step) {
    const std::size_t tasks = soma::detail::worthwhile_tasks(
        context, place_.size(), index.tables() * count * 64, soma::detail::operations_worth_a_task);
    if (parts_.size() < tasks) parts_.resize(tasks);
    parallel(context, static_cast<int>(tasks), [&](int number) {
      const auto task = static_cast<std::size_t>(number);
      count_hits(index, buckets, count, 0, count,
                 soma::detail::even_border(place_.size(), tasks, task),
                 soma::detail::even_border(place_.size(), tasks, task + 1), parts_[task]);
    });
    take_found(std::span(parts_).first(tasks), step);
  }
  // Adds random classes until the set is full. Its room must not exceed the number of classes.
  void fill(DrawSequence draws) {
    while (chosen_.size() < room_) add(draws.below(static_cast<std::uint32_t>(place_.size())));
  }

  // classes(): the set in the order of addition, or ascending once ascending() was called.
  std::span<const std::int32_t> classes() const { return chosen_; }
  std::span<const std::int32_t> ascending() {
    std::sort(chosen_.begin(), chosen_.end());
    for (std::size_t i = 0; i < chosen_.size(); ++i)
      place_[static_cast<std::size_t>(chosen_[i])] = static_cast<std::int32_t>(i);
    return chosen_;
  }
  // The place of a class in the set, after ascending().
  std::int32_t place(std::size_t id) const { return place_[id]; }

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
                  std::size_t end, Found& found) {
    found.ids.clear();
    std::uint16_t most = 0;
    const bool all = least == 0 && end == place_.size();
    for (std::size_t table = 0; table < index.tables(); ++table)
      for (std::size_t i = first; i < last; ++i) {
        std::span<const std::uint32_t> ids = index.bucket(table, buckets[table * count + i]);
        if (!all) {
          const auto from = std::lower_bound(ids.begin(), ids.end(), least);
          ids = {from, std::lower_bound(from, ids.end(), end)};
        }
        for (const std::uint32_t id : ids) {
          if (hits_[id] == 0) found.ids.push_back(id);
          if (hits_[id] != 0xFFFF) ++hits_[id];
          most = (std::max)(most, hits_[id]);
        }
      }
    found.with.assign(std::size_t{most} + 1, 0);
    for (const std::uint32_t id : found.ids) ++found.with[hits_[id]];
  }
  // Adds the classes with the most hits that fit.
  void take_found(std::span<const Found> parts, std::uint64_t step) {
    with_.clear();
    for (const Found& part : parts) {
      if (with_.size() < part.with.size()) with_.resize(part.with.size());
      for (std::size_t hits = 0; hits < part.with.size(); ++hits) with_[hits] += part.with[hits];
    }
    std::size_t room = room_ > chosen_.size() ? room_ - chosen_.size() : 0;
    std::size_t least = with_.size() - 1;  // every class with more hits fits
    while (least > 0 && with_[least] <= room) room -= with_[least--];
    equal_.clear();
    for (const Found& part : parts)
      for (const std::uint32_t id : part.ids) {
        if (hits_[id] > least) add(id);
        if (hits_[id] == least && least != 0) equal_.push_back({mixed(id, step), id});
        hits_[id] = 0;
      }
    std::sort(equal_.begin(), equal_.end());
    for (const auto& [key, id] : equal_)
      if (chosen_.size() < room_) add(id);
  }

  static constexpr std::uint64_t mixed(std::uint64_t id, std::uint64_t step) {
    std::uint64_t x = (id + (step << 32)) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    return x ^ x >> 32;
  }

  std::vector<std::int32_t> place_;  // the place of each class in the set
  std::vector<std::uint16_t> hits_;
  std::vector<std::int32_t> chosen_{};
  std::vector<Found> parts_{};       // one entry for each task
  std::vector<std::size_t> with_{};  // [n]: classes with n hits, over all parts
  std::vector<std::pair<std::uint64_t, std::uint32_t>> equal_{};
  std::size_t room_ = 0;
};

}  // namespace soma::nn
