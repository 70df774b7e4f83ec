#pragma once
// The functions of fast_classifier.hpp.

#include <soma/models/fast_classifier.hpp>

#include <soma/autograd/embedding_bag.hpp>
#include <soma/data/token_source.hpp>
#include <soma/io/record_json.hpp>
#include <soma/kernels/sparse/args.hpp>
#include <soma/models/fast_options.hpp>
#include <soma/models/text_classifier.hpp>
#include <soma/nn/layers.hpp>
#include <soma/nn/task.hpp>
#include <soma/numeric/fused.hpp>
#include <soma/numeric/portable_math.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/ops/support.hpp>
#include <soma/text/rows/column_names.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

SOMA_INLINE FastClassifier::FastClassifier(Context& context, const FastOptions& options)
    : context_(context), options_(checked(context, options)), features_(options.features) {
  const nn::Scope scope{context, options.seed};
  table_ = Var::parameter(context, Tensor::zeros(context, Shape{features_.rows(), options.width}));
  output_ = nn::Linear(scope / "output", options.width, options.labels.size(),
                       {.standard_deviation = nn::detail::root_of_ratio(1, options.width)});
  nn::Collector collector(parameters_);
  collector.add("embedding.weight", table_, ParameterRole::weight);
  collector.part("output", output_);
}

SOMA_INLINE FastClassifier::FastClassifier(Context& context, const FastOptions& options,
                                           FastLinear linear)
    : context_(context),
      options_(options),
      features_(options.features),
      linear_(std::make_unique<FastLinear>(std::move(linear))) {
  options_.width = 0;
  detail::check_labels("FastClassifier", options_.labels);
}

SOMA_INLINE FastClassifier FastClassifier::from_folder(Context& context, std::string_view folder) {
  const std::string path(folder);
  const Record record = soma::detail::read_fast_config(path);
  if (record.contains("features.version") &&
      record.count("features.version") == text::CountedFeatures::version)
    return linear_from_folder(context, path, record);
  return FastClassifier(context, path);
}

SOMA_INLINE FastClassifier FastClassifier::linear_from_folder(Context& context,
                                                              const std::string& folder,
                                                              const Record& record) {
  const FastOptions options = fast_linear_options_of(record, folder);
  const SafetensorsFile file = load_safetensors(context, folder + "/model.safetensors");
  return FastClassifier(context, options,
                        FastLinear(context, record, file.tensors, options.labels.size(), folder));
}

SOMA_INLINE std::int32_t FastClassifier::class_of(std::int64_t label, std::size_t row,
                                                  std::size_t classes) {
  if (label < 0 || static_cast<std::size_t>(label) >= classes)
    fail(error_id::data_labels, "FastClassifier::fit", "label of row " + std::to_string(row),
         std::to_string(label), "a class below " + std::to_string(classes));
  return static_cast<std::int32_t>(label);
}

SOMA_INLINE const FastLinear* FastClassifier::linear() const { return linear_.get(); }

SOMA_INLINE data::LabelKind FastClassifier::label_kind() const {
  return linear_ != nullptr ? linear_->kind() : data::LabelKind::one;
}

SOMA_INLINE void FastClassifier::set_input(const InputForm& input) { options_.input = input; }

SOMA_INLINE void FastClassifier::save(std::string_view folder,
                                      const FastSaveOptions& options) const {
  constexpr std::string_view operation = "FastClassifier::save";
  if (linear_ == nullptr && options.keep != 1)
    fail(error_id::config_value, operation, "keep", std::to_string(options.keep),
         "1: only fit() makes rows that can be left out");
  AtomicFolder target(operation, folder);
  detail::check_replaced(operation, folder, target, {});
  StateDict state;
  Record record = linear_ != nullptr ? fast_linear_record(options_) : to_record(options_);
  if (linear_ != nullptr) linear_->save(record, state, options);
  AtomicFile config(operation, target / "config.json");
  config.write(to_json(record).append("\n"));
  config.commit();
  if (linear_ != nullptr) {
    save_safetensors(target / "model.safetensors", state);
    target.commit();
    return;
  }
  const Tensor rows = used_rows();
  state.set("embedding.rows", rows);
  state.set("embedding.weight", rows_of_table(rows.span<std::int64_t>()));
  state.set("output.weight", output_.weight.value());
  state.set("output.bias", output_.bias.value());
  save_safetensors(target / "model.safetensors", state);
  target.commit();
}

