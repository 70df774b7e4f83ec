#pragma once
// LabelTree as tensors, and from tensors that may be anything.

#include <soma/nn/label_tree.hpp>

#include <soma/base/error.hpp>
#include <soma/state/state_dict.hpp>
#include <soma/tensor/tensor.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::nn {

namespace detail {

inline constexpr std::string_view tree_name = "LabelTree::from_state";

[[noreturn]] inline void refuse_tree(std::string_view what, std::int64_t given,
                                     std::string_view wanted) {
  fail(error_id::operator_value, tree_name, what, std::to_string(given), wanted);
}

// The numbers of a tensor of `columns` columns (1: a vector).
template <class T>
std::span<const T> tree_tensor(const StateDict& state, std::string_view name, std::size_t columns) {
  const Tensor& tensor = state.at(name);
  if (tensor.dtype() != dtype_of<T>)
    fail(error_id::state_dtype, tree_name, name, tensor.describe(), to_string(dtype_of<T>));
  const std::size_t rank = columns == 1 ? 1 : 2;
  if (tensor.shape().rank() != rank || (rank == 2 && tensor.size(1) != columns))
    fail(error_id::state_shape, tree_name, name, tensor.describe(),
         rank == 1 ? "a vector" : "rows of " + std::to_string(columns));
  return tensor.span<T>();
}

// Begins that ascend from 0 to `end`.
inline void check_begins(std::string_view what, std::span<const std::int64_t> begins,
                         std::size_t count, std::size_t end) {
  if (begins.size() != count + 1)
    refuse_tree(what, static_cast<std::int64_t>(begins.size()),
                "one for each row, and an end: " + std::to_string(count + 1));
  std::int64_t before = 0;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    if (begins[i] < before || (i == 0 && begins[i] != 0))
      refuse_tree(what, begins[i], "numbers that ascend from 0");
    before = begins[i];
  }
  if (static_cast<std::uint64_t>(before) != end)
    refuse_tree(what, before, "up to " + std::to_string(end));
}

}  // namespace detail

SOMA_INLINE StateDict LabelTree::state(Context& context) const {
  StateDict state;
  std::vector<std::int32_t> nodes;
  for (const Node& node : nodes_)
    for (const std::uint32_t number : {node.first, node.end, node.branch, node.branches})
      nodes.push_back(static_cast<std::int32_t>(number));
  const auto set = [&]<class T>(std::string name, const std::vector<T>& numbers, Shape shape) {
    state.set(std::move(name), Tensor::from(context, std::span<const T>(numbers), shape));
  };
  const auto begins = [&](std::string name, const std::vector<std::uint64_t>& numbers) {
    const std::vector<std::int64_t> signed_numbers(numbers.begin(), numbers.end());
    set(std::move(name), signed_numbers, Shape{numbers.size()});
  };
  set("tree.nodes", nodes, Shape{nodes_.size(), 4});
  set("tree.order", order_, Shape{order_.size()});
  set("tree.bias", bias_, Shape{bias_.size()});
  begins("tree.node_rows", node_rows_);
  set("tree.row_features", row_ids_, Shape{row_ids_.size()});
  begins("tree.row_weights", row_begins_);
  set("tree.branch", branch_, Shape{branch_.size()});
  set("tree.weight", weights_, Shape{weights_.size()});
  return state;
}

