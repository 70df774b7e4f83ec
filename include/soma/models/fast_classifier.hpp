#pragma once
// FastClassifier: a text classifier that trains in seconds and answers in microseconds. It hashes
// words and pairs of words, takes the mean of their rows in a table, and applies one linear layer.
// It is a task that trainers train, with optim::RowAdagrad. (The model of "Bag of Tricks for
// Efficient Text Classification", arXiv 1607.01759, with row-wise Adagrad instead of plain SGD.)
//
// The table starts with zeros: a row that training never touched adds nothing. fit() makes a
// classifier of another kind from rows in memory, more accurate and faster: a linear one of counted
// features (fast_linear.hpp), which no trainer trains further. Needs add_sparse(context)
// (soma/sparse.hpp).

#include <soma/autograd/embedding_bag.hpp>
#include <soma/data/token_source.hpp>
#include <soma/io/record_json.hpp>
#include <soma/kernels/sparse/args.hpp>
#include <soma/models/fast_linear.hpp>
#include <soma/models/fast_options.hpp>
#include <soma/models/text_classifier.hpp>
#include <soma/nn/layers.hpp>
#include <soma/nn/task.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/ops/support.hpp>

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

class FastClassifier final : public nn::Task {
 public:
  // Errors models.config_value (labels as of TextClassifier, a width of 0 or above 4096),
  // text.features, context.no_sparse, memory.exhausted (before anything is written).
  FastClassifier(Context& context, const FastOptions& options);

  // A linear classifier of counted features, with settings by rules. Rows have members `text` and
  // `label`; with `kind` several, `labels`. Its labels may lack rows: such a class is never
  // predicted. Errors as of FastLinear, and data.labels (a label that is no class).
  template <class LabelledTexts>
  static FastClassifier fit(Context& context, const LabelledTexts& rows,
                            std::vector<std::string> labels, const FastFitOptions& options = {},
                            data::LabelKind kind = data::LabelKind::one,
                            const StopFlag* stop = nullptr) {
    std::vector<std::string_view> texts;
    std::vector<std::int64_t> begins{0};
    std::vector<std::int32_t> numbers;
    for (const auto& row : rows) {
      texts.push_back(row.text);
      if (kind == data::LabelKind::one)
        numbers.push_back(class_of(row.label, texts.size() - 1, labels.size()));
      if constexpr (requires { row.labels.begin(); })
        if (kind == data::LabelKind::several)
          for (const std::int32_t label : row.labels)
            numbers.push_back(class_of(label, texts.size() - 1, labels.size()));
      begins.push_back(static_cast<std::int64_t>(numbers.size()));
    }
    const FastLinearData data{.texts = texts,
                              .label_begins = begins,
                              .labels = numbers,
                              .classes = labels.size(),
                              .kind = kind};
    FastOptions own{.labels = std::move(labels), .seed = options.seed};
    return FastClassifier(context, own, FastLinear(context, data, options, stop));
  }
  // A classifier that fit() made, or nullptr.
  const FastLinear* linear() const;

  // Reads a folder that save() wrote, of either kind. Errors file.read, record.json,
  // record.missing, record.type, models.config_type (a folder of another model), text.features
  // (hashes of another version), models.config_value, state.missing_name, state.extra_name,
  // state.shape, state.dtype.
  static FastClassifier from_folder(Context& context, std::string_view folder);

  // Writes config.json, and model.safetensors with the table's rows that are not zero, or with what
  // `options` keep of a classifier that fit() made. An earlier model of that name is replaced once
  // the new one is complete. Errors file.write, models.config_value (keep is out of range, or fit()
  // did not make the classifier).
  void save(std::string_view folder, const FastSaveOptions& options = {}) const;
  void set_input(const InputForm& input);

  const std::vector<std::string>& labels() const { return options_.labels; }
  data::LabelKind label_kind() const;
  const FastOptions& options() const { return options_; }
  const text::HashedFeatures& features() const { return features_; }

  // Batches of rows with members `text` and `label` (the index of a class), hashed on all threads.
  // Errors data.labels (a label that is no class), and those of TokenSource.
  template <class LabelledTexts>
  std::unique_ptr<data::TokenSource> batches(const LabelledTexts& rows,
                                             const data::BatchOptions& options = {}) const {
    std::vector<std::string_view> texts;
    data::TokenLists lists;
    for (const auto& row : rows) {
      if (row.label < 0 || static_cast<std::size_t>(row.label) >= labels().size())
        fail(error_id::data_labels, "FastClassifier::batches",
             "label of row " + std::to_string(texts.size()), std::to_string(row.label),
             "a class below " + std::to_string(labels().size()));
      texts.push_back(row.text);
      lists.labels.push_back(row.label);
    }
    hash_all(texts, lists);
    return std::make_unique<data::TokenSource>(context_, std::move(lists), options);
  }

  // The class of a text, without a tape: microseconds. A text of nothing but white space has
  // no_answer(). Thread-safe while the model is not trained. Error models.not_finite.
  Prediction predict(std::string_view text) const;
  std::vector<Prediction> predict(std::span<const std::string_view> texts) const;

  const Parameters& parameters() const override { return parameters_; }
  SOMA_INLINE std::size_t classes() const override;
  double learning_rate() const override { return fast_learning_rate; }
  // Errors nn.no_parameters (a classifier that fit() made), train.label (a batch without labels).
  SOMA_INLINE Forward forward(Tape& tape, const data::Batch& batch) override;
  bool takes_parts() const override { return true; }
  SOMA_INLINE double loss_count(const data::Batch& batch) const override;
  SOMA_INLINE void describe(Record& identity) const override;

 private:
  FastClassifier(Context& context, const FastOptions& options, FastLinear linear);
  FastClassifier(Context& context, const std::string& folder);
  static std::int32_t class_of(std::int64_t label, std::size_t row, std::size_t classes);
  static FastClassifier linear_from_folder(Context& context, const std::string& folder,
                                           const Record& record);
  static const FastOptions& checked(const Context& context, const FastOptions& options);

  // Divides texts among threads by their bytes; the lists have the order of the texts.
  void hash_all(const std::vector<std::string_view>& texts, data::TokenLists& lists) const;

  // The same order as in the linear layer: products are added in order, then the bias.
  std::vector<float> logits_of(const std::vector<float>& mean) const;
  Prediction prediction_of(std::vector<float> logits) const;
  Prediction predict_linear(std::string_view text) const;

  // The ids of the rows that are not all zero, ascending.
  Tensor used_rows() const;
  Tensor rows_of_table(std::span<const std::int64_t> rows) const;

  void load_weights(const std::string& folder);

  Context& context_;
  FastOptions options_;
  text::HashedFeatures features_;
  Var table_;  // [2^bits, width]
  nn::Linear output_;
  Parameters parameters_;
  std::unique_ptr<FastLinear> linear_;  // made by fit(): there is no table and no layer
};

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/fast_classifier.ipp>
#endif
