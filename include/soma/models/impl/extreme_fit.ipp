#pragma once
// ExtremeLinear::fit() of extreme_linear.hpp.

#include <soma/models/extreme_linear.hpp>

#include <soma/base/error.hpp>
#include <soma/metrics/ranking.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/optim/panel_solver.hpp>
#include <soma/runtime/parallel.hpp>
#include <soma/runtime/spares.hpp>
#include <soma/system/machine.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

namespace detail {

inline constexpr std::string_view extreme_fit_name = "ExtremeClassifier::fit";

inline std::uint64_t fit_memory(std::uint64_t given) {
  if (given != 0) return given;
  const std::uint64_t all = physical_memory_bytes();
  return all == 0 ? std::uint64_t{4} << 30 : all / 2;
}

// Points of a problem for the solver, which a node of a tree makes anew.
struct ProblemRows {
  std::vector<std::int64_t> begins{0}, label_begins{0};
  std::vector<std::int32_t> features{}, labels{};
  std::vector<float> values{};

  void clear() {
    begins.assign(1, 0);
    label_begins.assign(1, 0);
    features.clear();
    labels.clear();
    values.clear();
  }
  void end_row() {
    begins.push_back(static_cast<std::int64_t>(features.size()));
    label_begins.push_back(static_cast<std::int64_t>(labels.size()));
  }
  optim::PanelProblem problem(std::size_t feature_count, std::size_t class_count) const {
    return {.begins = begins,
            .features = features,
            .values = values,
            .label_begins = label_begins,
            .labels = labels,
            .feature_count = static_cast<std::int64_t>(feature_count),
            .class_count = static_cast<std::int64_t>(class_count)};
  }
};

// The scratch of a tree's node.
struct NodeScratch {
  std::vector<std::int32_t> local{};  // [features]: the number of a feature in the node, or -1
  std::vector<std::int32_t> ids{};    // the features of the node
  std::vector<std::uint32_t> points{};
  ProblemRows rows{};
};

// Some points, as points of their own.
SOMA_INLINE data::SparsePoints some_points(const data::SparsePoints& points,
                                           std::span<const std::uint32_t> chosen) {
  data::SparsePoints some{.features = points.features, .classes = points.classes};
  some.labels.offsets.assign(1, 0);
  for (const std::uint32_t i : chosen) {
    const auto first = static_cast<std::ptrdiff_t>(points.offsets[i]);
    const auto end = static_cast<std::ptrdiff_t>(points.offsets[i + 1]);
    some.ids.insert(some.ids.end(), points.ids.begin() + first, points.ids.begin() + end);
    if (!points.values.empty())
      some.values.insert(some.values.end(), points.values.begin() + first,
                         points.values.begin() + end);
    some.offsets.push_back(some.ids.size());
    some.labels.add(points.labels.list(i));
  }
  return some;
}

// Every point is held out with the same probability, by its number.
SOMA_INLINE std::pair<std::vector<std::uint32_t>, std::vector<std::uint32_t>> held_out_of(
    std::size_t points, double share, std::uint64_t seed) {
  constexpr std::size_t most = 5000;
  std::vector<std::uint32_t> kept, held_out;
  const double least = (std::min)(share, static_cast<double>(most) / static_cast<double>(points));
  DrawSequence draws({.seed = seed, .stream = stream_id("extreme_classifier", "held_out")});
  for (std::size_t i = 0; i < points; ++i)
    (draws.unit() < least ? held_out : kept).push_back(static_cast<std::uint32_t>(i));
  return {std::move(kept), std::move(held_out)};
}

SOMA_INLINE void check_fit(const data::SparsePoints& points, const ExtremeFitOptions& options) {
  data::check_points(extreme_fit_name, points);
  const auto refuse = [](std::string_view name, const std::string& given, std::string_view wanted) {
    fail(error_id::config_value, extreme_fit_name, name, given, wanted);
  };
  if (options.kind == ExtremeKind::network)
    refuse("kind", "network", "linear or tree: a trainer trains the network");
  if (points.classes < 2) refuse("classes", std::to_string(points.classes), "at least 2");
  if (points.labels.ids.empty())
    fail(error_id::data_labels, extreme_fit_name, "labels", "none of any point", "at least one");
  if (!(options.c >= 0 && options.c <= 1e6))
    refuse("c", std::to_string(options.c), "above 0, up to 1000000; 0: by the rule");
  if (!(options.strength >= 0 && options.strength <= 2))
    refuse("strength", std::to_string(options.strength), "0 to 2");
  if (!(options.held_out >= 0 && options.held_out <= 0.5))
    refuse("held_out", std::to_string(options.held_out), "0 to 0.5");
  if (options.beam == 0) refuse("beam", "0", "at least 1");
}

}  // namespace detail

SOMA_INLINE std::uint64_t extreme_linear_bytes(const data::SparsePoints& points) {
  return optim::PanelSolver::memory_bytes(points.count(), points.features, points.classes);
}

