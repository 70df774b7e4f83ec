#pragma once
// LabelTree::cluster(): the labels' centroids, and their cuts.

#include <soma/nn/label_tree.hpp>

#include <soma/base/error.hpp>
#include <soma/data/point_source.hpp>
#include <soma/numeric/draw_sequence.hpp>
#include <soma/ops/fields.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/runtime/parallel.hpp>
#include <soma/runtime/spares.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::nn::detail {

// Sums over few of very many features: only the touched ones are cleared. Products of two floats
// are exact in double, so a compiler that fuses them with additions changes no bit.
struct FeatureSums {
  std::vector<float> sums{};
  std::vector<std::uint8_t> seen{};
  std::vector<std::int32_t> touched{};

  void begin(std::size_t features) {
    if (sums.size() == features) return;
    sums.assign(features, 0.0f);
    seen.assign(features, 0);
  }
  void add(std::int32_t id, float value) {
    const auto at = static_cast<std::size_t>(id);
    if (seen[at] == 0) {
      seen[at] = 1;
      touched.push_back(id);
    }
    sums[at] += value;
  }
  double length() const {
    double sum = 0;
    for (const std::int32_t id : touched) {
      const auto value = static_cast<double>(sums[static_cast<std::size_t>(id)]);
      sum += value * value;
    }
    return std::sqrt(sum);
  }
  void clear() {
    for (const std::int32_t id : touched) {
      sums[static_cast<std::size_t>(id)] = 0;
      seen[static_cast<std::size_t>(id)] = 0;
    }
    touched.clear();
  }
};

// Vectors of labels in compressed rows.
struct Centroids {
  std::vector<std::size_t> begins{0};
  std::vector<std::int32_t> ids{};
  std::vector<float> values{};
};

struct CutScratch {
  FeatureSums halves[2];
  std::vector<float> difference{};
  std::vector<std::pair<double, std::uint32_t>> scores{};
  std::vector<std::uint8_t> side{};
};

// The largest `most` features of the sum of some points, scaled to length 1, in ascending order.
SOMA_INLINE void centroid_of(const data::SparsePoints& points, std::span<const std::uint32_t> own,
                             std::size_t most, FeatureSums& sums,
                             std::vector<std::pair<std::int32_t, float>>& result) {
  sums.begin(points.features);
  for (const std::uint32_t point : own)
    for (std::size_t k = points.offsets[point]; k < points.offsets[point + 1]; ++k)
      sums.add(points.ids[k], points.values.empty() ? 1.0f : points.values[k]);
  result.clear();
  for (const std::int32_t id : sums.touched)
    result.emplace_back(id, sums.sums[static_cast<std::size_t>(id)]);
  sums.clear();
  if (result.size() > most) {
    const auto larger = [](const auto& a, const auto& b) {
      const float first = std::abs(a.second), second = std::abs(b.second);
      return first != second ? first > second : a.first < b.first;
    };
    std::nth_element(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(most),
                     result.end(), larger);
    result.resize(most);
  }
  std::sort(result.begin(), result.end());
  double squares = 0;
  for (const auto& [id, value] : result)
    squares += static_cast<double>(value) * static_cast<double>(value);
  const double length = std::sqrt(squares);
  for (auto& [id, value] : result)
    value = length > 0 ? static_cast<float>(static_cast<double>(value) / length) : 0.0f;
}

SOMA_INLINE Centroids centroids_of(Context& context, const data::SparsePoints& points,
                                   const LabelPoints& label_points,
                                   std::span<const std::int32_t> labels, std::size_t most) {
  // A task keeps its part, because sizes are known only then.
  const std::size_t tasks = soma::detail::worthwhile_tasks(
      context, labels.size(), points.ids.size() * 8, soma::detail::operations_worth_a_task);
  std::vector<Centroids> parts(tasks);
  parallel(context, static_cast<int>(tasks), [&](int number) {
    const auto task = static_cast<std::size_t>(number);
    FeatureSums sums;
    std::vector<std::pair<std::int32_t, float>> own;
    Centroids& part = parts[task];
    for (std::size_t i = soma::detail::even_border(labels.size(), tasks, task);
         i < soma::detail::even_border(labels.size(), tasks, task + 1); ++i) {
      const auto label = static_cast<std::size_t>(labels[i]);
      const std::size_t first = label_points.begins[label];
      centroid_of(
          points,
          std::span(label_points.points).subspan(first, label_points.begins[label + 1] - first),
          most, sums, own);
      for (const auto& [id, value] : own) {
        part.ids.push_back(id);
        part.values.push_back(value);
      }
      part.begins.push_back(part.ids.size());
    }
  });
  Centroids all;
  for (const Centroids& part : parts) {
    const std::size_t before = all.ids.size();
    for (std::size_t i = 1; i < part.begins.size(); ++i)
      all.begins.push_back(before + part.begins[i]);
    all.ids.insert(all.ids.end(), part.ids.begin(), part.ids.end());
    all.values.insert(all.values.end(), part.values.begin(), part.values.end());
  }
  return all;
}

