#pragma once
// The functions of extreme_classifier.hpp.

#include <soma/models/extreme_classifier.hpp>

#include <soma/autograd/embedding_bag.hpp>
#include <soma/autograd/list_loss.hpp>
#include <soma/data/point_source.hpp>
#include <soma/kernels/sparse/args.hpp>
#include <soma/models/extreme_linear.hpp>
#include <soma/nn/class_sampler.hpp>
#include <soma/nn/class_search.hpp>
#include <soma/nn/init.hpp>
#include <soma/nn/scope.hpp>
#include <soma/nn/task.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

SOMA_INLINE ExtremeClassifier::ExtremeClassifier(Context& context, const ExtremeOptions& options)
    : context_(context), options_(checked(options)) {
  use_sampler(options.sampler);
  const nn::Scope scope{context, options.seed};
  const auto normal = [&](std::size_t rows, float standard_deviation, std::string_view site) {
    return Var::parameter(context, nn::normal(context, Shape{rows, options.width},
                                              standard_deviation, scope.draw(site)));
  };
  features_ = normal(options.features, options.feature_standard_deviation, "features");
  bias_ = Var::parameter(context, Tensor::zeros(context, Shape{options.width}));
  classes_ = normal(options.classes, options.class_standard_deviation, "classes");
  class_bias_ = Var::parameter(context, Tensor::zeros(context, Shape{options.classes, 1}));
  parameters_ = {{.name = "features.weight", .var = features_},
                 {.name = "features.bias", .var = bias_},
                 {.name = "classes.weight", .var = classes_},
                 {.name = "classes.bias", .var = class_bias_}};
}

SOMA_INLINE ExtremeClassifier::ExtremeClassifier(Context& context, ExtremeLinear linear)
    : context_(context),
      options_({.features = linear.features(), .classes = linear.classes(), .width = 0}),
      linear_(std::make_unique<ExtremeLinear>(std::move(linear))) {}

SOMA_INLINE std::unique_ptr<ExtremeClassifier> ExtremeClassifier::fit(
    Context& context, const data::SparsePoints& points, const ExtremeFitOptions& options) {
  auto model =
      std::make_unique<ExtremeClassifier>(context, ExtremeLinear::fit(context, points, options));
  model->use_label_counts(label_counts_of(points));
  return model;
}

SOMA_INLINE ExtremeKind ExtremeClassifier::kind() const {
  return linear_ ? linear_->kind() : ExtremeKind::network;
}

SOMA_INLINE const ExtremeLinear* ExtremeClassifier::linear_model() const { return linear_.get(); }

SOMA_INLINE void ExtremeClassifier::check_network() const {
  if (linear_)
    fail(error_id::train_options, "ExtremeClassifier", "kind",
         extreme_kind_names[static_cast<std::size_t>(linear_->kind())],
         "network, for what samplers, trainers and hashes do");
}

SOMA_INLINE void ExtremeClassifier::use_sampler(const nn::SamplerOptions& sampler) {
  check_network();
  sampler_ =
      std::make_unique<nn::ClassSampler>(context_, options_.classes, options_.width, sampler);
  options_.sampler = sampler;
}

SOMA_INLINE LabelCounts label_counts_of(const data::SparsePoints& points) {
  LabelCounts counts{.points = points.count()};
  counts.points_of_class.assign(points.classes, 0);
  for (const std::int32_t label : points.labels.ids)
    ++counts.points_of_class[static_cast<std::size_t>(label)];
  return counts;
}

SOMA_INLINE void ExtremeClassifier::use_label_counts(LabelCounts counts) {
  if (!counts.points_of_class.empty() && counts.points_of_class.size() != options_.classes)
    fail(error_id::data_labels, "ExtremeClassifier", "label counts",
         std::to_string(counts.points_of_class.size()) + " numbers",
         "one for each of " + std::to_string(options_.classes) + " classes");
  label_counts_ = std::move(counts);
}

SOMA_INLINE auto ExtremeClassifier::forward(Tape& tape, const data::Batch& batch) -> Forward {
  check_network();
  if (!batch.label_lists.defined())
    fail(error_id::train_label, "ExtremeClassifier", "labels", "not defined",
         "a list for each point");
  const Var h = hidden(tape, batch);
  const LossReduction reduction = batch.part ? LossReduction::sum : LossReduction::mean;
  const std::uint32_t step = tape.options().step;
  if (options_.sampler.kind == nn::Sampler::full || !tape.options().training)
    return {
        full_softmax_loss(tape, h, classes_, reshape(tape, class_bias_, Shape{options_.classes}),
                          batch.label_lists, reduction),
        {}};
  if (options_.sampler.kind == nn::Sampler::lsh_per_sample) {
    const ClassSets sets =
        sampler_->sample_each(batch.label_lists, h.value(), classes_.value(), step);
    return {sampled_cross_entropy(tape, h, classes_, class_bias_, sets, reduction), {}};
  }
  // A part of a batch uses the set of the whole batch.
  const data::LabelLists& whole = batch.part ? batch.whole_label_lists : batch.label_lists;
  if (!whole.defined())
    fail(error_id::train_label, "ExtremeClassifier", "labels of the whole batch", "not defined",
         "a list for each point (data::part_of)");
  const ClassSet set =
      sampler_->sample(whole, batch.label_lists, h.value(), classes_.value(), step);
  return {sampled_cross_entropy(tape, h, classes_, class_bias_, set, reduction), {}};
}

SOMA_INLINE bool ExtremeClassifier::takes_parts() const {
  return linear_ == nullptr && !nn::uses_index(options_.sampler.kind);
}

