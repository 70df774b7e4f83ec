#pragma once
// The functions of extreme_linear.hpp, without fit().

#include <soma/models/extreme_linear.hpp>

#include <soma/base/error.hpp>
#include <soma/kernels/sparse/args.hpp>
#include <soma/nn/class_search.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/state/state_dict.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

SOMA_INLINE std::uint64_t ExtremeLinear::bytes() const {
  const std::uint64_t points = (weights_.idf().size() + weights_.g().size()) * sizeof(float);
  if (tree_) return points + tree_->bytes();
  return points + (panels_->weights.size() + panels_->bias.size()) * sizeof(float);
}

SOMA_INLINE std::vector<nn::FoundClass> ExtremeLinear::top(const Context& context,
                                                           std::span<const std::int32_t> ids,
                                                           std::span<const float> values,
                                                           std::size_t count,
                                                           Scratch& scratch) const {
  for (const std::int32_t id : ids)
    if (id < 0 || static_cast<std::size_t>(id) >= features_)
      fail(error_id::operator_value, "ExtremeClassifier", "feature", std::to_string(id),
           "0 to " + std::to_string(features_) + " - 1");
  weights_.weigh(ids, values, scratch.weighted);
  if (tree_) return tree_->top({ids, scratch.weighted}, count, beam_, scratch.tree);
  scratch.scores.resize(panels_->panels * panels_->width);
  panels_->score(context, ids, scratch.weighted, 1, scratch.scores);
  nn::BestClasses best(count);
  for (std::size_t c = 0; c < classes_; ++c)
    if (known_[c] != 0) best.add(scratch.scores[c], static_cast<std::int32_t>(c));
  return best.classes();
}

SOMA_INLINE std::vector<std::vector<nn::FoundClass>> ExtremeLinear::top(
    Context& context, std::span<const std::size_t> offsets, std::span<const std::int32_t> ids,
    std::span<const float> values, std::size_t count) const {
  std::vector<std::vector<nn::FoundClass>> result(offsets.size() - 1);
  const std::size_t cost = tree_ ? std::size_t{1} << 16 : 64 * classes_;
  soma::detail::for_ranges(context, result.size(), cost, [&](std::size_t begin, std::size_t end) {
    Scratch scratch;
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t first = offsets[i], length = offsets[i + 1] - first;
      result[i] = top(context, ids.subspan(first, length),
                      values.empty() ? values : values.subspan(first, length), count, scratch);
    }
  });
  return result;
}

SOMA_INLINE StateDict ExtremeLinear::state(Context& context) const {
  StateDict state;
  const auto numbers = [&](std::string name, std::span<const float> values) {
    state.set(std::move(name), Tensor::from(context, values, Shape{values.size()}));
  };
  state.set("points.count",
            Tensor::full(context, Shape{1}, static_cast<std::int64_t>(weights_.points())));
  if (!weights_.idf().empty()) numbers("points.idf", weights_.idf());
  if (!weights_.g().empty()) numbers("points.g", weights_.g());
  if (tree_) {
    for (const auto& [name, tensor] : tree_->state(context)) state.set(name, tensor);
    return state;
  }
  const std::size_t columns = panels_->panels * panels_->width;
  state.set("classes.weight",
            Tensor::from(context,
                         std::span<const float>(panels_->weights.data(), panels_->weights.size()),
                         Shape{panels_->panels, features_, panels_->width}));
  state.set("classes.bias",
            Tensor::from(context, std::span<const float>(panels_->bias.data(), columns),
                         Shape{panels_->panels, panels_->width}));
  state.set("classes.known",
            Tensor::from(context, std::span<const std::uint8_t>(known_), Shape{classes_}));
  return state;
}

SOMA_INLINE ExtremeLinear ExtremeLinear::from_state(Context& context, const StateDict& state,
                                                    const ExtremeFit& fit, std::size_t features,
                                                    std::size_t classes, std::size_t beam) {
  constexpr std::string_view operation = "load_extreme_classifier";
  ExtremeLinear model;
  model.fit_ = fit;
  model.features_ = features;
  model.classes_ = classes;
  model.beam_ = beam;
  std::size_t used = 0;
  const auto checked = [&](std::string_view name, DType dtype,
                           const Shape& shape) -> const Tensor& {
    const Tensor& tensor = state.at(name);
    if (tensor.dtype() != dtype)
      fail(error_id::state_dtype, operation, name, tensor.describe(), to_string(dtype));
    if (tensor.shape() != shape)
      fail(error_id::state_shape, operation, name, tensor.describe(), to_string(shape));
    ++used;
    return tensor;
  };
  const auto numbers = [&](std::string_view name, const Shape& shape) {
    const std::span<const float> values = checked(name, DType::fp32, shape).span<float>();
    for (const float value : values)
      if (!std::isfinite(value))
        fail(error_id::operator_value, operation, name, std::to_string(value), "a finite number");
    return values;
  };
  const std::int64_t points =
      checked("points.count", DType::int64, Shape{1}).span<std::int64_t>()[0];
  if (points < 0)
    fail(error_id::operator_value, operation, "points.count", std::to_string(points), "at least 0");
  std::vector<float> idf, g;
  if (state.contains("points.idf")) {
    const auto values = numbers("points.idf", Shape{features});
    idf.assign(values.begin(), values.end());
  }
  if (state.contains("points.g")) {
    const auto values = numbers("points.g", Shape{features});
    g.assign(values.begin(), values.end());
  }
  if (idf.empty() && !g.empty())
    fail(error_id::missing_name, operation, "tensors", "\"points.g\" alone", "\"points.idf\" too");
  model.weights_ = PointWeights(static_cast<std::uint64_t>(points), std::move(idf), std::move(g));
  if (fit.kind == ExtremeKind::tree) {
    StateDict tree;
    for (const auto& [name, tensor] : state)
      if (name.starts_with("tree.")) tree.set(name, tensor);
    used += tree.size();
    model.tree_ = nn::LabelTree::from_state(tree, features, classes);
  } else {
    const Tensor& stored = state.at("classes.weight");
    const std::size_t width = stored.shape().rank() == 3 ? stored.size(2) : 0;
    if (std::find(std::begin(panel_widths), std::end(panel_widths), width) ==
        std::end(panel_widths))
      fail(error_id::state_shape, operation, "classes.weight", stored.describe(),
           "panels of 1, 4 or 16 classes");
    const std::size_t panels = (classes + width - 1) / width;
    model.panels_.emplace(context.heap());
    optim::PanelModel& own = *model.panels_;
    own.feature_count = static_cast<std::int64_t>(features);
    own.class_count = static_cast<std::int64_t>(classes);
    own.width = width;
    own.panels = panels;
    const auto weights = numbers("classes.weight", Shape{panels, features, width});
    const auto bias = numbers("classes.bias", Shape{panels, width});
    const auto known = checked("classes.known", DType::uint8, Shape{classes}).span<std::uint8_t>();
    own.weights.resize(weights.size());
    std::copy(weights.begin(), weights.end(), own.weights.begin());
    own.bias.resize(bias.size());
    std::copy(bias.begin(), bias.end(), own.bias.begin());
    model.known_.assign(known.begin(), known.end());
  }
  if (used != state.size())
    fail(error_id::extra_name, operation, "tensors", std::to_string(state.size()),
         std::to_string(used) + ", of this kind of model");
  return model;
}

}  // namespace SOMA_NAMESPACE::models
