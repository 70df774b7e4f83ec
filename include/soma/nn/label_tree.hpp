#pragma once
// LabelTree: very many labels as the leaves of a tree. A node has a small linear model, which tells
// a point's branches from the others; the leaves' models tell labels. A search follows the most
// promising branches only (a beam), so an answer costs the logarithm of the labels. (The trees of
// Prabhu et al., "Parabel: Partitioned Label Trees for Extreme Classification with Application to
// Dynamic Search Advertising", WWW 2018.)
//
// cluster() makes the tree; models::ExtremeClassifier fits the nodes' weights.

#include <soma/data/point_source.hpp>
#include <soma/nn/class_search.hpp>
#include <soma/runtime/context.hpp>
#include <soma/runtime/stop_flag.hpp>
#include <soma/state/state_dict.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::nn {

struct LabelTreeOptions {
  std::size_t branches = 32;           // at most; a power of two, 2 to 64
  std::size_t leaf = 64;               // labels of a leaf, at most; 1 to 256
  std::size_t centroid_features = 32;  // the largest of a label's centroid that are kept
  std::uint64_t seed = 0;              // decides the first cut of each node
};
void fields(FieldVisitor& visitor, LabelTreeOptions& options);

// The points of each label: the lists of labels of points, the other way round.
struct LabelPoints {
  explicit LabelPoints(const data::SparsePoints& all);
  std::span<const std::uint32_t> of(std::size_t label) const;

  std::vector<std::size_t> begins;  // [classes + 1]
  std::vector<std::uint32_t> points{};
};

class LabelTree {
 public:
  // A node's branches are the nodes `branch` up to branch + branches - 1, or, of a leaf (branch 0),
  // its labels.
  struct Node {
    std::uint32_t first = 0, end = 0;  // its labels are order()[first] up to order()[end - 1]
    std::uint32_t branch = 0, branches = 0;

    bool is_leaf() const { return branch == 0; }
  };
  // A point's features, ids ascending or not, each once.
  struct Point {
    std::span<const std::int32_t> ids{};
    std::span<const float> values{};
  };
  // Memory of searches, which a caller with many points keeps.
  struct Scratch {
    std::vector<double> scores{};
    std::vector<std::pair<double, std::uint32_t>> beam{}, next{};
    std::vector<std::pair<std::uint64_t, std::uint32_t>> rows{};
  };

  static constexpr std::uint32_t no_place = 0xFFFFFFFFu;

  // Cuts the labels that points have: a label is the sum of its points, scaled to length 1;
  // balanced 2-means cuts a set of labels in two halves until leaves are small enough. The bits do
  // not depend on threads nor on the CPU. Errors operator.value (an option out of its range),
  // data.labels (no point has a label), runtime.stopped.
  static LabelTree cluster(Context& context, const data::SparsePoints& points,
                           const LabelTreeOptions& options = {}, const StopFlag* stop = nullptr);

  // Node 0 is the root; a node comes before its branches.
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const std::int32_t> order() const { return order_; }
  // The place of a label in order(), or no_place if no training point has the label.
  std::uint32_t place_of(std::int32_t label) const {
    return places_[static_cast<std::size_t>(label)];
  }
  // The branch of a node that holds a place of the node.
  std::uint32_t branch_of(const Node& node, std::uint32_t place) const;

  // The weights of a node: of feature `ids[i]` and branch j, number j % width of row i of panel j /
  // width, where a panel is [ids, width]; as optim::PanelModel has them. Weights with an absolute
  // value below `least` are dropped. One call for each node, in any order, from any thread; then
  // finish().
  struct NodeWeights {
    const float* weights = nullptr;
    std::size_t width = 1;
    std::span<const float> bias{};  // [branches]
  };
  void set_weights(std::size_t node, std::span<const std::int32_t> ids, const NodeWeights& weights,
                   float least);
  void finish();
  // The bytes of weights, and how many there are.
  std::uint64_t bytes() const;
  std::uint64_t weights() const;

  // The likeliest `count` labels of a point, the likeliest first; of equal scores, the smaller id
  // first. A label's score is the sum, over the nodes on its path, of -(max(0, 1 - s))^2, with s
  // the model's result for the branch: 0 at best. `beam`: nodes of a level that are followed.
  std::vector<FoundClass> top(const Point& point, std::size_t count, std::size_t beam,
                              Scratch& scratch) const;

  // Everything as tensors "tree.*". from_state() has errors state.missing_name, state.extra_name,
  // state.dtype, state.shape, and operator.value: numbers that are no tree of `classes` labels
  // and `features` features.
  StateDict state(Context& context) const;
  static LabelTree from_state(const StateDict& state, std::size_t features, std::size_t classes);

 private:
  // The rows of a node's features, in the order of buckets of hashes.
  struct Rows {
    std::vector<std::int32_t> ids{};
    std::vector<std::uint32_t> begins{0};
    std::vector<std::uint8_t> branches{};
    std::vector<float> weights{};
  };

  static std::uint32_t hashed(std::int32_t id) {
    return static_cast<std::uint32_t>(id) * 0x9E3779B1u;
  }
  // For about one row in a bucket.
  static int shift_for(std::uint64_t rows);
  void make_places(std::size_t classes);
  void index_rows();
  void check_nodes(std::size_t classes) const;
  void add_scores(std::size_t node, const Point& point, Scratch& scratch) const;

  std::size_t features_ = 0;
  std::vector<Node> nodes_{};
  std::vector<std::int32_t> order_{};
  std::vector<std::uint32_t> places_{};
  std::vector<std::uint64_t> bias_begins_{};  // [nodes + 1]
  std::vector<float> bias_{};
  std::vector<Rows> unfinished_{};  // [nodes]; empty once finish() was called

  // All nodes behind one another. `buckets_` says where the rows of a bucket of
  // hashes begin.
  std::vector<std::uint64_t> node_rows_{};     // [nodes + 1]
  std::vector<std::int32_t> row_ids_{};        // [rows]
  std::vector<std::uint64_t> row_begins_{};    // [rows + 1]
  std::vector<std::uint8_t> branch_{};         // [weights]
  std::vector<float> weights_{};               // [weights]
  std::vector<std::uint64_t> node_buckets_{};  // [nodes + 1]
  std::vector<std::uint32_t> buckets_{};       // for each node: its buckets, and an end
  std::vector<std::uint8_t> shifts_{};         // [nodes]: hash >> shift is the bucket
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/label_tree.ipp>
#include <soma/nn/impl/label_tree_cluster.ipp>
#include <soma/nn/impl/label_tree_state.ipp>
#endif