SOMA_INLINE ExtremeKind extreme_kind_for(const data::SparsePoints& points, std::uint64_t memory) {
  return points.classes <= 2000 && extreme_linear_bytes(points) <= detail::fit_memory(memory) / 2
             ? ExtremeKind::linear
             : ExtremeKind::tree;
}

SOMA_INLINE std::uint64_t extreme_fit_bytes(const data::SparsePoints& points,
                                            const ExtremeFitOptions& options) {
  const ExtremeKind kind = options.kind == ExtremeKind::automatic
                               ? extreme_kind_for(points, options.memory)
                               : options.kind;
  if (kind != ExtremeKind::tree) return extreme_linear_bytes(points);
  // A tree's largest problem is a node of all points.
  const std::uint64_t values = points.ids.size(), labels = points.labels.ids.size();
  const std::uint64_t problem =
      optim::PanelSolver::memory_bytes(points.count(), points.features, options.tree.branches) +
      values * 24;
  // Points by labels, and a centroid for each label that has points.
  const std::uint64_t clustering =
      labels * 16 + points.classes * std::uint64_t{24} +
      (std::min)(std::uint64_t{points.classes}, labels) * options.tree.centroid_features * 8;
  // Most weights are small and left out: each level of the tree kept at most one weight for each
  // value of the points, in all sets that were measured. LabelTree::finish() copies weights node by
  // node, and the heap keeps freed memory meanwhile: 16 bytes a value and level at the peak
  // (Amazon-670K's shape).
  std::uint64_t levels = 2;
  for (std::uint64_t reached = options.tree.leaf; reached < points.classes; ++levels)
    reached *= options.tree.branches;
  return problem + clustering + values * levels * 17;
}

SOMA_INLINE ExtremeLinear ExtremeLinear::fit(Context& context, const data::SparsePoints& points,
                                             const ExtremeFitOptions& options) {
  detail::check_fit(points, options);
  ExtremeLinear model;
  ExtremeFit& fit = model.fit_;
  fit.kind = options.kind == ExtremeKind::automatic ? extreme_kind_for(points, options.memory)
                                                    : options.kind;
  const bool tree = fit.kind == ExtremeKind::tree;
  fit.passes = options.passes != 0 ? options.passes : tree ? 4 : 8;
  fit.c = options.c != 0 ? options.c : 1;
  fit.memory = extreme_fit_bytes(points, options);
  if (const std::uint64_t most = detail::fit_memory(options.memory); fit.memory > most)
    fail(error_id::out_of_memory, detail::extreme_fit_name, "weights and dual values",
         std::to_string(points.count()) + " points x " + std::to_string(points.classes) +
             " classes: " + std::to_string(fit.memory) + " bytes",
         "at most " + std::to_string(most) + " bytes (kind tree takes less)");
  model.features_ = points.features;
  model.classes_ = points.classes;
  model.beam_ = options.beam;
  const PointWeightOptions weighting{.raw = options.raw_values,
                                     .strength = tree ? 0 : options.strength};
  const auto fit_points = [&](ExtremeLinear& one, const data::SparsePoints& own, double c,
                              std::size_t passes) {
    one.weights_ = PointWeights(own, weighting);
    const data::SparsePoints weighted = one.weights_.weigh(own);
    if (tree)
      one.fit_tree(context, weighted, options, c, passes);
    else
      one.fit_panels(context, weighted, options, c, passes);
  };
  if (options.c == 0 && !tree && options.held_out > 0) {
    const auto [kept, held_out] =
        detail::held_out_of(points.count(), options.held_out, options.seed);
    const data::SparsePoints own = detail::some_points(points, kept);
    Scratch scratch;
    // Fewer answers would choose by chance.
    if (held_out.size() >= 50 && !own.labels.ids.empty()) {
      fit.held_out_points = held_out.size();
      double most = 0;
      std::size_t tried = 0;
      for (const double c : {1.0, 0.25, 4.0}) {
        if (options.progress) options.progress("choosing C", static_cast<double>(tried) / 3);
        ExtremeLinear trial;
        trial.features_ = points.features;
        trial.classes_ = points.classes;
        fit_points(trial, own, c, 3);
        // P@1 alone differs by chance more than by C where some hundred points are held out.
        metrics::Ranking ranking;
        for (const std::uint32_t i : held_out) {
          const std::size_t first = points.offsets[i], count = points.offsets[i + 1] - first;
          const auto best =
              trial.top(context, std::span(points.ids).subspan(first, count),
                        points.values.empty() ? std::span<const float>()
                                              : std::span(points.values).subspan(first, count),
                        metrics::Ranking::ranks.back(), scratch);
          std::vector<std::int32_t> classes;
          for (const auto& one : best) classes.push_back(static_cast<std::int32_t>(one.id));
          ranking.add(classes, points.labels.list(i));
        }
        const double quality = ranking.ndcg(metrics::Ranking::ranks.size() - 1);
        if (tried++ != 0 && quality <= most) continue;
        most = quality;
        fit.c = c;
        fit.held_out_precision = ranking.precision(0);
      }
    }
  }
  fit_points(model, points, fit.c, fit.passes);
  std::vector<std::uint8_t> seen(points.classes, 0);
  for (const std::int32_t label : points.labels.ids) seen[static_cast<std::size_t>(label)] = 1;
  fit.classes_without_points =
      static_cast<std::size_t>(std::count(seen.begin(), seen.end(), std::uint8_t{0}));
  if (options.progress) options.progress("fitted", 1);
  return model;
}