// Balanced 2-means of the labels of `part`, indices of `centroids`: the first half of the part is
// then one side, the second half the other.
class Cut {
 public:
  Cut(const Centroids& centroids, std::size_t features, CutScratch& scratch)
      : centroids_(centroids), features_(features), scratch_(scratch) {}

  void run(Context& context, std::span<std::uint32_t> part, DrawSequence draws) {
    constexpr int most_rounds = 4;
    const std::size_t half = (part.size() + 1) / 2;
    scratch_.difference.resize(features_);
    scratch_.scores.resize(part.size());
    for (FeatureSums& sums : scratch_.halves) sums.begin(features_);
    scratch_.side.assign(part.size(), 2);
    const auto first = draws.below(static_cast<std::uint32_t>(part.size()));
    const auto step = 1 + draws.below(static_cast<std::uint32_t>(part.size() - 1));
    add(part[first], 0);
    add(part[(first + step) % part.size()], 1);
    for (int round = 0; round < most_rounds; ++round) {
      take_difference();
      score(context, part);
      std::nth_element(scratch_.scores.begin(),
                       scratch_.scores.begin() + static_cast<std::ptrdiff_t>(half),
                       scratch_.scores.end());
      std::size_t moved = 0;
      for (std::size_t i = 0; i < part.size(); ++i) {
        const std::uint8_t side = i < half ? 0 : 1;
        std::uint8_t& was = scratch_.side[scratch_.scores[i].second];
        moved += was != side ? 1 : 0;
        was = side;
      }
      // The last per cent changes little.
      if (moved * 100 <= part.size()) break;
      if (round + 1 < most_rounds)
        for (std::size_t i = 0; i < part.size(); ++i) add(part[i], scratch_.side[i]);
    }
    std::vector<std::uint32_t> sorted;
    for (const std::uint8_t side : {std::uint8_t{0}, std::uint8_t{1}})
      for (std::size_t i = 0; i < part.size(); ++i)
        if (scratch_.side[i] == side) sorted.push_back(part[i]);
    std::copy(sorted.begin(), sorted.end(), part.begin());
  }

 private:
  void add(std::uint32_t label, std::uint8_t side) {
    FeatureSums& sums = scratch_.halves[side];
    for (std::size_t k = centroids_.begins[label]; k < centroids_.begins[label + 1]; ++k)
      sums.add(centroids_.ids[k], centroids_.values[k]);
  }
  // Also clears the sums.
  void take_difference() {
    FeatureSums& left = scratch_.halves[0];
    FeatureSums& right = scratch_.halves[1];
    const double left_length = left.length(), right_length = right.length();
    const auto scaled = [](float value, double length) {
      return length > 0 ? static_cast<double>(value) / length : 0.0;
    };
    for (const FeatureSums* sums : {&left, &right})
      for (const std::int32_t id : sums->touched) {
        const auto at = static_cast<std::size_t>(id);
        // Ascending order puts the left side first.
        scratch_.difference[at] = static_cast<float>(scaled(right.sums[at], right_length) -
                                                     scaled(left.sums[at], left_length));
      }
    known_.assign(left.touched.begin(), left.touched.end());
    known_.insert(known_.end(), right.touched.begin(), right.touched.end());
    left.clear();
    right.clear();
  }
  void score(Context& context, std::span<const std::uint32_t> part) {
    soma::detail::for_ranges(context, part.size(), 128, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        double sum = 0;
        for (std::size_t k = centroids_.begins[part[i]]; k < centroids_.begins[part[i] + 1]; ++k)
          sum +=
              static_cast<double>(centroids_.values[k]) *
              static_cast<double>(scratch_.difference[static_cast<std::size_t>(centroids_.ids[k])]);
        scratch_.scores[i] = {sum, static_cast<std::uint32_t>(i)};
      }
    });
    for (const std::int32_t id : known_) scratch_.difference[static_cast<std::size_t>(id)] = 0;
  }

  const Centroids& centroids_;
  std::size_t features_;
  CutScratch& scratch_;
  std::vector<std::int32_t> known_{};  // where the difference is not 0
};

}  // namespace SOMA_NAMESPACE::nn::detail

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE void fields(FieldVisitor& visitor, LabelTreeOptions& options) {
  visitor.option("branches", options.branches, NumberRange{.least = 2, .most = 64});
  visitor.option("leaf", options.leaf, NumberRange{.least = 1, .most = 256});
  visitor.option("centroid_features", options.centroid_features, NumberRange::at_least(1));
  visitor.option("seed", options.seed);
}

