#pragma once
// The functions of text_classifier.hpp.

#include <soma/models/text_classifier.hpp>

#include <soma/base/fixed.hpp>
#include <soma/data/token_source.hpp>
#include <soma/metrics/multi_label.hpp>
#include <soma/metrics/regression.hpp>
#include <soma/models/answering.hpp>
#include <soma/models/prediction.hpp>
#include <soma/models/pretrained.hpp>
#include <soma/models/tokenized_pairs.hpp>
#include <soma/nn/later.hpp>
#include <soma/nn/number_tasks.hpp>
#include <soma/nn/task.hpp>
#include <soma/text/rows/column_names.hpp>
#include <soma/text/tokenizer_json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

SOMA_INLINE TextClassifier::TextClassifier(Context& context, text::Tokenizer tokenizer,
                                           const BertConfig& config,
                                           const TextClassifierOptions& options)
    : context_(context),
      tokenizer_(std::move(tokenizer)),
      kind_(options.kind.value_or(data::LabelKind::one)),
      labels_(kind_ == data::LabelKind::number && options.labels.empty()
                  ? std::vector{detail::default_label(0)}
                  : options.labels),
      class_weights_(options.class_weights),
      max_length_(options.max_length != 0
                      ? options.max_length
                      : (std::min)(tokenizer_.options().model_max_length, config.positions)),
      input_(options.input),
      model_(nn::Scope{context, options.seed, "", options.later},
             checked(config, options, tokenizer_.vocabulary().size()), labels_.size()),
      parameters_(nn::parameters(model_)) {}

SOMA_INLINE TextClassifier TextClassifier::from_pretrained(Context& context,
                                                           std::string_view folder,
                                                           const TextClassifierOptions& options) {
  BertConfigFile file = load_bert_config(folder);
  std::vector<std::string> notes;
  text::Tokenizer tokenizer = text::load_tokenizer(folder, file.tokenizer_class, &notes);
  for (const std::string& note : notes) context.log(LogLevel::warning, note);
  file.config.vocabulary = (std::max)(file.config.vocabulary, tokenizer.vocabulary().size());
  std::vector<SafetensorsFile> weights =
      detail::model_files(context, "load_bert", std::string(folder));
  detail::check_claimed_sizes("load_bert", folder, file.config, weights);
  // Initial values are drawn for parameters that the files lack, and for no others.
  nn::Later from_files;
  TextClassifierOptions known = options;
  if (known.later == nullptr) known.later = &from_files;
  return TextClassifier(context, folder, std::move(tokenizer), file, weights, known,
                        options.later == nullptr ? &from_files : nullptr);
}

SOMA_INLINE void TextClassifier::save(std::string_view folder, TensorSource* weights) const {
  text::TokenizerOptions settings = tokenizer_.options();
  settings.model_max_length = max_length_;
  save_bert(folder, model_,
            {.labels = labels_,
             .pad_token = static_cast<std::uint64_t>(tokenizer_.padding_id()),
             .files = {{"vocab.txt", tokenizer_.vocabulary().to_text()},
                       {"tokenizer.json", text::to_tokenizer_json(tokenizer_)},
                       {"tokenizer_config.json", text::to_tokenizer_config(settings)}},
             .kind = kind_,
             .input = input_,
             .weights = weights});
}

SOMA_INLINE std::vector<Prediction> TextClassifier::predict(
    std::span<const std::string_view> texts, DType activations,
    std::span<const std::string_view> pairs) const {
  return predict(texts, pairs, {.activations = activations});
}

SOMA_INLINE std::vector<Prediction> TextClassifier::predict(std::span<const std::string_view> texts,
                                                            std::span<const std::string_view> pairs,
                                                            const AnswerOptions& options) const {
  const bool paired = pairs.size() == texts.size();
  const auto is_blank = [&](std::size_t i) {
    return text::is_blank(texts[i]) && (!paired || text::is_blank(pairs[i]));
  };
  std::vector<std::string_view> some, some_pairs;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (is_blank(i)) continue;
    some.push_back(texts[i]);
    if (paired) some_pairs.push_back(pairs[i]);
  }
  if (some.size() == texts.size()) return answers(texts, pairs, options);
  std::vector<Prediction> result = answers(some, paired ? some_pairs : pairs, options);
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (is_blank(i))
      result.insert(result.begin() + static_cast<std::ptrdiff_t>(i),
                    no_answer(kind_, labels_.size()));
  return result;
}

SOMA_INLINE std::vector<Prediction> TextClassifier::answers(std::span<const std::string_view> texts,
                                                            std::span<const std::string_view> pairs,
                                                            const AnswerOptions& options) const {
  std::vector<Prediction> result;
  if (texts.empty()) return result;
  const std::size_t width = labels_.size();
  const Tensor logits = Tensor::empty(context_, Shape{texts.size(), width});
  detail::answer_texts(
      "TextClassifier::predict", context_, tokenize(texts, pairs), options, &model_,
      [](const void* model, Tape& tape, const Var& ids, const Var& types) {
        return (*static_cast<const BertClassifier*>(model))(tape, ids, types);
      },
      width, logits.mutable_data<float>());
  check_finite(logits);
  Tape tape(context_, {.record = false, .training = false});
  const Var given = tape.constant(logits);
  const Tensor all =
      (kind_ == data::LabelKind::one ? softmax(tape, given) : sigmoid(tape, given)).value();
  for (std::size_t i = 0; i < texts.size(); ++i)
    result.push_back(
        prediction(logits.span<float>()[i * width], all.span<float>().subspan(i * width, width)));
  return result;
}

