#pragma once
// The functions of label_tree.hpp: weights of nodes, and searches.

#include <soma/nn/label_tree.hpp>

#include <soma/base/error.hpp>
#include <soma/nn/class_search.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::nn {

namespace detail {

inline constexpr std::size_t wide_panel = 16;  // the width of a panel of many branches

// True if one of 16 numbers has an absolute value of at least `least`, above 0: by the bits of the
// numbers, as a difference whose sign says so.
inline bool any_large(const float* values, float least) {
  const auto bound = std::bit_cast<std::uint32_t>(least) - 1;
  std::uint32_t signs = 0;
  for (std::size_t i = 0; i < wide_panel; ++i)
    signs |= bound - (std::bit_cast<std::uint32_t>(values[i]) & 0x7FFFFFFFu);
  return signs >> 31 != 0;
}

}  // namespace detail

SOMA_INLINE std::uint64_t LabelTree::weights() const { return weights_.size(); }

SOMA_INLINE int LabelTree::shift_for(std::uint64_t rows) {
  return 32 - std::clamp(static_cast<int>(std::bit_width(rows)), 1, 30);
}

SOMA_INLINE std::uint32_t LabelTree::branch_of(const Node& node, std::uint32_t place) const {
  if (node.is_leaf()) return place - node.first;
  const Node* const branches = &nodes_[node.branch];
  const Node* const found =
      std::upper_bound(branches, branches + node.branches, place,
                       [](std::uint32_t one, const Node& branch) { return one < branch.end; });
  return static_cast<std::uint32_t>(found - branches);
}

SOMA_INLINE void LabelTree::make_places(std::size_t classes) {
  places_.assign(classes, no_place);
  for (std::size_t i = 0; i < order_.size(); ++i)
    places_[static_cast<std::size_t>(order_[i])] = static_cast<std::uint32_t>(i);
  bias_begins_.assign(1, 0);
  for (const Node& node : nodes_) bias_begins_.push_back(bias_begins_.back() + node.branches);
  bias_.assign(bias_begins_.back(), 0.0f);
  unfinished_.resize(nodes_.size());
}

SOMA_INLINE void LabelTree::set_weights(std::size_t node, std::span<const std::int32_t> ids,
                                        const NodeWeights& weights, float least) {
  const std::size_t branches = nodes_[node].branches, width = weights.width;
  // The large weights, in the order of the memory: most rows of a panel have none.
  std::vector<std::uint32_t> rows, counts(ids.size(), 0);
  std::vector<std::uint8_t> large_branches;
  std::vector<float> large;
  for (std::size_t first = 0; first < branches; first += width) {
    const float* const panel = weights.weights + first * ids.size();
    const std::size_t used = (std::min)(width, branches - first);
    for (std::size_t row = 0; row < ids.size(); ++row) {
      const float* const values = panel + row * width;
      if (width == detail::wide_panel && !detail::any_large(values, least)) continue;
      for (std::size_t i = 0; i < used; ++i) {
        if (!(std::abs(values[i]) >= least)) continue;
        rows.push_back(static_cast<std::uint32_t>(row));
        large_branches.push_back(static_cast<std::uint8_t>(first + i));
        large.push_back(values[i]);
        ++counts[row];
      }
    }
  }
  // The rows that have some, by their buckets: the first bits of the hash.
  const auto kept = static_cast<std::size_t>(
      std::count_if(counts.begin(), counts.end(), [](std::uint32_t count) { return count != 0; }));
  const int shift = shift_for(kept);
  std::vector<std::uint32_t> next((std::size_t{1} << (32 - shift)) + 1, 0), place(ids.size(), 0);
  for (std::size_t row = 0; row < ids.size(); ++row)
    if (counts[row] != 0) ++next[(hashed(ids[row]) >> shift) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  Rows own;
  own.ids.resize(kept);
  own.begins.assign(kept + 1, 0);
  for (std::size_t row = 0; row < ids.size(); ++row) {
    if (counts[row] == 0) continue;
    place[row] = next[hashed(ids[row]) >> shift]++;
    own.ids[place[row]] = ids[row];
    own.begins[place[row] + 1] = counts[row];
  }
  std::partial_sum(own.begins.begin(), own.begins.end(), own.begins.begin());
  std::vector<std::uint32_t> to(own.begins.begin(), own.begins.end() - 1);
  own.branches.resize(large.size());
  own.weights.resize(large.size());
  for (std::size_t i = 0; i < large.size(); ++i) {
    const std::uint32_t at = to[place[rows[i]]]++;
    own.branches[at] = large_branches[i];
    own.weights[at] = large[i];
  }
  unfinished_[node] = std::move(own);
  std::copy(weights.bias.begin(), weights.bias.end(),
            bias_.begin() + static_cast<std::ptrdiff_t>(bias_begins_[node]));
}

SOMA_INLINE void LabelTree::finish() {
  node_rows_.assign(1, 0);
  std::size_t weights = 0;
  for (const Rows& rows : unfinished_) {
    node_rows_.push_back(node_rows_.back() + rows.ids.size());
    weights += rows.weights.size();
  }
  row_ids_.reserve(node_rows_.back());
  row_begins_.reserve(node_rows_.back() + 1);
  branch_.reserve(weights);
  weights_.reserve(weights);
  row_begins_.assign(1, 0);
  for (Rows& rows : unfinished_) {
    const std::uint64_t before = weights_.size();
    row_ids_.insert(row_ids_.end(), rows.ids.begin(), rows.ids.end());
    for (std::size_t i = 1; i < rows.begins.size(); ++i)
      row_begins_.push_back(before + rows.begins[i]);
    branch_.insert(branch_.end(), rows.branches.begin(), rows.branches.end());
    weights_.insert(weights_.end(), rows.weights.begin(), rows.weights.end());
    rows = {};
  }
  unfinished_.clear();
  index_rows();
}

SOMA_INLINE void LabelTree::index_rows() {
  node_buckets_.assign(1, 0);
  buckets_.clear();
  shifts_.clear();
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    const std::uint64_t first = node_rows_[node], count = node_rows_[node + 1] - first;
    const int shift = shift_for(count);
    shifts_.push_back(static_cast<std::uint8_t>(shift));
    std::uint32_t row = 0;
    for (std::uint32_t bucket = 0; bucket < std::uint32_t{1} << (32 - shift); ++bucket) {
      buckets_.push_back(row);
      while (row < count && hashed(row_ids_[first + row]) >> shift == bucket) ++row;
    }
    buckets_.push_back(row);
    node_buckets_.push_back(buckets_.size());
  }
}

