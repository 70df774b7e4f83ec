// Trees of labels: each label is in one leaf, the cuts are the same for any number of threads, a
// search that follows every branch finds the order of a plain computation, and tensors that are no
// tree are refused.

#include <soma/nn/label_tree.hpp>
#include <soma/sparse.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace soma;
using soma_test::id_of;

namespace {

// 25 groups of eight labels, 25 apart: a group shares five features, a label has two of its own.
// Labels with a number that ends in 3 have no points.
constexpr std::int32_t tree_labels = 200, tree_features = 2 * tree_labels + 5 * (tree_labels / 8);

data::SparsePoints grouped_points() {
  data::SparsePoints made{.features = tree_features, .classes = tree_labels};
  made.labels.offsets.assign(1, 0);
  for (std::int32_t i = 0; i < 600; ++i) {
    std::vector<std::int32_t> own{i % tree_labels};
    if (i % 3 == 0) own.push_back((i * 7 + 2) % tree_labels);
    std::erase_if(own, [](std::int32_t label) { return label % 10 == 3; });
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    std::vector<std::int32_t> ids;
    for (const std::int32_t label : own) {
      ids.push_back(2 * label);
      ids.push_back(2 * label + 1);
      for (std::int32_t k = 0; k < 5; ++k) ids.push_back(2 * tree_labels + 5 * (label % 25) + k);
    }
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    made.ids.insert(made.ids.end(), ids.begin(), ids.end());
    for (std::size_t k = 0; k < ids.size(); ++k)
      made.values.push_back(0.25f + 0.125f * static_cast<float>((ids[k] + i) % 5));
    made.offsets.push_back(made.ids.size());
    made.labels.add(own);
  }
  return made;
}

// A weight of a feature for a branch of a node: some number, 0 for two thirds of them.
float weight_of(std::size_t node, std::int32_t id, std::uint32_t branch) {
  const auto mixed = static_cast<std::uint32_t>(
                         node * 7919 + static_cast<std::size_t>(id) * 104729 + branch * 1299709) *
                     2654435761u;
  return (mixed >> 8) % 3 == 0 ? static_cast<float>(mixed >> 16) * 0x1p-15f - 1 : 0.0f;
}

constexpr float least = 0.0625f;

// With weight_of() for all nodes and features, in panels of width 4.
nn::LabelTree weighted_tree(Context& context) {
  nn::LabelTree tree =
      nn::LabelTree::cluster(context, grouped_points(), {.branches = 4, .leaf = 10});
  std::vector<std::int32_t> ids(tree_features);
  for (std::int32_t i = 0; i < tree_features; ++i)
    ids[static_cast<std::size_t>(i)] = tree_features - 1 - i;
  for (std::size_t node = 0; node < tree.nodes().size(); ++node) {
    const std::uint32_t branches = tree.nodes()[node].branches;
    const std::size_t width = 4, panels = (branches + width - 1) / width;
    std::vector<float> weights(panels * ids.size() * width), bias(branches);
    for (std::uint32_t branch = 0; branch < branches; ++branch) {
      bias[branch] = weight_of(node, tree_features, branch);
      for (std::size_t i = 0; i < ids.size(); ++i)
        weights[(branch / width * ids.size() + i) * width + branch % width] =
            weight_of(node, ids[i], branch);
    }
    tree.set_weights(node, ids, {.weights = weights.data(), .width = width, .bias = bias}, least);
  }
  tree.finish();
  return tree;
}

// The scores of all labels below a node, by double arithmetic.
void plain_scores(const nn::LabelTree& tree, std::size_t number, double above,
                  std::span<const std::int32_t> ids, std::span<const float> values,
                  std::vector<std::pair<float, std::int32_t>>& scores) {
  const nn::LabelTree::Node& node = tree.nodes()[number];
  for (std::uint32_t branch = 0; branch < node.branches; ++branch) {
    double s = static_cast<double>(weight_of(number, tree_features, branch));
    for (std::size_t k = 0; k < ids.size(); ++k)
      if (const float w = weight_of(number, ids[k], branch); std::abs(w) >= least)
        s += static_cast<double>(w) * static_cast<double>(values[k]);
    const double missing = static_cast<double>(std::max(0.0f, static_cast<float>(1 - s)));
    const double score = above - missing * missing;
    if (node.is_leaf())
      scores.emplace_back(-static_cast<float>(score), tree.order()[node.first + branch]);
    else
      plain_scores(tree, node.branch + branch, score, ids, values, scores);
  }
}

}  // namespace