SOMA_INLINE StateDict ExtremeClassifier::state() const {
  check_network();
  return sampler_->state();
}

SOMA_INLINE void ExtremeClassifier::load_state(const StateDict& state) {
  check_network();
  sampler_->load_state(state, classes_.value());
}

SOMA_INLINE void ExtremeClassifier::describe(Record& identity) const {
  check_network();
  identity.set("model", "extreme_classifier");
  identity.set("features", options_.features);
  identity.set("classes", options_.classes);
  identity.set("width", options_.width);
  sampler_->describe(identity);
}

SOMA_INLINE std::vector<std::vector<nn::FoundClass>> ExtremeClassifier::top(
    const data::Batch& batch, std::size_t count) const {
  constexpr std::size_t panel = 8192;
  if (linear_) {
    const auto ids = batch.inputs.rows.span<std::int32_t>();
    const auto values =
        batch.values.defined() ? batch.values.span<float>() : std::span<const float>();
    return linear_->top(context_, batch.inputs.sequences.offsets(), ids, values, count);
  }
  Tape tape(context_, {.record = false, .training = false});
  const Var h = hidden(tape, batch);
  const std::size_t points = h.value().size(0);
  std::vector<nn::BestClasses> best(points, nn::BestClasses(count));
  for (std::size_t first = 0; first < options_.classes; first += panel) {
    const std::size_t end = (std::min)(first + panel, options_.classes);
    const Tensor bias = class_bias_.value().slice(0, first, end).reshape(Shape{end - first});
    const Tensor logits =
        linear(tape, h, tape.constant(classes_.value().slice(0, first, end)), tape.constant(bias))
            .value();
    soma::detail::for_ranges(context_, points, end - first,
                             [&](std::size_t begin, std::size_t last) {
                               for (std::size_t i = begin; i < last; ++i) {
                                 const float* row = logits.data<float>() + i * (end - first);
                                 for (std::size_t c = first; c < end; ++c)
                                   best[i].add(row[c - first], static_cast<std::int32_t>(c));
                               }
                             });
  }
  std::vector<std::vector<nn::FoundClass>> result;
  for (const nn::BestClasses& one : best) result.push_back(one.classes());
  return result;
}

SOMA_INLINE std::vector<std::vector<nn::FoundClass>> ExtremeClassifier::top(
    const data::SparsePoints& points, std::size_t count) const {
  constexpr std::size_t at_once = 256;
  if (linear_) {
    data::check_points("ExtremeClassifier::top", points);
    return linear_->top(context_, points.offsets, points.ids, points.values, count);
  }
  data::PointSource source(context_, points, {.batch_sequences = at_once, .shuffle = false});
  std::vector<std::vector<nn::FoundClass>> result;
  for (data::Batch batch; source.next(batch);)
    for (std::vector<nn::FoundClass>& one : top(batch, count)) result.push_back(std::move(one));
  return result;
}

SOMA_INLINE void ExtremeClassifier::hidden_of(std::span<const std::int32_t> ids,
                                              std::span<const float> values,
                                              std::vector<float>& h) const {
  check_network();
  const FloatEnvironment environment;
  for (const std::int32_t id : ids)
    if (id < 0 || static_cast<std::size_t>(id) >= options_.features)
      fail(error_id::operator_value, "ExtremeClassifier", "feature", std::to_string(id),
           "0 to " + std::to_string(options_.features) + " - 1");
  h.resize(options_.width);
  const std::array<std::size_t, 2> offsets{0, ids.size()};
  const soma::detail::TensorRows table = soma::detail::rows_of(context_, features_.value());
  sparse_table(context_, "ExtremeClassifier")
      .kernels->bag({.last = 1,
                     .columns = options_.width,
                     .table = soma::detail::operand(table),
                     .ids = ids.data(),
                     .weights = values.empty() ? nullptr : values.data(),
                     .offsets = offsets.data(),
                     .y = {.data = h.data(), .row_stride = options_.width}});
  const float* bias = bias_.value().data<float>();
  for (std::size_t i = 0; i < h.size(); ++i) h[i] = (std::max)(h[i] + bias[i], 0.0f);
}

SOMA_INLINE nn::ClassSearch ExtremeClassifier::search(const nn::ClassSearchOptions& options) const {
  check_network();
  return {context_, classes_.value(), class_bias_.value(), options};
}

SOMA_INLINE Tensor ExtremeClassifier::hidden_of(const data::Batch& batch) const {
  check_network();
  Tape tape(context_, {.record = false, .training = false});
  return hidden(tape, batch).value();
}

SOMA_INLINE const ExtremeOptions& ExtremeClassifier::checked(const ExtremeOptions& options) {
  for (const auto& [name, value] : {std::pair("features", options.features),
                                    {"classes", options.classes},
                                    {"width", options.width}})
    if (value == 0) fail(error_id::config_value, "ExtremeClassifier", name, "0", "at least 1");
  for (const std::size_t rows : {options.features, options.classes})
    soma::detail::check_table_fits("ExtremeClassifier", rows, options.width);
  return options;
}

SOMA_INLINE Var ExtremeClassifier::hidden(Tape& tape, const data::Batch& batch) const {
  const Var values = batch.values.defined() ? tape.constant(batch.values) : Var();
  const Var sums =
      embedding_bag(tape, features_, tape.constant(batch.inputs), BagMode::sum, values);
  return relu(tape, add(tape, sums, bias_));
}

}  // namespace SOMA_NAMESPACE::models
