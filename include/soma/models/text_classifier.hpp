#pragma once
// TextClassifier: BERT with its tokenizer and the names of its classes. It maps a text to a label,
// to any number of labels or to a number, and reads and writes folders of the usual files. It is a
// task that trainers train.

#include <soma/base/fixed.hpp>
#include <soma/data/token_source.hpp>
#include <soma/metrics/multi_label.hpp>
#include <soma/metrics/regression.hpp>
#include <soma/models/answering.hpp>
#include <soma/models/prediction.hpp>
#include <soma/models/pretrained.hpp>
#include <soma/models/tokenized_pairs.hpp>
#include <soma/nn/number_tasks.hpp>
#include <soma/nn/task.hpp>
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

namespace SOMA_NAMESPACE::nn {

class Later;  // nn/later.hpp

}  // namespace SOMA_NAMESPACE::nn

namespace SOMA_NAMESPACE::models {

struct TextClassifierOptions {
  std::vector<std::string> labels{};  // class names; empty: from_pretrained takes the files' names
  // The most tokens of a text; longer texts are cut. 0: the tokenizer's limit, at most the model's
  // positions.
  std::size_t max_length = 0;
  std::uint64_t seed = 0;  // for random initial values
  float dropout = -1;      // everywhere; below 0: the configuration's
  bool recompute = false;  // BertConfig::recompute
  // Not set: the configuration's, which is first unless a folder says otherwise. Other libraries
  // know first only: their answers of a model with another pooling differ.
  std::optional<Pooling> pooling{};
  // The kind of a text's label. Not set: one label, or with empty `labels` the files' kind. A
  // number has at most one label, which is its name.
  std::optional<data::LabelKind> kind{};
  // Weights of the classes in the loss (nn/class_weights.hpp); empty: equal weights. Only for one
  // label for each text.
  std::vector<float> class_weights{};
  // The form of the training rows, which save() writes; without labels from_pretrained takes the
  // files'.
  InputForm input{};
  // nn::Scope::later: a stage of a pipeline makes only its own weights, from initial values or from
  // files.
  nn::InitialStore* later = nullptr;
};

class TextClassifier final : public nn::Task {
 public:
  // A classifier with initial weights. The configuration takes the tokenizer's vocabulary. Errors
  // models.config_value (fewer than two labels for kind one, no label for several, more than one
  // name for a number; a label that is empty, contains a tab or an end of line, or appears twice;
  // max_length beyond the positions), operator.value (class_weights), and those of BertModel.
  TextClassifier(Context& context, text::Tokenizer tokenizer, const BertConfig& config,
                 const TextClassifierOptions& options);

  // Reads a folder with config.json, model.safetensors and the tokenizer's files. The classifier is
  // new, with initial values, if the labels differ from the folder's, or if the model has no
  // classifier or one of another task: see fresh(). The same labels in another order keep their
  // weights. Errors of load_bert_config, load_bert and load_tokenizer; models.config_value: too few
  // weights for the model.
  static TextClassifier from_pretrained(Context& context, std::string_view folder,
                                        const TextClassifierOptions& options = {});

  // Writes a folder that Python's usual libraries load: config.json, model.safetensors, vocab.txt,
  // tokenizer.json, tokenizer_config.json. An earlier model of that name is replaced once the new
  // one is complete; a folder with any other file is refused. `weights`: the weights of all stages
  // if each stage is on a rank of its own (PipelineTrainer::on_first). Errors of save_bert.
  void save(std::string_view folder, TensorSource* weights = nullptr) const;

  const std::vector<std::string>& labels() const { return labels_; }
  data::LabelKind kind() const { return kind_; }
  const text::Tokenizer& tokenizer() const { return tokenizer_; }
  const BertClassifier& model() const { return model_; }
  const BertConfig& config() const { return model_.bert.config; }
  std::size_t max_length() const { return max_length_; }
  const InputForm& input() const { return input_; }
  // Parameters that did not come from the files and have initial values.
  const std::vector<std::string>& fresh() const { return fresh_; }

  // Batches of rows with members `text` and, depending on kind(), `label` (the index of a class),
  // `labels` (a list of indices) or `number`, and optionally `pair`, the second text, in all rows
  // or in none. Texts are tokenized on all threads. Errors data.labels (a label that is no class; a
  // second text in some rows only), runtime.stopped, and those of TokenSource.
  template <class LabelledTexts>
  std::unique_ptr<data::TokenSource> batches(const LabelledTexts& rows,
                                             const data::BatchOptions& options = {},
                                             const StopFlag* stop = nullptr) const {
    std::vector<std::string_view> texts, pairs;
    data::TokenLists lists;
    for (const auto& row : rows) {
      add_labels(row, texts.size(), lists);
      texts.push_back(row.text);
      if constexpr (requires { row.pair; })
        if (!row.pair.empty()) pairs.push_back(row.pair);
    }
    detail::TokenizedPairs tokens = tokenize(texts, pairs, stop);
    lists.ids = std::move(tokens.ids);
    lists.types = std::move(tokens.types);
    lists.offsets = std::move(tokens.offsets);
    return std::make_unique<data::TokenSource>(context_, std::move(lists), options);
  }

