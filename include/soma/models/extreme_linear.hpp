#pragma once
// ExtremeLinear: the linear kinds of an ExtremeClassifier: a weight for each feature and class, or
// a tree of such models (nn::LabelTree), with the weights of points (PointWeights). Needs
// add_sparse(context) (soma/sparse.hpp).

#include <soma/data/point_source.hpp>
#include <soma/models/point_weights.hpp>
#include <soma/nn/class_search.hpp>
#include <soma/nn/label_tree.hpp>
#include <soma/optim/panel_solver.hpp>
#include <soma/runtime/callback.hpp>
#include <soma/runtime/stop_flag.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::models {

enum class ExtremeKind : std::uint8_t {
  automatic,  // extreme_kind_for()
  linear,     // a weight for each feature and class
  tree,       // a tree of labels, whose nodes have linear models
  network,    // ExtremeOptions
};
inline constexpr std::string_view extreme_kind_names[] = {"automatic", "linear", "tree", "network"};

// The defaults of kind, c, passes and memory stand for rules.
struct ExtremeFitOptions {
  ExtremeKind kind = ExtremeKind::automatic;
  // C of the squared hinge, at most 1e6. Rule: linear, the best of 0.25, 1 and 4 for points that
  // are held out; tree, 1.
  double c = 0;
  std::size_t passes = 0;   // over all points; rule: linear 8, a node of a tree 4
  bool raw_values = false;  // values are not weighted, and points keep their lengths
  double strength = 0.35;   // the exponent of g, 0 to 2, linear only (PointWeightOptions)
  // Share of the points that are held out to choose C, 0 to 0.5, at most 5,000 points; 0: C is 1.
  double held_out = 0.1;
  std::uint64_t seed = 0;
  nn::LabelTreeOptions tree{};
  std::size_t beam = 10;     // nodes of a level that an answer follows
  std::uint64_t memory = 0;  // bytes for the fit; rule: half of the machine's memory
  const StopFlag* stop = nullptr;
  // Called with a stage and the share of it that is done, from 0 to 1, for people.
  Callback<void(std::string_view, double)> progress{};
};

// The choices and measures of a fit.
struct ExtremeFit {
  ExtremeKind kind = ExtremeKind::linear;
  double c = 1;
  std::size_t passes = 0;
  std::size_t held_out_points = 0;
  double held_out_precision = std::numeric_limits<double>::quiet_NaN();  // P@1 with the chosen C
  std::size_t classes_without_points = 0;
  std::uint64_t memory = 0;  // bytes that the solver takes at most
};

// Linear up to 2,000 classes, while weights and dual values take at most half of `memory` bytes (0:
// a quarter of the machine's memory); else a tree.
ExtremeKind extreme_kind_for(const data::SparsePoints& points, std::uint64_t memory);
// The bytes of weights and dual values of the linear kind.
std::uint64_t extreme_linear_bytes(const data::SparsePoints& points);
// The bytes that a fit of the linear kinds takes by these options, beside the points. A bound for
// the linear kind; of a tree, the number of weights is estimated.
std::uint64_t extreme_fit_bytes(const data::SparsePoints& points, const ExtremeFitOptions& options);

class ExtremeLinear {
 public:
  // Memory of answers, which a caller with many points keeps.
  struct Scratch {
    nn::LabelTree::Scratch tree{};
    std::vector<float> weighted{}, scores{};
  };

  // The bits depend neither on threads nor on the CPU. Errors those of data::check_points();
  // data.labels (no point has a label), models.config_value (one class, an option out of its
  // range, ExtremeKind::network), memory.exhausted (before the memory is taken), runtime.stopped.
  static ExtremeLinear fit(Context& context, const data::SparsePoints& points,
                           const ExtremeFitOptions& options);

  ExtremeKind kind() const { return fit_.kind; }
  const ExtremeFit& fitted() const { return fit_; }
  const PointWeights& weights() const { return weights_; }
  const std::optional<nn::LabelTree>& tree() const { return tree_; }
  std::size_t features() const { return features_; }
  std::size_t classes() const { return classes_; }
  std::size_t beam() const { return beam_; }
  // Bytes of all numbers that answers read.
  std::uint64_t bytes() const;

  // The likeliest `count` classes, the likeliest first; of equal scores, the smaller id first. A
  // class without a training point is never among them. Thread-safe with a scratch for each thread.
  // Error operator.value: a feature out of range.
  std::vector<nn::FoundClass> top(const Context& context, std::span<const std::int32_t> ids,
                                  std::span<const float> values, std::size_t count,
                                  Scratch& scratch) const;

  // The same for points in compressed rows, on the context's threads.
  std::vector<std::vector<nn::FoundClass>> top(Context& context,
                                               std::span<const std::size_t> offsets,
                                               std::span<const std::int32_t> ids,
                                               std::span<const float> values,
                                               std::size_t count) const;

  // Everything as tensors, and from them. from_state() has errors state.missing_name,
  // state.extra_name, state.dtype, state.shape, operator.value.
  StateDict state(Context& context) const;
  static ExtremeLinear from_state(Context& context, const StateDict& state, const ExtremeFit& fit,
                                  std::size_t features, std::size_t classes, std::size_t beam);

 private:
  ExtremeLinear() = default;

  void fit_panels(Context& context, const data::SparsePoints& points,
                  const ExtremeFitOptions& options, double c, std::size_t passes);
  void fit_tree(Context& context, const data::SparsePoints& points,
                const ExtremeFitOptions& options, double c, std::size_t passes);
  void mark_known(const data::SparsePoints& points);

  ExtremeFit fit_{};
  std::size_t features_ = 0, classes_ = 0, beam_ = 10;
  PointWeights weights_{};
  std::optional<optim::PanelModel> panels_{};  // linear
  std::optional<nn::LabelTree> tree_{};        // tree
  std::vector<std::uint8_t> known_{};          // linear: 1 for a class with a training point
};

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/extreme_fit.ipp>
#include <soma/models/impl/extreme_linear.ipp>
#endif