SOMA_INLINE void ExtremeLinear::mark_known(const data::SparsePoints& points) {
  known_.assign(points.classes, 0);
  for (const std::int32_t label : points.labels.ids) known_[static_cast<std::size_t>(label)] = 1;
}

SOMA_INLINE void ExtremeLinear::fit_panels(Context& context, const data::SparsePoints& points,
                                           const ExtremeFitOptions& options, double c,
                                           std::size_t passes) {
  mark_known(points);
  const std::vector<std::int64_t> begins(points.offsets.begin(), points.offsets.end());
  const std::vector<std::int64_t> label_begins(points.labels.offsets.begin(),
                                               points.labels.offsets.end());
  optim::PanelSolver solver(context,
                            {.begins = begins,
                             .features = points.ids,
                             .values = points.values,
                             .label_begins = label_begins,
                             .labels = points.labels.ids,
                             .feature_count = static_cast<std::int64_t>(points.features),
                             .class_count = static_cast<std::int64_t>(points.classes)},
                            {.c = c, .seed = options.seed});
  for (std::size_t pass = 0; pass < passes; ++pass) {
    if (options.progress)
      options.progress("passes", static_cast<double>(pass) / static_cast<double>(passes));
    solver.pass(options.stop);
  }
  panels_.emplace(solver.take());
}

SOMA_INLINE void ExtremeLinear::fit_tree(Context& context, const data::SparsePoints& points,
                                         const ExtremeFitOptions& options, double c,
                                         std::size_t passes) {
  constexpr float least = 0.1f;  // smaller weights are most of them, and change no answer
  nn::LabelTreeOptions shape = options.tree;
  shape.seed = options.seed;
  tree_ = nn::LabelTree::cluster(context, points, shape, options.stop);
  nn::LabelTree& tree = *tree_;
  const nn::LabelPoints label_points(points);
  Spares<detail::NodeScratch> spares;
  const auto fit_node = [&](std::size_t number) {
    check_stop(options.stop, detail::extreme_fit_name);
    const nn::LabelTree::Node& node = tree.nodes()[number];
    const auto borrowed = spares.borrow();
    detail::NodeScratch& scratch = *borrowed;
    if (scratch.local.empty()) scratch.local.assign(points.features, -1);
    scratch.ids.clear();
    scratch.points.clear();
    scratch.rows.clear();
    for (std::uint32_t place = node.first; place < node.end; ++place) {
      const auto own = label_points.of(static_cast<std::size_t>(tree.order()[place]));
      scratch.points.insert(scratch.points.end(), own.begin(), own.end());
    }
    std::sort(scratch.points.begin(), scratch.points.end());
    scratch.points.erase(std::unique(scratch.points.begin(), scratch.points.end()),
                         scratch.points.end());
    detail::ProblemRows& rows = scratch.rows;
    for (const std::uint32_t point : scratch.points) {
      for (std::size_t k = points.offsets[point]; k < points.offsets[point + 1]; ++k) {
        std::int32_t& local = scratch.local[static_cast<std::size_t>(points.ids[k])];
        if (local < 0) {
          local = static_cast<std::int32_t>(scratch.ids.size());
          scratch.ids.push_back(points.ids[k]);
        }
        rows.features.push_back(local);
        rows.values.push_back(points.values[k]);
      }
      const auto first = static_cast<std::ptrdiff_t>(rows.labels.size());
      for (const std::int32_t label : points.labels.list(point))
        if (const std::uint32_t place = tree.place_of(label);
            place >= node.first && place < node.end)
          rows.labels.push_back(static_cast<std::int32_t>(tree.branch_of(node, place)));
      std::sort(rows.labels.begin() + first, rows.labels.end());
      rows.labels.erase(std::unique(rows.labels.begin() + first, rows.labels.end()),
                        rows.labels.end());
      rows.end_row();
    }
    optim::PanelSolver solver(context, rows.problem(scratch.ids.size(), node.branches),
                              {.c = c, .seed = options.seed + number});
    for (std::size_t pass = 0; pass < passes; ++pass) solver.pass(options.stop);
    const optim::PanelModel& model = solver.model();
    tree.set_weights(number, scratch.ids,
                     {.weights = model.weights.data(),
                      .width = model.width,
                      .bias = {model.bias.data(), node.branches}},
                     least);
    for (const std::int32_t id : scratch.ids) scratch.local[static_cast<std::size_t>(id)] = -1;
  };
  // All points reach the root: its threads share panels. The other nodes are shared out.
  if (options.progress) options.progress("tree", 0);
  fit_node(0);
  parallel(context, static_cast<int>(tree.nodes().size()) - 1,
           [&](int task) { fit_node(static_cast<std::size_t>(task) + 1); });
  tree.finish();
}

}  // namespace SOMA_NAMESPACE::models
