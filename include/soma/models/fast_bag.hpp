#pragma once
// FastBag: the second part of a FastClassifier for many classes: an embedding bag over the counted
// features of the linear part. Its logits are those of one linear layer on the sum of the rows of
// the text's features, each times its value. Classes share the directions of the rows, which the
// linear part's weights cannot do. Unknown words have no row here either.
//
// Needs add_sparse(context) (soma/sparse.hpp).

#include <soma/autograd/parameter.hpp>
#include <soma/autograd/tape.hpp>
#include <soma/data/batch.hpp>
#include <soma/data/labels.hpp>
#include <soma/runtime/stop_flag.hpp>
#include <soma/text/counted_features.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace SOMA_NAMESPACE::models {

struct FastBagOptions {
  std::size_t width = 64;  // columns of the table
  std::uint64_t passes = 3;
  double rate = 0.2;       // for row-wise Adagrad, falling linearly to 0
  std::size_t batch = 32;  // texts
  std::uint64_t seed = 0;  // for initial values and order
};

// The rule for the width: 0, which is no bag, up to 16 classes, 32 up to 64, else 64.
std::size_t fast_bag_width_for(std::size_t classes);

// Rows of texts and their labels, which belong to the caller.
struct FastBagData {
  const text::FeatureRows& texts;
  std::size_t features = 0;                      // rows of the table
  std::span<const std::int64_t> label_begins{};  // [texts + 1]
  std::span<const std::int32_t> labels{};        // ascending in a text
  std::size_t classes = 0;
  data::LabelKind kind = data::LabelKind::one;  // or several
  std::span<const float> class_weights{};       // in the loss, for one label a text; empty: 1
};

// The weights, in fp32.
struct FastBag {
  std::size_t features = 0, width = 0, classes = 0;
  std::vector<float> table{};   // [features, width]
  std::vector<float> weight{};  // [classes, width]
  std::vector<float> bias{};    // [classes]

  // Trains by the cross entropy; for several labels by that of each class alone. Errors
  // runtime.stopped, context.no_sparse, memory.exhausted.
  static FastBag fit(Context& context, const FastBagData& data, const FastBagOptions& options,
                     const StopFlag* stop = nullptr);

  // Adds `factor` times the logits of a text to `scores`, [classes]. The bias counts `known`.
  void add(std::span<const std::int32_t> features_of_text, std::span<const float> values,
           float known, float factor, float* scores) const;
};

namespace detail {

// Adds the gradients of a batch's mean loss: the cross entropy, or for several labels that of each
// class alone. The batch's labels are lists; with one label each they become classes.
void backward_of_labels(Tape& tape, const Var& logits, data::Batch& batch, data::LabelKind kind,
                        std::span<const float> class_weights);

}  // namespace detail
}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/fast_bag.ipp>
#endif