SOMA_INLINE Prediction FastClassifier::predict(std::string_view text) const {
  if (linear_ != nullptr) return predict_linear(text);
  if (text::is_blank(text)) return no_answer(data::LabelKind::one, labels().size());
  const FloatEnvironment environment;
  std::vector<std::int32_t> ids;
  features_.add(text, ids);
  const std::array<std::size_t, 2> offsets{0, ids.size()};
  std::vector<float> mean(options_.width);
  const soma::detail::TensorRows table = soma::detail::rows_of(context_, table_.value());
  sparse_table(context_, "FastClassifier::predict")
      .kernels->bag({.last = 1,
                     .columns = options_.width,
                     .table = soma::detail::operand(table),
                     .ids = ids.data(),
                     .offsets = offsets.data(),
                     .mean = true,
                     .y = {.data = mean.data(), .row_stride = options_.width}});
  return prediction_of(logits_of(mean));
}

SOMA_INLINE Prediction FastClassifier::predict_linear(std::string_view text) const {
  if (text::is_blank(text)) return no_answer(linear_->kind(), labels().size());
  Prediction result;
  result.probabilities = linear_->probabilities(text);
  result.kind = linear_->kind();
  const std::vector<float>& p = result.probabilities;
  const auto best = static_cast<std::size_t>(std::max_element(p.begin(), p.end()) - p.begin());
  result.label = labels()[best];
  result.probability = static_cast<double>(p[best]);
  if (linear_->kind() != data::LabelKind::several) return result;
  std::vector<std::size_t> likely;
  for (std::size_t c = 0; c < p.size(); ++c)
    if (p[c] > 0.5f) likely.push_back(c);
  std::stable_sort(likely.begin(), likely.end(),
                   [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
  for (const std::size_t c : likely) result.labels.push_back(labels()[c]);
  return result;
}

SOMA_INLINE std::vector<Prediction> FastClassifier::predict(
    std::span<const std::string_view> texts) const {
  std::vector<Prediction> result;
  result.reserve(texts.size());
  for (const std::string_view text : texts) result.push_back(predict(text));
  return result;
}

SOMA_INLINE std::size_t FastClassifier::classes() const { return labels().size(); }

SOMA_INLINE auto FastClassifier::forward(Tape& tape, const data::Batch& batch) -> Forward {
  if (linear_ != nullptr)
    fail(error_id::no_parameters, "FastClassifier::forward", "a classifier of fit()",
         "without parameters", "one of FastClassifier(context, options), which trainers train");
  // The loss checks that labels are classes.
  if (!batch.labels.defined())
    fail(error_id::train_label, "FastClassifier", "labels", "not defined",
         "a class for each sequence");
  const Var h = embedding_bag(tape, table_, tape.constant(batch.inputs), BagMode::mean);
  const Var logits = output_(tape, h);
  return {cross_entropy(tape, logits, tape.constant(batch.labels), nn::loss_of(batch)),
          logits.value()};
}

SOMA_INLINE double FastClassifier::loss_count(const data::Batch& batch) const {
  return nn::counted_labels(batch);
}

SOMA_INLINE void FastClassifier::describe(Record& identity) const {
  identity.set("model", "fast_classifier");
  identity.set("width", options_.width);
  features_.describe(identity);
  identity.set("labels", soma::detail::joined_labels(options_.labels));
}

SOMA_INLINE FastClassifier::FastClassifier(Context& context, const std::string& folder)
    : FastClassifier(context, fast_options_of(soma::detail::read_fast_config(folder), folder)) {
  load_weights(folder);
}

SOMA_INLINE const FastOptions& FastClassifier::checked(const Context& context,
                                                       const FastOptions& options) {
  static_cast<void>(sparse_table(context, "FastClassifier"));
  if (options.labels.size() < 2)
    fail(error_id::config_value, "FastClassifier", "labels", std::to_string(options.labels.size()),
         "at least 2");
  detail::check_labels("FastClassifier", options.labels);
  if (options.width == 0 || options.width > 4096)
    fail(error_id::config_value, "FastClassifier", "width", std::to_string(options.width),
         "1 to 4096");
  soma::detail::check_table_fits("FastClassifier", text::HashedFeatures(options.features).rows(),
                                 options.width);
  return options;
}

SOMA_INLINE void FastClassifier::hash_all(const std::vector<std::string_view>& texts,
                                          data::TokenLists& lists) const {
  struct Part {
    std::vector<std::int32_t> ids{};
    std::vector<std::size_t> ends{};  // ends of lists, in ids
  };
  const soma::detail::UnevenRanges ranges(context_, texts.size(), std::size_t{1} << 16,
                                          [&](std::size_t i) { return texts[i].size() + 16; });
  std::vector<Part> parts(ranges.tasks());
  ranges.run(context_, [&](std::size_t begin, std::size_t end, std::size_t task) {
    Part& part = parts[task];
    std::vector<std::uint64_t> tokens;
    std::size_t bytes = 0;
    for (std::size_t i = begin; i < end; ++i) bytes += texts[i].size();
    part.ids.reserve(bytes / 2);
    for (std::size_t i = begin; i < end; ++i) {
      features_.add(texts[i], part.ids, tokens);
      part.ends.push_back(part.ids.size());
    }
  });
  if (parts.size() == 1) lists.ids = std::move(parts.front().ids);
  for (Part& part : parts) {
    const std::size_t before = lists.offsets.back();
    if (parts.size() != 1) lists.ids.insert(lists.ids.end(), part.ids.begin(), part.ids.end());
    for (const std::size_t end : part.ends) lists.offsets.push_back(before + end);
    part = {};
  }
}

SOMA_INLINE std::vector<float> FastClassifier::logits_of(const std::vector<float>& mean) const {
  const float* weight = output_.weight.value().data<float>();
  const float* bias = output_.bias.value().data<float>();
  std::vector<float> logits(labels().size());
  for (std::size_t c = 0; c < logits.size(); ++c) {
    float sum = 0;
    for (std::size_t k = 0; k < mean.size(); ++k)
      sum = fused_multiply_add(weight[c * mean.size() + k], mean[k], sum);
    logits[c] = sum + bias[c];
  }
  return logits;
}

SOMA_INLINE Prediction FastClassifier::prediction_of(std::vector<float> logits) const {
  const auto best =
      static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  const float most = logits[best];
  double sum = 0;
  std::vector<double> powers(logits.size());
  for (std::size_t c = 0; c < logits.size(); ++c)
    sum += powers[c] = portable_exp(static_cast<double>(logits[c] - most));
  if (!std::isfinite(sum))
    fail(error_id::model_not_finite, "FastClassifier::predict", "scores of a text",
         std::to_string(sum), "finite numbers: broken weights?");
  for (std::size_t c = 0; c < logits.size(); ++c) logits[c] = static_cast<float>(powers[c] / sum);
  return {labels()[best], static_cast<double>(logits[best]), std::move(logits)};
}

SOMA_INLINE Tensor FastClassifier::used_rows() const {
  const float* table = table_.value().data<float>();
  const std::size_t rows = features_.rows(), width = options_.width;
  std::vector<std::int64_t> used;
  for (std::size_t row = 0; row < rows; ++row)
    if (std::any_of(table + row * width, table + (row + 1) * width,
                    [](float value) { return value != 0; }))
      used.push_back(static_cast<std::int64_t>(row));
  return Tensor::from(context_, std::span<const std::int64_t>(used), Shape{used.size()});
}

SOMA_INLINE Tensor FastClassifier::rows_of_table(std::span<const std::int64_t> rows) const {
  const std::size_t width = options_.width;
  const Tensor result = Tensor::empty(context_, Shape{rows.size(), width});
  const float* table = table_.value().data<float>();
  float* to = result.mutable_data<float>();
  for (const std::int64_t row : rows)
    to = std::copy_n(table + static_cast<std::size_t>(row) * width, width, to);
  return result;
}

SOMA_INLINE void FastClassifier::load_weights(const std::string& folder) {
  constexpr std::string_view operation = "FastClassifier::from_folder";
  const SafetensorsFile file = load_safetensors(context_, folder + "/model.safetensors");
  const Tensor* rows = file.tensors.find("embedding.rows");
  const Tensor* values = file.tensors.find("embedding.weight");
  if (rows == nullptr || values == nullptr)
    fail(error_id::missing_name, operation, "model.safetensors of " + soma::quoted(folder),
         "without \"embedding.rows\" or \"embedding.weight\"", "a model that was saved whole");
  if (rows->dtype() != DType::int64 || values->dtype() != DType::fp32)
    fail(error_id::state_dtype, operation, "embedding of " + soma::quoted(folder),
         rows->describe() + " and " + values->describe(), "int64 and fp32");
  if (rows->rank() != 1 || values->shape() != Shape{rows->elements(), options_.width})
    fail(error_id::state_shape, operation, "embedding of " + soma::quoted(folder),
         rows->describe() + " and " + values->describe(),
         "a number for each row of " + std::to_string(options_.width));
  std::int64_t before = -1;
  for (const std::int64_t row : rows->span<std::int64_t>()) {
    if (row <= before || static_cast<std::uint64_t>(row) >= features_.rows())
      fail(error_id::config_value, operation, "embedding.rows of " + soma::quoted(folder),
           std::to_string(row), "ascending numbers below " + std::to_string(features_.rows()));
    before = row;
  }
  StateDict output;
  for (const StateDict::Entry& entry : file.tensors)
    if (!entry.first.starts_with("embedding.")) output.set(entry.first, entry.second);
  static_cast<void>(copy_into(output, nn::state_dict({parameters_[1], parameters_[2]})));
  float* table = table_.value().mutable_data<float>();
  const float* from = values->data<float>();
  for (const std::int64_t row : rows->span<std::int64_t>()) {
    std::copy_n(from, options_.width, table + static_cast<std::size_t>(row) * options_.width);
    from += options_.width;
  }
}

}  // namespace SOMA_NAMESPACE::models
