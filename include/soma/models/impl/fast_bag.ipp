#pragma once
// The functions of fast_bag.hpp.

#include <soma/models/fast_bag.hpp>

#include <soma/autograd/embedding_bag.hpp>
#include <soma/autograd/list_loss.hpp>
#include <soma/data/point_source.hpp>
#include <soma/nn/class_weights.hpp>
#include <soma/nn/layers.hpp>
#include <soma/numeric/fused.hpp>
#include <soma/optim/row_optimizers.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

SOMA_INLINE std::size_t fast_bag_width_for(std::size_t classes) {
  return classes <= 16 ? 0 : classes <= 64 ? 32 : 64;
}

namespace detail {

inline constexpr std::string_view bag_name = "FastClassifier::fit";

// Texts without a known feature teach the bag nothing.
inline data::SparsePoints bag_points(const FastBagData& data) {
  data::SparsePoints points{.features = data.features, .classes = data.classes};
  points.labels.offsets.push_back(0);
  const text::FeatureRows& texts = data.texts;
  for (std::size_t i = 0; i + 1 < texts.begins.size(); ++i) {
    const auto begin = static_cast<std::size_t>(texts.begins[i]);
    const auto count = static_cast<std::size_t>(texts.begins[i + 1]) - begin;
    if (count == 0) continue;
    const auto ids = std::span(texts.features).subspan(begin, count);
    const auto values = std::span(texts.values).subspan(begin, count);
    points.ids.insert(points.ids.end(), ids.begin(), ids.end());
    points.values.insert(points.values.end(), values.begin(), values.end());
    points.offsets.push_back(points.ids.size());
    points.labels.add(data.labels.subspan(
        static_cast<std::size_t>(data.label_begins[i]),
        static_cast<std::size_t>(data.label_begins[i + 1] - data.label_begins[i])));
  }
  return points;
}

SOMA_INLINE void backward_of_labels(Tape& tape, const Var& logits, data::Batch& batch,
                                    data::LabelKind kind, std::span<const float> class_weights) {
  if (kind != data::LabelKind::one) {
    tape.backward(list_loss(tape, logits, batch.label_lists, {.loss = ListLoss::binary}));
    return;
  }
  const auto own = batch.label_lists.ids.span<std::int32_t>();
  const std::vector<std::int64_t> classes(own.begin(), own.end());
  batch.labels =
      Tensor::from(tape.context(), std::span<const std::int64_t>(classes), Shape{classes.size()});
  tape.backward(nn::class_loss(tape, logits, batch, class_weights));
}

}  // namespace detail

SOMA_INLINE FastBag FastBag::fit(Context& context, const FastBagData& data,
                                 const FastBagOptions& options, const StopFlag* stop) {
  soma::detail::check_table_fits(detail::bag_name, data.features, options.width);
  const nn::Scope scope{context, options.seed};
  const Var table =
      Var::parameter(context, Tensor::zeros(context, Shape{data.features, options.width}));
  const nn::Linear output(scope / "output", options.width, data.classes,
                          {.standard_deviation = nn::detail::root_of_ratio(1, options.width)});
  data::SparsePoints points = detail::bag_points(data);
  if (points.count() != 0) {
    Parameters parameters{{.name = "table", .var = table}};
    nn::Collector collector(parameters);
    collector.part("output", output);
    optim::RowAdagrad optimizer(context, parameters);
    data::PointSource source(context, std::move(points),
                             {.batch_sequences = options.batch, .seed = options.seed});
    const std::uint64_t steps = source.batches(0) * options.passes;
    Tape tape(context);
    data::Batch batch;
    for (std::uint64_t step = 0; step < steps; ++step) {
      check_stop(stop, detail::bag_name);
      while (!source.next(batch)) continue;
      clear_gradients(parameters);
      tape.reset(static_cast<std::uint32_t>(step));
      const Var h = embedding_bag(tape, table, tape.constant(batch.inputs), BagMode::sum,
                                  tape.constant(batch.values));
      const Var logits = output(tape, h);
      detail::backward_of_labels(tape, logits, batch, data.kind, data.class_weights);
      const double gone = static_cast<double>(step) / static_cast<double>(steps);
      optimizer.step({.rate = options.rate * (1 - gone)});
    }
  }
  const auto copy = [](const Var& from) {
    const auto values = from.value().span<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  return {.features = data.features,
          .width = options.width,
          .classes = data.classes,
          .table = copy(table),
          .weight = copy(output.weight),
          .bias = copy(output.bias)};
}

SOMA_INLINE void FastBag::add(std::span<const std::int32_t> features_of_text,
                              std::span<const float> values, float known, float factor,
                              float* scores) const {
  std::vector<float> h(width);
  for (std::size_t i = 0; i < features_of_text.size(); ++i) {
    const float* row = table.data() + static_cast<std::size_t>(features_of_text[i]) * width;
    for (std::size_t k = 0; k < width; ++k) h[k] = fused_multiply_add(values[i], row[k], h[k]);
  }
  for (std::size_t c = 0; c < classes; ++c) {
    float sum = bias[c] * known;
    for (std::size_t k = 0; k < width; ++k)
      sum = fused_multiply_add(weight[c * width + k], h[k], sum);
    scores[c] = fused_multiply_add(factor, sum, scores[c]);
  }
}

}  // namespace SOMA_NAMESPACE::models