SOMA_INLINE std::uint64_t LabelTree::bytes() const {
  return weights_.size() * 5 + row_ids_.size() * 12 + buckets_.size() * 4 + order_.size() * 4 +
         places_.size() * 4 + nodes_.size() * 33 + bias_.size() * 4;
}

SOMA_INLINE void LabelTree::add_scores(std::size_t node, const Point& point,
                                       Scratch& scratch) const {
  const std::uint32_t* const buckets = buckets_.data() + node_buckets_[node];
  const std::uint64_t first = node_rows_[node];
  const int shift = shifts_[node];
  // First all rows, then their weights: the CPU waits for many lines of memory at a time.
  scratch.rows.resize(point.ids.size());
  std::size_t count = 0;
  for (std::size_t k = 0; k < point.ids.size(); ++k) {
    const std::int32_t id = point.ids[k];
    const std::uint32_t bucket = hashed(id) >> shift;
    for (std::uint32_t i = buckets[bucket]; i < buckets[bucket + 1]; ++i) {
      if (row_ids_[first + i] != id) continue;
      scratch.rows[count++] = {first + i, static_cast<std::uint32_t>(k)};
      break;
    }
  }
  double* const scores = scratch.scores.data();
  for (const auto& [row, k] : std::span(scratch.rows).first(count)) {
    const double value = point.values.empty() ? 1.0 : static_cast<double>(point.values[k]);
    for (std::uint64_t w = row_begins_[row]; w < row_begins_[row + 1]; ++w)
      scores[branch_[w]] += static_cast<double>(weights_[w]) * value;
  }
}

SOMA_INLINE std::vector<FoundClass> LabelTree::top(const Point& point, std::size_t count,
                                                   std::size_t beam, Scratch& scratch) const {
  BestClasses best(count);
  scratch.beam.assign(1, {0.0, 0u});
  while (!scratch.beam.empty()) {
    scratch.next.clear();
    for (const auto& [above, number] : scratch.beam) {
      const Node& node = nodes_[number];
      const float* const bias = bias_.data() + bias_begins_[number];
      scratch.scores.assign(bias, bias + node.branches);
      add_scores(number, point, scratch);
      for (std::uint32_t branch = 0; branch < node.branches; ++branch) {
        // The square of a float is exact in double.
        const float missing = (std::max)(0.0f, static_cast<float>(1 - scratch.scores[branch]));
        const double score = above - static_cast<double>(missing) * static_cast<double>(missing);
        if (node.is_leaf())
          best.add(static_cast<float>(score), order_[node.first + branch]);
        else
          scratch.next.emplace_back(score, node.branch + branch);
      }
    }
    if (scratch.next.size() > beam) {
      const auto before = [](const auto& a, const auto& b) {
        return a.first != b.first ? a.first > b.first : a.second < b.second;
      };
      std::nth_element(scratch.next.begin(),
                       scratch.next.begin() + static_cast<std::ptrdiff_t>(beam), scratch.next.end(),
                       before);
      scratch.next.resize(beam);
    }
    std::swap(scratch.beam, scratch.next);
  }
  return best.classes();
}

}  // namespace SOMA_NAMESPACE::nn
