#pragma once
// ExtremeClassifier: classifies points with few features among very many into some of very many
// classes. fit() makes a linear model or a tree of linear models (ExtremeLinear), in seconds and
// without a choice of the caller's.
//
// The third kind is a network: the sum of the features' rows, a ReLU, and a layer with a row for
// each class, which is trained against a set of classes that a sampler chooses (arXiv 1903.03129
// describes the network). It is a task that trainers train, with optim::RowAdam. Needs
// add_sparse(context) (soma/sparse.hpp).

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

struct ExtremeOptions {
  std::size_t features = 0, classes = 0, width = 128;
  nn::SamplerOptions sampler{};
  // Standard deviations of the initial rows of features, and of classes: logits begin near 0.
  float feature_standard_deviation = 0.1f, class_standard_deviation = 0.05f;
  std::uint64_t seed = 0;
};

struct LabelCounts {
  std::vector<std::uint32_t> points_of_class{};
  std::uint64_t points = 0;
};
// Counts the labels of points.
LabelCounts label_counts_of(const data::SparsePoints& points);

class ExtremeClassifier final : public nn::Task {
 public:
  // A network. Errors models.config_value (no features, classes or width), those of ClassSampler.
  ExtremeClassifier(Context& context, const ExtremeOptions& options);
  // A linear model or a tree. Errors as of ExtremeLinear::fit().
  static std::unique_ptr<ExtremeClassifier> fit(Context& context, const data::SparsePoints& points,
                                                const ExtremeFitOptions& options = {});
  // The same from its parts.
  ExtremeClassifier(Context& context, ExtremeLinear linear);

  ExtremeKind kind() const;
  // nullptr: a network.
  const ExtremeLinear* linear_model() const;

  Context& context() const { return context_; }
  const ExtremeOptions& options() const { return options_; }
  const nn::ClassSampler& sampler() const { return *sampler_; }
  // Changes the sampler from the next batch on. Errors as of ClassSampler; the old sampler then
  // stays.
  void use_sampler(const nn::SamplerOptions& sampler);

  // How many training points have each class, for metrics that count rare classes for more
  // (metrics/ranking.hpp); empty where nobody has said so. A folder keeps it. Error data.labels:
  // not one number for each class.
  void use_label_counts(LabelCounts counts);
  const LabelCounts& label_counts() const { return label_counts_; }

  const Parameters& parameters() const override { return parameters_; }
  double learning_rate() const override { return 1e-3; }
  // In training, the loss over the sampler's set; otherwise the exact loss. Error train.label: a
  // batch without label lists. A model that is no network has Error train.options here, and in all
  // functions below that use samplers, hidden layers or hashes.
  SOMA_INLINE Forward forward(Tape& tape, const data::Batch& batch) override;
  // An index uses the queries of the whole batch, but a rank has only its part.
  SOMA_INLINE bool takes_parts() const override;
  SOMA_INLINE StateDict state() const override;
  SOMA_INLINE void load_state(const StateDict& state) override;
  SOMA_INLINE void describe(Record& identity) const override;

  // The likeliest `count` classes of each point, the likeliest first; of equal logits, the smaller
  // id first. Computes all classes, a panel at a time.
  std::vector<std::vector<nn::FoundClass>> top(const data::Batch& batch, std::size_t count) const;
  std::vector<std::vector<nn::FoundClass>> top(const data::SparsePoints& points,
                                               std::size_t count) const;

  // The input of the last layer for a point with these features and, if given, values. Without a
  // tape, in microseconds. Error operator.value: a feature out of range.
  void hidden_of(std::span<const std::int32_t> ids, std::span<const float> values,
                 std::vector<float>& h) const;
  // Answers by hashes from the present weights of this model. The model must not be trained while
  // the search is in use.
  nn::ClassSearch search(const nn::ClassSearchOptions& options = {}) const;
  // The input of the last layer for a batch, [points, width].
  Tensor hidden_of(const data::Batch& batch) const;

 private:
  static const ExtremeOptions& checked(const ExtremeOptions& options);

  void check_network() const;
  Var hidden(Tape& tape, const data::Batch& batch) const;

  Context& context_;
  ExtremeOptions options_;
  LabelCounts label_counts_{};
  std::unique_ptr<ExtremeLinear> linear_{};      // not of a network
  std::unique_ptr<nn::ClassSampler> sampler_{};  // a network's
  Var features_, bias_, classes_, class_bias_;
  Parameters parameters_;
};

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/extreme_classifier.ipp>
#endif