SOMA_INLINE LabelPoints::LabelPoints(const data::SparsePoints& all) : begins(all.classes + 1, 0) {
  for (const std::int32_t label : all.labels.ids) ++begins[static_cast<std::size_t>(label) + 1];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  points.resize(all.labels.ids.size());
  std::vector<std::size_t> next(begins.begin(), begins.end() - 1);
  for (std::size_t i = 0; i < all.count(); ++i)
    for (const std::int32_t label : all.labels.list(i))
      points[next[static_cast<std::size_t>(label)]++] = static_cast<std::uint32_t>(i);
}

SOMA_INLINE std::span<const std::uint32_t> LabelPoints::of(std::size_t label) const {
  return std::span(points).subspan(begins[label], begins[label + 1] - begins[label]);
}

SOMA_INLINE LabelTree LabelTree::cluster(Context& context, const data::SparsePoints& points,
                                         const LabelTreeOptions& options, const StopFlag* stop) {
  check_ranges("LabelTree", options, error_id::operator_value);
  if (!std::has_single_bit(options.branches))
    fail(error_id::operator_value, "LabelTree", "branches", std::to_string(options.branches),
         "a power of two");
  const LabelPoints label_points(points);
  LabelTree tree;
  tree.features_ = points.features;
  for (std::size_t label = 0; label < points.classes; ++label)
    if (label_points.begins[label + 1] != label_points.begins[label])
      tree.order_.push_back(static_cast<std::int32_t>(label));
  if (tree.order_.empty())
    fail(error_id::data_labels, "LabelTree", "labels", "points without labels", "at least one");
  const std::vector<std::int32_t> labels = tree.order_;
  const detail::Centroids centroids =
      detail::centroids_of(context, points, label_points, labels, options.centroid_features);
  std::vector<std::uint32_t> order(labels.size());
  std::iota(order.begin(), order.end(), 0u);

  using Part = std::pair<std::uint32_t, std::uint32_t>;
  Spares<detail::CutScratch> spares;
  tree.nodes_.push_back({.end = static_cast<std::uint32_t>(labels.size())});
  // A level at a time: its nodes are cut together, in halves, quarters ...
  // The cuts are shared out evenly among as few levels as there can be.
  const auto most_cuts = static_cast<std::size_t>(std::bit_width(options.branches)) - 1;
  std::size_t cuts = 0;
  while (labels.size() > options.leaf << cuts) ++cuts;
  for (std::size_t level = 0; level < tree.nodes_.size();) {
    const std::size_t level_end = tree.nodes_.size();
    std::vector<std::vector<Part>> parts;
    for (std::size_t node = level; node < level_end; ++node)
      parts.push_back({{tree.nodes_[node].first, tree.nodes_[node].end}});
    const std::size_t levels = (std::max)((cuts + most_cuts - 1) / most_cuts, std::size_t{1});
    const std::size_t cuts_now = (cuts + levels - 1) / levels;
    cuts -= cuts_now;
    for (std::size_t cut = 0; cut < (std::max)(cuts_now, std::size_t{1}); ++cut) {
      check_stop(stop, "LabelTree");
      std::vector<Part> wide;
      for (std::vector<Part>& of_node : parts) {
        std::vector<Part> next;
        for (const auto& [first, end] : of_node) {
          const std::uint32_t middle = first + (end - first + 1) / 2;
          if (end - first <= options.leaf) {
            next.emplace_back(first, end);
            continue;
          }
          wide.emplace_back(first, end);
          next.emplace_back(first, middle);
          next.emplace_back(middle, end);
        }
        of_node = std::move(next);
      }
      if (wide.empty()) break;
      parallel(context, static_cast<int>(wide.size()), [&](int number) {
        const auto [first, end] = wide[static_cast<std::size_t>(number)];
        const auto scratch = spares.borrow();
        detail::Cut(centroids, points.features, *scratch)
            .run(context, std::span(order).subspan(first, end - first),
                 DrawSequence({.seed = options.seed,
                               .stream = stream_id("label_tree", "cut"),
                               .step = end,
                               .index = std::uint64_t{first} << 32}));
      });
    }
    for (std::size_t node = level; node < level_end; ++node) {
      const std::vector<Part>& own = parts[node - level];
      if (own.size() == 1) {
        tree.nodes_[node].branches = own[0].second - own[0].first;
        continue;
      }
      tree.nodes_[node].branch = static_cast<std::uint32_t>(tree.nodes_.size());
      tree.nodes_[node].branches = static_cast<std::uint32_t>(own.size());
      for (const auto& [first, end] : own) tree.nodes_.push_back({.first = first, .end = end});
    }
    level = level_end;
  }
  for (std::size_t i = 0; i < order.size(); ++i) tree.order_[i] = labels[order[i]];
  tree.make_places(points.classes);
  return tree;
}

}  // namespace SOMA_NAMESPACE::nn