  // The predictions for texts, computed as one batch unless options.most_tokens cuts them. `pairs`:
  // the second text of each, for a model that was trained on pairs. A text of nothing but white
  // space, like its second text, has no_answer(). Errors data.labels (not one for each text),
  // models.not_finite (the model gives NaN or infinity), models.predictor (options.most_tokens).
  std::vector<Prediction> predict(std::span<const std::string_view> texts,
                                  DType activations = DType::fp32,
                                  std::span<const std::string_view> pairs = {}) const;
  std::vector<Prediction> predict(std::span<const std::string_view> texts,
                                  std::span<const std::string_view> pairs,
                                  const AnswerOptions& options) const;
  Prediction predict(std::string_view text) const;

  const Parameters& parameters() const override { return parameters_; }
  SOMA_INLINE std::size_t classes() const override;
  // For weights from files, and for initial weights.
  double learning_rate() const override { return pretrained_ ? 1e-4 : 5e-4; }
  SOMA_INLINE Forward forward(Tape& tape, const data::Batch& batch) override;
  SOMA_INLINE nn::Pieces pieces() const override;
  SOMA_INLINE Forward finish(Tape& tape, const Var& logits, const data::Batch& batch) override;
  // With several labels: 1 for the labels of a text, 0 for others.
  SOMA_INLINE Tensor labels_of(const data::Batch& batch) const override;
  SOMA_INLINE Owned<metrics::Metrics> metrics() const override;
  bool takes_parts() const override { return true; }
  bool recomputes() const override { return model_.bert.config.recompute; }
  SOMA_INLINE bool set_recompute(bool wanted) override;
  SOMA_INLINE double loss_count(const data::Batch& batch) const override;
  SOMA_INLINE double useful_flops(const data::Batch& batch) const override;
  SOMA_INLINE void describe(Record& identity) const override;

 private:
  // The loss with checked labels.
  Forward loss(Tape& tape, const Var& logits, const data::Batch& batch) const;
  static constexpr std::string_view task_name = "TextClassifier";

  TextClassifier(Context& context, std::string_view folder, text::Tokenizer tokenizer,
                 const BertConfigFile& file, const std::vector<SafetensorsFile>& weights,
                 const TextClassifierOptions& options, const nn::Later* from_files);
  // predict() for texts that are not blank.
  std::vector<Prediction> answers(std::span<const std::string_view> texts,
                                  std::span<const std::string_view> pairs,
                                  const AnswerOptions& options) const;
  // Types are left out if the model has no type for a second text.
  detail::TokenizedPairs tokenize(std::span<const std::string_view> texts,
                                  std::span<const std::string_view> pairs,
                                  const StopFlag* stop = nullptr) const;
  // Takes the files' kind and labels if the options leave them open. Labels of another kind do not
  // count.
  static TextClassifierOptions with_labels(TextClassifierOptions options,
                                           const BertConfigFile& file);

  // Adds a row's label to the list of its kind. Error data.labels.
  template <class Row>
  void add_labels(const Row& row, std::size_t number, data::TokenLists& lists) const {
    const auto check = [&](auto label) {
      if (label < 0 || static_cast<std::size_t>(label) >= labels_.size())
        fail(error_id::data_labels, "TextClassifier::batches",
             "label of row " + std::to_string(number), std::to_string(label),
             "a class below " + std::to_string(labels_.size()));
    };
    if (kind_ == data::LabelKind::one) {
      check(row.label);
      return lists.labels.push_back(row.label);
    }
    if constexpr (requires { row.labels.size(), row.number; }) {
      if (kind_ == data::LabelKind::number) return lists.numbers.push_back(row.number);
      for (const auto label : row.labels) check(label);
      return lists.label_lists.add(row.labels);
    } else {
      fail(error_id::data_labels, "TextClassifier::batches", "rows", "ones with a label each",
           "members `labels` and `number`");
    }
  }
  void check_finite(const Tensor& logits) const;
  Prediction prediction(float first_logit, std::span<const float> probabilities) const;
  // For each class, its index in files with these labels; empty if the files have other classes.
  std::vector<std::size_t> indices_of_labels(const std::vector<std::string>& of_files) const;
  // Class i takes the weights of class indices[i]; for postponed parameters, when they are made.
  void order_classes(const std::vector<std::size_t>& indices, nn::InitialStore* later);
  BertConfig checked(BertConfig config, const TextClassifierOptions& options,
                     std::size_t vocabulary) const;

  Context& context_;
  text::Tokenizer tokenizer_;
  data::LabelKind kind_;
  std::vector<std::string> labels_;
  std::vector<float> class_weights_;
  std::size_t max_length_;
  InputForm input_;
  BertClassifier model_;
  Parameters parameters_;
  std::vector<std::string> fresh_;
  bool pretrained_ = false;
};

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/text_classifier.ipp>
#endif
