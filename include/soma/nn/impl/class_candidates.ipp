#pragma once
// The functions of class_candidates.hpp.

#include <soma/nn/class_candidates.hpp>

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

SOMA_INLINE void ClassCandidates::begin(std::size_t room) {
  for (const std::int32_t id : chosen_) position_[static_cast<std::size_t>(id)] = none;
  chosen_.clear();
  room_ = room;
}

SOMA_INLINE void ClassCandidates::add(std::size_t id) {
  if (position_[id] != none) return;
  position_[id] = taken;
  chosen_.push_back(static_cast<std::int32_t>(id));
}

SOMA_INLINE std::size_t ClassCandidates::size() const { return chosen_.size(); }

SOMA_INLINE void ClassCandidates::add_colliding(const ClassIndex& index,
                                                std::span<const std::uint16_t> buckets,
                                                std::size_t count, std::size_t first,
                                                std::size_t last, std::uint64_t step) {
  if (parts_.empty()) parts_.resize(1);
  count_hits(index, buckets, count, first, last, 0, position_.size(), parts_[0]);
  take_found(std::span(parts_).first(1), step);
}

SOMA_INLINE void ClassCandidates::add_colliding(Context& context, const ClassIndex& index,
                                                std::span<const std::uint16_t> buckets,
                                                std::size_t count, std::uint64_t step) {
  const std::size_t tasks =
      soma::detail::worthwhile_tasks(context, position_.size(), index.tables() * count * 64,
                                     soma::detail::operations_worth_a_task);
  if (parts_.size() < tasks) parts_.resize(tasks);
  parallel(context, static_cast<int>(tasks), [&](int number) {
    const auto task = static_cast<std::size_t>(number);
    count_hits(index, buckets, count, 0, count,
               soma::detail::even_border(position_.size(), tasks, task),
               soma::detail::even_border(position_.size(), tasks, task + 1), parts_[task]);
  });
  take_found(std::span(parts_).first(tasks), step);
}

SOMA_INLINE void ClassCandidates::fill(DrawSequence draws) {
  while (chosen_.size() < room_) add(draws.below(static_cast<std::uint32_t>(position_.size())));
}

SOMA_INLINE std::span<const std::int32_t> ClassCandidates::ascending() {
  std::sort(chosen_.begin(), chosen_.end());
  for (std::size_t i = 0; i < chosen_.size(); ++i)
    position_[static_cast<std::size_t>(chosen_[i])] = static_cast<std::int32_t>(i);
  return chosen_;
}

SOMA_INLINE void ClassCandidates::count_hits(const ClassIndex& index,
                                             std::span<const std::uint16_t> buckets,
                                             std::size_t count, std::size_t first, std::size_t last,
                                             std::size_t least, std::size_t end, Found& found) {
  found.ids.clear();
  std::uint16_t most = 0;
  const bool all = least == 0 && end == position_.size();
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

SOMA_INLINE void ClassCandidates::take_found(std::span<const Found> parts, std::uint64_t step) {
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

}  // namespace SOMA_NAMESPACE::nn
