#pragma once
// ExtremeClassifier: points of few features among very many, labelled with some of very many
// classes: the sum of the features' rows, a ReLU, and a layer with a row for each class, which is
// trained against a set of classes that a sampler chooses (arXiv 1903.03129 has the network). A
// task that trainers train, with optim::RowAdam. Needs add_sparse(context) (soma/sparse.hpp).

#include <soma/autograd/embedding_bag.hpp>
#include <soma/autograd/list_loss.hpp>
#include <soma/nn/class_sampler.hpp>
#include <soma/nn/init.hpp>
#include <soma/nn/scope.hpp>
#include <soma/nn/task.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace soma::models {

struct ExtremeOptions {
  std::size_t features = 0, classes = 0, width = 128;
  nn::SamplerOptions sampler{};
  // Deviation of the initial rows of features, and of classes: logits begin near 0.
  float feature_deviation = 0.1f, class_deviation = 0.05f;
  std::uint64_t seed = 0;
};

class ExtremeClassifier final : public nn::Task {
 public:
  // Errors models.config_value (no features, classes or width), those of ClassSampler.
  ExtremeClassifier(Context& context, const ExtremeOptions& options)
      : context_(context),
        options_(checked(options)),
        sampler_(context, options.classes, options.width, options.sampler) {
    const nn::Scope scope{context, options.seed};
    const auto normal = [&](std::size_t rows, float deviation, std::string_view site) {
      return Var::parameter(
          context, nn::normal(context, Shape{rows, options.width}, deviation, scope.draw(site)));
    };
    features_ = normal(options.features, options.feature_deviation, "features");
    bias_ = Var::parameter(context, Tensor::zeros(context, Shape{options.width}));
    classes_ = normal(options.classes, options.class_deviation, "classes");
    class_bias_ = Var::parameter(context, Tensor::zeros(context, Shape{options.classes, 1}));
    parameters_ = {{.name = "features.weight", .var = features_},
                   {.name = "features.bias", .var = bias_},
                   {.name = "classes.weight", .var = classes_},
                   {.name = "classes.bias", .var = class_bias_}};
  }

  const ExtremeOptions& options() const { return options_; }
  const nn::ClassSampler& sampler() const { return sampler_; }

  const Parameters& parameters() const override { return parameters_; }
  double learning_rate() const override { return 1e-3; }
  // In training the loss of the sampler's set; else the exact one.
  Forward forward(Tape& tape, const data::Batch& batch) override {
    if (!batch.label_lists.defined())
      fail(error_id::train_label, "ExtremeClassifier", "labels", "not defined",
           "a list for each point");
    const Var h = hidden(tape, batch);
    const LossReduction reduction = batch.part ? LossReduction::sum : LossReduction::mean;
    if (options_.sampler.kind == nn::Sampler::full || !tape.options().training)
      return {
          full_softmax_loss(tape, h, classes_, reshape(tape, class_bias_, Shape{options_.classes}),
                            batch.label_lists, reduction),
          {}};
    const ClassSet set =
        sampler_.sample(batch.label_lists, h.value(), classes_.value(), tape.options().step);
    return {sampled_cross_entropy(tape, h, classes_, class_bias_, set, reduction), {}};
  }
  // A sampled set holds the labels of the whole batch, of which a rank sees its part only.
  bool takes_parts() const override { return options_.sampler.kind == nn::Sampler::full; }
  void describe(Record& identity) const override {
    identity.set("model", "extreme_classifier");
    identity.set("features", options_.features);
    identity.set("classes", options_.classes);
    identity.set("width", options_.width);
    sampler_.describe(identity);
  }

  // The likeliest `count` classes of each point, the likeliest first; of equal ones the smaller
  // number. Looks at all classes, a panel at a time.
  std::vector<std::vector<std::int32_t>> top(const data::Batch& batch, std::size_t count) const {
    constexpr std::size_t panel = 8192;
    Tape tape(context_, {.record = false, .training = false});
    const Var h = hidden(tape, batch);
    const std::size_t points = h.value().size(0);
    using Found = std::vector<std::pair<float, std::int32_t>>;
    std::vector<Found> best(points);
    for (std::size_t first = 0; first < options_.classes; first += panel) {
      const std::size_t end = (std::min)(first + panel, options_.classes);
      const Tensor bias = class_bias_.value().slice(0, first, end).reshape(Shape{end - first});
      const Tensor logits =
          linear(tape, h, tape.constant(classes_.value().slice(0, first, end)), tape.constant(bias))
              .value();
      for (std::size_t i = 0; i < points; ++i)
        keep_best(logits.data<float>() + i * (end - first), end - first, first, count, best[i]);
    }
    std::vector<std::vector<std::int32_t>> result(points);
    for (std::size_t i = 0; i < points; ++i)
      for (const auto& [negative, id] : best[i]) result[i].push_back(id);
    return result;
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
  // Into a list that is sorted by (-logit, class) and holds `count` at most.
  static void keep_best(const float* logits, std::size_t width, std::size_t first,
                        std::size_t count, std::vector<std::pair<float, std::int32_t>>& best) {
    for (std::size_t c = 0; c < width; ++c) {
      if (best.size() == count && !(-logits[c] < best.back().first)) continue;
      const std::pair one(-logits[c], static_cast<std::int32_t>(first + c));
      best.insert(std::upper_bound(best.begin(), best.end(), one), one);
      if (best.size() > count) best.pop_back();
    }
  }

  Context& context_;
  ExtremeOptions options_;
  nn::ClassSampler sampler_;
  Var features_, bias_, classes_, class_bias_;
  Parameters parameters_;
};

}  // namespace soma::models
