#pragma once
// ExtremeClassifier: classifies points with few features among very many into some of very many
// classes. The network is the sum of the features' rows, a ReLU, and a layer with a row for each
// class, which is trained against a set of classes that a sampler chooses (arXiv 1903.03129
// describes the network). It is a task that trainers train, with optim::RowAdam. Needs
// add_sparse(context) (soma/sparse.hpp).

#include <soma/autograd/embedding_bag.hpp>
#include <soma/autograd/list_loss.hpp>
#include <soma/kernels/sparse/args.hpp>
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

namespace soma::models {

struct ExtremeOptions {
  std::size_t features = 0, classes = 0, width = 128;
  nn::SamplerOptions sampler{};
  // Standard deviations of the initial rows of features, and of classes: logits begin near 0.
  float feature_standard_deviation = 0.1f, class_standard_deviation = 0.05f;
  std::uint64_t seed = 0;
};

class ExtremeClassifier final : public nn::Task {
 public:
  // Errors models.config_value (no features, classes or width), those of ClassSampler.
  ExtremeClassifier(Context& context, const ExtremeOptions& options)
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

  const ExtremeOptions& options() const { return options_; }
  const nn::ClassSampler& sampler() const { return *sampler_; }
  // Changes the sampler from the next batch on. Errors as of ClassSampler; the old sampler then
  // stays.
  void use_sampler(const nn::SamplerOptions& sampler) {
    sampler_ =
        std::make_unique<nn::ClassSampler>(context_, options_.classes, options_.width, sampler);
    options_.sampler = sampler;
  }

  const Parameters& parameters() const override { return parameters_; }
  double learning_rate() const override { return 1e-3; }
  // In training, the loss over the sampler's set; otherwise the exact loss.
  Forward forward(Tape& tape, const data::Batch& batch) override {
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
  // An index uses the queries of the whole batch, but a rank has only its part.
  bool takes_parts() const override { return !nn::uses_index(options_.sampler.kind); }
  StateDict state() const override { return sampler_->state(); }
  void load_state(const StateDict& state) override {
    sampler_->load_state(state, classes_.value());
  }
  void describe(Record& identity) const override {
    identity.set("model", "extreme_classifier");
    identity.set("features", options_.features);
    identity.set("classes", options_.classes);
    identity.set("width", options_.width);
    sampler_->describe(identity);
  }

  // The likeliest `count` classes of each point, the likeliest first; of equal logits, the smaller
  // id first. Computes all classes, a panel at a time.
  std::vector<std::vector<nn::FoundClass>> top(const data::Batch& batch, std::size_t count) const {
    constexpr std::size_t panel = 8192;
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

  // The input of the last layer for a point with these features and, if given, values. Without a
  // tape, in microseconds. Error operator.value: a feature out of range.
  void hidden_of(std::span<const std::int32_t> ids, std::span<const float> values,
                 std::vector<float>& h) const {
    const FloatEnvironment environment;
    for (const std::int32_t id : ids)
      if (id < 0 || static_cast<std::size_t>(id) >= options_.features)
        fail(error_id::operator_value, "ExtremeClassifier", "feature", std::to_string(id),
             "0 to " + std::to_string(options_.features) + " - 1");
    h.resize(options_.width);
    const std::array<std::size_t, 2> offsets{0, ids.size()};
    sparse_table(context_, "ExtremeClassifier")
        .kernels->bag({.last = 1,
                       .columns = options_.width,
                       .table = soma::detail::operand(features_.value()),
                       .ids = ids.data(),
                       .weights = values.empty() ? nullptr : values.data(),
                       .offsets = offsets.data(),
                       .y = {.data = h.data(), .row_stride = options_.width}});
    const float* bias = bias_.value().data<float>();
    for (std::size_t i = 0; i < h.size(); ++i) h[i] = (std::max)(h[i] + bias[i], 0.0f);
  }
  // Answers by hashes from the present weights of this model. The model must not be trained while
  // the search is in use.
  nn::ClassSearch search(const nn::ClassSearchOptions& options = {}) const {
    return {context_, classes_.value(), class_bias_.value(), options};
  }
  // The input of the last layer for a batch, [points, width].
  Tensor hidden_of(const data::Batch& batch) const {
    Tape tape(context_, {.record = false, .training = false});
    return hidden(tape, batch).value();
  }

 private:
  static const ExtremeOptions& checked(const ExtremeOptions& options) {
    for (const auto& [name, value] : {std::pair("features", options.features),
                                      {"classes", options.classes},
                                      {"width", options.width}})
      if (value == 0) fail(error_id::config_value, "ExtremeClassifier", name, "0", "at least 1");
    for (const std::size_t rows : {options.features, options.classes})
      soma::detail::check_table_fits("ExtremeClassifier", rows, options.width);
    return options;
  }

  Var hidden(Tape& tape, const data::Batch& batch) const {
    const Var values = batch.values.defined() ? tape.constant(batch.values) : Var();
    const Var sums =
        embedding_bag(tape, features_, tape.constant(batch.inputs), BagMode::sum, values);
    return relu(tape, add(tape, sums, bias_));
  }

  Context& context_;
  ExtremeOptions options_;
  std::unique_ptr<nn::ClassSampler> sampler_{};
  Var features_, bias_, classes_, class_bias_;
  Parameters parameters_;
};

}  // namespace soma::models