TEST_CASE("the leaves of a tree hold each label with points once", "[unit]") {
  const data::SparsePoints points = grouped_points();
  std::vector<std::int32_t> first;
  for (const int threads : {1, 2, 3, 7}) {
    auto context = make_context({.threads = threads});
    const nn::LabelTree tree = nn::LabelTree::cluster(context, points, {.branches = 4, .leaf = 10});
    std::vector<std::int32_t> order(tree.order().begin(), tree.order().end());
    if (threads == 1) first = order;
    CHECK(order == first);
    std::vector<int> met(tree_labels, 0);
    std::size_t deepest = 0;
    for (const nn::LabelTree::Node& node : tree.nodes()) {
      CHECK(node.branches <= (node.is_leaf() ? 10u : 4u));
      if (!node.is_leaf()) continue;
      for (std::uint32_t place = node.first; place < node.end; ++place)
        ++met[static_cast<std::size_t>(tree.order()[place])];
    }
    for (std::int32_t label = 0; label < tree_labels; ++label)
      CHECK(met[static_cast<std::size_t>(label)] == (label % 10 == 3 ? 0 : 1));
    // From the root, a label's branches lead to its leaf.
    for (const std::int32_t label : order) {
      const std::uint32_t place = tree.place_of(label);
      std::size_t number = 0, depth = 0;
      for (; !tree.nodes()[number].is_leaf(); ++depth) {
        number = tree.nodes()[number].branch + tree.branch_of(tree.nodes()[number], place);
        REQUIRE(place >= tree.nodes()[number].first);
        REQUIRE(place < tree.nodes()[number].end);
      }
      deepest = std::max(deepest, depth);
      const nn::LabelTree::Node& leaf = tree.nodes()[number];
      CHECK(tree.order()[leaf.first + tree.branch_of(leaf, place)] == label);
    }
    CHECK(deepest == 3);  // 180 labels: 45, 11 or 12, 5 or 6
    CHECK(tree.place_of(13) == nn::LabelTree::no_place);
    // Labels of a group have most features in common: a leaf holds few groups.
    std::size_t together = 0;
    for (std::int32_t group = 0; group < 25; ++group) {
      const std::uint32_t place = tree.place_of(group % 10 == 3 ? group + 25 : group);
      for (std::int32_t label = group + 25; label < tree_labels; label += 25)
        if (label % 10 != 3 && tree.place_of(label) / 12 == place / 12) ++together;
    }
    CHECK(together > 40);  // 155 are possible; 10 by chance
  }
}

TEST_CASE("a search that follows every branch finds the order of all labels", "[unit]") {
  auto context = make_context({.threads = 1});
  const nn::LabelTree tree = weighted_tree(context);
  const data::SparsePoints points = grouped_points();
  nn::LabelTree::Scratch scratch;
  std::size_t found = 0;
  for (std::size_t i = 0; i < 40; ++i) {
    const auto ids =
        std::span(points.ids).subspan(points.offsets[i], points.offsets[i + 1] - points.offsets[i]);
    const auto values = std::span(points.values).subspan(points.offsets[i], ids.size());
    std::vector<std::pair<float, std::int32_t>> expected;
    plain_scores(tree, 0, 0, ids, values, expected);
    std::sort(expected.begin(), expected.end());
    const auto all = tree.top({ids, values}, tree_labels, tree_labels, scratch);
    REQUIRE(all.size() == tree.order().size());
    REQUIRE(all.size() == expected.size());
    for (std::size_t k = 0; k < all.size(); ++k) {
      CHECK(all[k].id == expected[k].second);
      CHECK(all[k].logit == -expected[k].first);
    }
    const auto few = tree.top({ids, values}, 3, 4, scratch);
    REQUIRE(few.size() == 3);
    found += few[0].id == all[0].id ? 1 : 0;
  }
  CHECK(found >= 20);
  // A point without features is answered by the biases.
  CHECK(tree.top({}, 5, 10, scratch).size() == 5);
}