SOMA_INLINE Prediction TextClassifier::predict(std::string_view text) const {
  return predict(std::span<const std::string_view>(&text, 1)).front();
}

SOMA_INLINE std::size_t TextClassifier::classes() const {
  return kind_ == data::LabelKind::one ? labels_.size() : 0;
}

SOMA_INLINE auto TextClassifier::forward(Tape& tape, const data::Batch& batch) -> Forward {
  const Var types =
      batch.types.defined() ? tape.constant(batch.types, batch.inputs.sequences) : Var();
  if (kind_ == data::LabelKind::one) nn::check_labels(task_name, batch, classes());
  return loss(tape, model_(tape, tape.constant(batch.inputs), types), batch);
}

SOMA_INLINE nn::Pieces TextClassifier::pieces() const { return model_.pieces(); }

SOMA_INLINE auto TextClassifier::finish(Tape& tape, const Var& logits, const data::Batch& batch)
    -> Forward {
  if (kind_ == data::LabelKind::one) nn::check_labels(task_name, batch, classes());
  return loss(tape, logits, batch);
}

SOMA_INLINE bool TextClassifier::set_recompute(bool wanted) {
  model_.bert.config.recompute = wanted;
  return true;
}

SOMA_INLINE Tensor TextClassifier::labels_of(const data::Batch& batch) const {
  return kind_ == data::LabelKind::several && batch.label_lists.defined()
             ? batch.label_lists.dense(context_, labels_.size())
             : batch.labels;
}

SOMA_INLINE Owned<metrics::Metrics> TextClassifier::metrics() const {
  if (kind_ == data::LabelKind::several)
    return Owned<metrics::Metrics>::make<metrics::MultiLabel>(labels_);
  if (kind_ == data::LabelKind::number)
    return Owned<metrics::Metrics>::make<metrics::Regression>(labels_.size());
  return {};
}

SOMA_INLINE double TextClassifier::loss_count(const data::Batch& batch) const {
  if (kind_ == data::LabelKind::one) return nn::counted_labels(batch, class_weights_);
  return static_cast<double>(batch.inputs.sequences.count() * labels_.size());
}

SOMA_INLINE double TextClassifier::useful_flops(const data::Batch& batch) const {
  return training_flops(config(), batch.inputs.sequences);
}

SOMA_INLINE void TextClassifier::describe(Record& identity) const {
  model_.describe(identity);
  std::string names;
  for (const std::string& label : labels_) names.append(label).push_back('\n');
  identity.set("labels", names);
  nn::describe_class_weights(identity, class_weights_);
  if (kind_ != data::LabelKind::one)
    identity.set("problem_type", detail::problem_types[static_cast<std::size_t>(kind_)]);
}

SOMA_INLINE auto TextClassifier::loss(Tape& tape, const Var& logits, const data::Batch& batch) const
    -> Forward {
  if (kind_ == data::LabelKind::one)
    return {nn::class_loss(tape, logits, batch, class_weights_), logits.value()};
  const Var wanted =
      tape.constant(nn::detail::labels_like(task_name, context_, logits, labels_of(batch),
                                            labels_.size(), batch.inputs.sequences.count()));
  const LossReduction reduction = nn::detail::reduction_of(batch);
  return {kind_ == data::LabelKind::several
              ? binary_cross_entropy_with_logits(tape, logits, wanted, reduction)
              : mse_loss(tape, logits, wanted, reduction),
          logits.value()};
}

SOMA_INLINE TextClassifier::TextClassifier(Context& context, std::string_view folder,
                                           text::Tokenizer tokenizer, const BertConfigFile& file,
                                           const std::vector<SafetensorsFile>& weights,
                                           const TextClassifierOptions& options,
                                           const nn::Later* from_files)
    : TextClassifier(context, std::move(tokenizer), file.config, with_labels(options, file)) {
  const std::vector<std::size_t> indices = indices_of_labels(file.labels);
  const bool new_classifier = indices.empty() || file.other_task || kind_ != file.kind;
  fresh_ = detail::load_bert_files(context, model_, std::string(folder), weights,
                                   {.new_classifier = new_classifier, .later = options.later})
               .fresh;
  if (!new_classifier) order_classes(indices, options.later);
  if (from_files != nullptr) from_files->make(context, parameters_);
  pretrained_ = true;
}

SOMA_INLINE detail::TokenizedPairs TextClassifier::tokenize(std::span<const std::string_view> texts,
                                                            std::span<const std::string_view> pairs,
                                                            const StopFlag* stop) const {
  detail::TokenizedPairs tokens =
      detail::tokenize_pairs(context_, tokenizer_, texts, pairs, max_length_, stop);
  if (config().types < 2 || config().kind == BertKind::distilbert) tokens.types.clear();
  return tokens;
}