SOMA_INLINE LabelTree LabelTree::from_state(const StateDict& state, std::size_t features,
                                            std::size_t classes) {
  constexpr std::size_t names = 8;
  if (state.size() > names)
    fail(error_id::extra_name, detail::tree_name, "tensors", std::to_string(state.size()),
         std::to_string(names));
  LabelTree tree;
  tree.features_ = features;
  const auto order = detail::tree_tensor<std::int32_t>(state, "tree.order", 1);
  tree.order_.assign(order.begin(), order.end());
  const auto nodes = detail::tree_tensor<std::int32_t>(state, "tree.nodes", 4);
  for (std::size_t i = 0; i < nodes.size(); i += 4) {
    for (std::size_t k = 0; k < 4; ++k)
      if (nodes[i + k] < 0) detail::refuse_tree("tree.nodes", nodes[i + k], "at least 0");
    tree.nodes_.push_back({.first = static_cast<std::uint32_t>(nodes[i]),
                           .end = static_cast<std::uint32_t>(nodes[i + 1]),
                           .branch = static_cast<std::uint32_t>(nodes[i + 2]),
                           .branches = static_cast<std::uint32_t>(nodes[i + 3])});
  }
  tree.check_nodes(classes);
  tree.make_places(classes);
  tree.unfinished_.clear();
  const auto bias = detail::tree_tensor<float>(state, "tree.bias", 1);
  if (bias.size() != tree.bias_.size())
    fail(error_id::state_shape, detail::tree_name, "tree.bias", std::to_string(bias.size()),
         std::to_string(tree.bias_.size()) + ", one for each branch");
  tree.bias_.assign(bias.begin(), bias.end());
  const auto ids = detail::tree_tensor<std::int32_t>(state, "tree.row_features", 1);
  const auto weights = detail::tree_tensor<float>(state, "tree.weight", 1);
  const auto branch = detail::tree_tensor<std::uint8_t>(state, "tree.branch", 1);
  if (branch.size() != weights.size())
    fail(error_id::state_shape, detail::tree_name, "tree.branch", std::to_string(branch.size()),
         std::to_string(weights.size()) + ", one for each weight");
  const auto node_rows = detail::tree_tensor<std::int64_t>(state, "tree.node_rows", 1);
  detail::check_begins("tree.node_rows", node_rows, tree.nodes_.size(), ids.size());
  const auto row_begins = detail::tree_tensor<std::int64_t>(state, "tree.row_weights", 1);
  detail::check_begins("tree.row_weights", row_begins, ids.size(), weights.size());
  for (const auto& numbers : {bias, weights})
    for (const float number : numbers)
      if (!std::isfinite(number))
        fail(error_id::operator_value, detail::tree_name, "a weight", std::to_string(number),
             "a finite number");
  for (std::size_t node = 0; node < tree.nodes_.size(); ++node)
    for (auto row = static_cast<std::size_t>(node_rows[node]);
         row < static_cast<std::size_t>(node_rows[node + 1]); ++row) {
      if (ids[row] < 0 || static_cast<std::size_t>(ids[row]) >= features)
        detail::refuse_tree("tree.row_features", ids[row],
                            "0 to " + std::to_string(features) + " - 1");
      for (auto w = static_cast<std::size_t>(row_begins[row]);
           w < static_cast<std::size_t>(row_begins[row + 1]); ++w)
        if (branch[w] >= tree.nodes_[node].branches)
          detail::refuse_tree("tree.branch", branch[w],
                              "below " + std::to_string(tree.nodes_[node].branches));
    }
  tree.node_rows_.assign(node_rows.begin(), node_rows.end());
  tree.row_ids_.assign(ids.begin(), ids.end());
  tree.row_begins_.assign(row_begins.begin(), row_begins.end());
  tree.branch_.assign(branch.begin(), branch.end());
  tree.weights_.assign(weights.begin(), weights.end());
  tree.index_rows();
  for (std::size_t node = 0; node < tree.nodes_.size(); ++node)
    if (tree.buckets_[tree.node_buckets_[node + 1] - 1] !=
        tree.node_rows_[node + 1] - tree.node_rows_[node])
      detail::refuse_tree("tree.row_features", static_cast<std::int64_t>(node),
                          "rows of a node in the order of their hashes");
  return tree;
}

SOMA_INLINE void LabelTree::check_nodes(std::size_t classes) const {
  std::vector<std::uint8_t> seen(classes, 0);
  for (const std::int32_t label : order_) {
    if (label < 0 || static_cast<std::size_t>(label) >= classes)
      detail::refuse_tree("tree.order", label, "0 to " + std::to_string(classes) + " - 1");
    if (seen[static_cast<std::size_t>(label)]++ != 0)
      detail::refuse_tree("tree.order", label, "each label once");
  }
  if (nodes_.empty() || nodes_[0].first != 0 || nodes_[0].end != order_.size() || order_.empty())
    detail::refuse_tree("tree.nodes", static_cast<std::int64_t>(nodes_.size()),
                        "a first node of all labels");
  // Each node but the root is a branch of one node before it, and the branches of a node divide its
  // labels: so searches end, and meet each label once.
  std::size_t next = 1;
  for (std::size_t number = 0; number < nodes_.size(); ++number) {
    const Node& node = nodes_[number];
    const auto index = static_cast<std::int64_t>(number);
    if (number >= next) detail::refuse_tree("tree.nodes", index, "nodes that are branches");
    if (node.end <= node.first || node.end > order_.size())
      detail::refuse_tree("tree.nodes", index, "nodes with labels");
    if (node.branches == 0 || node.branches > 256)
      detail::refuse_tree("tree.nodes", index, "nodes of 1 to 256 branches");
    if (node.is_leaf()) {
      if (node.branches != node.end - node.first)
        detail::refuse_tree("tree.nodes", index, "leaves with a branch for each label");
      continue;
    }
    if (node.branch != next || node.branches > nodes_.size() - next)
      detail::refuse_tree("tree.nodes", index, "branches in the order of their nodes");
    std::uint32_t first = node.first;
    for (std::size_t branch = next; branch < next + node.branches; ++branch) {
      if (nodes_[branch].first != first)
        detail::refuse_tree("tree.nodes", static_cast<std::int64_t>(branch),
                            "branches that divide the labels of their node");
      first = nodes_[branch].end;
    }
    if (first != node.end)
      detail::refuse_tree("tree.nodes", index, "branches that divide its labels");
    next += node.branches;
  }
}

}  // namespace SOMA_NAMESPACE::nn