TEST_CASE("a tree is stored and read, and what is no tree is refused", "[unit]") {
  auto context = make_context({.threads = 1});
  const nn::LabelTree tree = weighted_tree(context);
  const StateDict state = tree.state(context);
  const nn::LabelTree again = nn::LabelTree::from_state(state, tree_features, tree_labels);
  CHECK(again.weights() == tree.weights());
  const data::SparsePoints points = grouped_points();
  nn::LabelTree::Scratch scratch;
  for (std::size_t i = 0; i < 20; ++i) {
    const nn::LabelTree::Point point{
        std::span(points.ids).subspan(points.offsets[i], points.offsets[i + 1] - points.offsets[i]),
        std::span(points.values)
            .subspan(points.offsets[i], points.offsets[i + 1] - points.offsets[i])};
    const auto was = tree.top(point, 9, 10, scratch), is = again.top(point, 9, 10, scratch);
    REQUIRE(was.size() == is.size());
    for (std::size_t k = 0; k < is.size(); ++k) {
      CHECK(was[k].id == is[k].id);
      CHECK(was[k].logit == is[k].logit);
    }
  }
  // `change` gets a copy of the named tensor.
  const auto id_with = [&](const char* name, const auto& change) {
    StateDict damaged;
    for (const auto& [own, tensor] : state)
      damaged.set(own, own == name ? clone(context, tensor) : tensor);
    Tensor tensor = damaged.at(name);
    change(tensor);
    damaged.erase(name);
    damaged.set(name, tensor);
    return id_of([&] { nn::LabelTree::from_state(damaged, tree_features, tree_labels); });
  };
  const auto set = [](std::size_t at, auto value) {
    return [=](Tensor& tensor) { tensor.mutable_data<decltype(value)>()[at] = value; };
  };
  CHECK(id_with("tree.order", set(0, std::int32_t{tree_labels})) == "operator.value");
  CHECK(id_with("tree.order", set(1, tree.order()[0])) == "operator.value");  // twice
  CHECK(id_with("tree.nodes", set(0, std::int32_t{1})) == "operator.value");
  CHECK(id_with("tree.nodes", set(2, std::int32_t{0})) == "operator.value");  // the root a leaf
  CHECK(id_with("tree.nodes", set(2, std::int32_t{2})) == "operator.value");
  CHECK(id_with("tree.nodes", set(3, std::int32_t{9999})) == "operator.value");
  CHECK(id_with("tree.nodes", set(4 + 1, std::int32_t{0})) == "operator.value");
  CHECK(id_with("tree.nodes", set(4 + 2, std::int32_t{1})) == "operator.value");  // its own branch
  CHECK(id_with("tree.nodes", [&](Tensor& tensor) {  // a node that no node has as a branch
          tensor = Tensor::from<std::int32_t>(context, {0, 180, 0, 180, 0, 180, 1, 1}, Shape{2, 4});
        }) == "operator.value");
  CHECK(id_with("tree.bias", set(0, NAN)) == "operator.value");
  CHECK(id_with("tree.weight", set(5, INFINITY)) == "operator.value");
  CHECK(id_with("tree.branch", set(0, std::uint8_t{4})) == "operator.value");
  CHECK(id_with("tree.row_features", set(0, std::int32_t{-1})) == "operator.value");
  CHECK(id_with("tree.row_features", set(0, std::int32_t{tree_features})) == "operator.value");
  CHECK(id_with("tree.row_weights", set(1, std::int64_t{1} << 40)) == "operator.value");
  CHECK(id_with("tree.node_rows", set(0, std::int64_t{1})) == "operator.value");
  CHECK(id_with("tree.node_rows", [&](Tensor& tensor) {
          tensor = Tensor::zeros(context, Shape{3}, DType::int64);
        }) == "operator.value");
  CHECK(id_with("tree.weight", [&](Tensor& tensor) {
          tensor = Tensor::zeros(context, Shape{3});
        }) == "state.shape");
  CHECK(id_with("tree.bias", [&](Tensor& tensor) {
          tensor = Tensor::zeros(context, Shape{3}, DType::int32);
        }) == "state.dtype");
  StateDict fewer = state;
  fewer.erase("tree.order");
  CHECK(id_of([&] { nn::LabelTree::from_state(fewer, tree_features, tree_labels); }) ==
        "state.missing_name");
}

TEST_CASE("trees that cannot be are refused", "[unit]") {
  auto context = make_context({.threads = 1});
  const data::SparsePoints points = grouped_points();
  const auto id_with = [&](const nn::LabelTreeOptions& options) {
    return id_of([&] { nn::LabelTree::cluster(context, points, options); });
  };
  CHECK(id_with({.branches = 1}) == "operator.value");
  CHECK(id_with({.branches = 12}) == "operator.value");
  CHECK(id_with({.leaf = 0}) == "operator.value");
  CHECK(id_with({.leaf = 257}) == "operator.value");
  CHECK(id_with({.centroid_features = 0}) == "operator.value");
  data::SparsePoints none{.features = 3, .classes = 3};
  none.labels.offsets.assign(1, 0);
  CHECK(id_of([&] { nn::LabelTree::cluster(context, none); }) == "data.labels");
  // All labels the same: cut by their numbers. One label: a leaf.
  data::SparsePoints equal{.features = 2, .classes = 300};
  equal.labels.offsets.assign(1, 0);
  for (std::int32_t i = 0; i < 300; ++i) {
    equal.ids.push_back(1);
    equal.offsets.push_back(equal.ids.size());
    equal.labels.add(std::vector<std::int32_t>{i});
  }
  CHECK(nn::LabelTree::cluster(context, equal).order().size() == 300);
  equal.labels.ids.assign(300, 7);
  CHECK(nn::LabelTree::cluster(context, equal).nodes().size() == 1);
  StopFlag stop;
  stop.request();
  CHECK(id_of([&] { nn::LabelTree::cluster(context, points, {.leaf = 10}, &stop); }) ==
        "runtime.stopped");
}