SOMA_INLINE TextClassifierOptions TextClassifier::with_labels(TextClassifierOptions options,
                                                              const BertConfigFile& file) {
  if (options.labels.empty() && options.input == InputForm{}) options.input = file.input;
  if (!options.kind) options.kind = options.labels.empty() ? file.kind : data::LabelKind::one;
  if (options.labels.empty() && options.kind == file.kind) options.labels = file.labels;
  return options;
}

SOMA_INLINE void TextClassifier::check_finite(const Tensor& logits) const {
  const std::span<const float> values = logits.span<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      fail(error_id::model_not_finite, "TextClassifier::predict",
           "result for text " + std::to_string(i / labels_.size()) + " and " +
               soma::quoted(labels_[i % labels_.size()]),
           std::isnan(values[i]) ? "NaN" : "infinite", "a finite number: broken weights?");
}

SOMA_INLINE Prediction TextClassifier::prediction(float first_logit,
                                                  std::span<const float> probabilities) const {
  const auto best = static_cast<std::size_t>(
      std::max_element(probabilities.begin(), probabilities.end()) - probabilities.begin());
  Prediction result{labels_[best], double{probabilities[best]}, {}};
  result.kind = kind_;
  if (kind_ == data::LabelKind::number) {
    result.probability = 0;
    result.number = first_logit;
    return result;
  }
  result.probabilities.assign(probabilities.begin(), probabilities.end());
  if (kind_ == data::LabelKind::one) return result;
  std::vector<std::size_t> likely;
  for (std::size_t i = 0; i < probabilities.size(); ++i)
    if (probabilities[i] > 0.5f) likely.push_back(i);
  std::stable_sort(likely.begin(), likely.end(), [&](std::size_t a, std::size_t b) {
    return probabilities[a] > probabilities[b];
  });
  for (const std::size_t i : likely) result.labels.push_back(labels_[i]);
  return result;
}

SOMA_INLINE std::vector<std::size_t> TextClassifier::indices_of_labels(
    const std::vector<std::string>& of_files) const {
  std::vector<std::size_t> result;
  if (of_files.size() != labels_.size()) return result;
  std::map<std::string_view, std::size_t> known;
  bool unnamed = true;
  for (std::size_t i = 0; i < of_files.size(); ++i) {
    known.emplace(of_files[i], i);
    unnamed = unnamed && of_files[i] == detail::default_label(i);
  }
  for (const std::string& label : labels_)
    if (const auto found = known.find(label); found != known.end()) result.push_back(found->second);
  if (result.size() == labels_.size()) return result;
  result.clear();
  // Files without label names have a classifier that fits any labels of the same number.
  for (std::size_t i = 0; i < labels_.size() && unnamed; ++i) result.push_back(i);
  return result;
}

SOMA_INLINE void TextClassifier::order_classes(const std::vector<std::size_t>& indices,
                                               nn::InitialStore* later) {
  if (std::is_sorted(indices.begin(), indices.end())) return;  // as they are
  for (const Parameter& parameter : parameters_) {
    if (!parameter.var.is(model_.classifier.weight) && !parameter.var.is(model_.classifier.bias))
      continue;
    const Tensor to = parameter.value();
    if (!to.defined()) {
      later->order_rows(parameter, indices);
      continue;
    }
    const Tensor from = clone(context_, to);
    for (std::size_t i = 0; i < indices.size(); ++i)
      copy(from.slice(0, indices[i], indices[i] + 1), to.slice(0, i, i + 1));
  }
}

SOMA_INLINE BertConfig TextClassifier::checked(BertConfig config,
                                               const TextClassifierOptions& options,
                                               std::size_t vocabulary) const {
  constexpr std::string_view operation = "TextClassifier";
  const bool fits = kind_ == data::LabelKind::one       ? labels_.size() >= 2
                    : kind_ == data::LabelKind::several ? !labels_.empty()
                                                        : labels_.size() == 1;
  if (!fits)
    fail(error_id::config_value, operation, "labels", std::to_string(labels_.size()),
         kind_ == data::LabelKind::one       ? "at least 2"
         : kind_ == data::LabelKind::several ? "at least 1"
                                             : "1, the name of the number");
  detail::check_labels(operation, labels_);
  nn::check_class_weights(operation, class_weights_, classes());
  if (options.max_length > config.positions)
    fail(error_id::config_value, operation, "max_length", std::to_string(options.max_length),
         "at most the model's positions, " + std::to_string(config.positions));
  // The files may have more embedding rows than the tokenizer has pieces, never fewer.
  config.vocabulary = (std::max)(config.vocabulary, vocabulary);
  config.recompute = options.recompute;
  config.pooling = options.pooling.value_or(config.pooling);
  if (options.dropout >= 0) {
    config.dropout = config.attention_dropout = options.dropout;
    config.classifier_dropout.reset();
  }
  return config;
}

}  // namespace SOMA_NAMESPACE::models
