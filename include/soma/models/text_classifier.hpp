#pragma once
// TextClassifier: BERT with its tokenizer and the names of its classes: from text to a label, from
// a folder of the usual files and back. A task that trainers train.

#include <soma/base/fixed.hpp>
#include <soma/data/token_source.hpp>
#include <soma/models/pretrained.hpp>
#include <soma/nn/task.hpp>
#include <soma/text/tokenizer_json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace soma::models {

struct Prediction {
  std::string label;
  double probability = 0;            // of that label
  std::vector<float> probabilities;  // of each class
};

// "positive	0.9876"
inline std::string to_string(const Prediction& prediction) {
  return prediction.label + "\t" + soma::detail::fixed(prediction.probability, 4);
}
template <class Stream>
requires requires(Stream& stream, const std::string& text) { stream << text; }
Stream& operator<<(Stream& stream, const Prediction& prediction) {
  stream << to_string(prediction);
  return stream;
}

struct TextClassifierOptions {
  std::vector<std::string> labels{};  // of the classes; from_pretrained: empty takes the files'
  // Tokens that a text is cut to; 0: what the tokenizer says, at most the model's positions.
  std::size_t max_length = 0;
  std::uint64_t seed = 0;  // of what is initialised
  float dropout = -1;      // everywhere; below 0: what the configuration says
  bool recompute = false;  // BertConfig::recompute
  // nn::Scope::later, of a classifier with initial weights: a stage of a pipeline makes its own.
  nn::InitialStore* later = nullptr;
};

class TextClassifier final : public nn::Task {
 public:
  // With initial weights. The configuration's vocabulary becomes the tokenizer's. Errors
  // models.config_value (fewer than two labels, one that is empty, has a tab or a line's end in it
  // or is there twice, max_length beyond the positions, and those of BertModel).
  TextClassifier(Context& context, text::Tokenizer tokenizer, const BertConfig& config,
                 const TextClassifierOptions& options)
      : context_(context),
        tokenizer_(std::move(tokenizer)),
        labels_(options.labels),
        max_length_(options.max_length != 0
                        ? options.max_length
                        : (std::min)(tokenizer_.options().model_max_length, config.positions)),
        model_(nn::Scope{context, options.seed, "", options.later},
               checked(config, options, tokenizer_.vocabulary().size()), labels_.size()),
        parameters_(nn::parameters(model_)) {}

  // From a folder with config.json, model.safetensors and the tokenizer's files. Other labels than
  // the folder's get a classifier of their own, as does a model without one or with one of another
  // task: see fresh(). The same labels in another order keep theirs. Errors of load_bert_config,
  // load_bert and load_tokenizer; models.config_value: a model for which there are too few weights,
  // or, without labels in the options, one that does not give a text one label.
  static TextClassifier from_pretrained(Context& context, std::string_view folder,
                                        const TextClassifierOptions& options = {}) {
    if (options.later != nullptr)
      fail(error_id::config_value, "TextClassifier", "later", "given",
           "none: weights come from files");
    BertConfigFile file = load_bert_config(folder);
    text::Tokenizer tokenizer = text::load_tokenizer(folder);
    file.config.vocabulary = (std::max)(file.config.vocabulary, tokenizer.vocabulary().size());
    std::vector<SafetensorsFile> weights =
        detail::model_files(context, "load_bert", std::string(folder));
    detail::check_claimed_sizes("load_bert", folder, file.config, weights);
    return TextClassifier(context, folder, std::move(tokenizer), file, weights, options);
  }

  // What Python's usual libraries load: config.json, model.safetensors, vocab.txt, tokenizer.json,
  // tokenizer_config.json. An earlier model of that name is replaced once the new one is whole; a
  // folder that holds anything else is refused. Errors of save_bert.
  void save(std::string_view folder) const {
    text::TokenizerOptions settings = tokenizer_.options();
    settings.model_max_length = max_length_;
    save_bert(folder, model_,
              {.labels = labels_,
               .pad_token = static_cast<std::uint64_t>(tokenizer_.padding_id()),
               .files = {{"vocab.txt", tokenizer_.vocabulary().to_text()},
                         {"tokenizer.json", text::to_tokenizer_json(tokenizer_)},
                         {"tokenizer_config.json", text::to_tokenizer_config(settings)}}});
  }

  const std::vector<std::string>& labels() const { return labels_; }
  const text::Tokenizer& tokenizer() const { return tokenizer_; }
  const BertClassifier& model() const { return model_; }
  const BertConfig& config() const { return model_.bert.config; }
  std::size_t max_length() const { return max_length_; }
  // Parameters that were not taken from the files, and that are as initialised.
  const std::vector<std::string>& fresh() const { return fresh_; }

  // Batches of rows that have members `text` and `label` (the number of a class), tokenized on all
  // threads. Errors data.labels (a label that is no class), and those of TokenSource.
  template <class LabelledTexts>
  std::unique_ptr<data::TokenSource> batches(const LabelledTexts& rows,
                                             const data::BatchOptions& options = {}) const {
    std::vector<std::string_view> texts;
    data::TokenLists lists;
    for (const auto& row : rows) {
      if (row.label < 0 || static_cast<std::size_t>(row.label) >= labels_.size())
        fail(error_id::data_labels, "TextClassifier::batches",
             "label of row " + std::to_string(texts.size()), std::to_string(row.label),
             "a class below " + std::to_string(labels_.size()));
      texts.push_back(row.text);
      lists.labels.push_back(row.label);
    }
    text::TokenizedTexts tokens =
        tokenizer_.encode_all(context_, std::span<const std::string_view>(texts), max_length_);
    lists.ids = std::move(tokens.ids);
    lists.offsets = std::move(tokens.offsets);
    return std::make_unique<data::TokenSource>(context_, std::move(lists), options);
  }

  // What the classes of texts are; all of them are one batch.
  std::vector<Prediction> predict(std::span<const std::string_view> texts,
                                  DType activations = DType::fp32) const {
    std::vector<Prediction> result;
    if (texts.empty()) return result;
    const text::TokenizedTexts tokens = tokenizer_.encode_all(context_, texts, max_length_);
    std::vector<std::size_t> lengths;
    for (std::size_t i = 0; i < texts.size(); ++i)
      lengths.push_back(tokens.offsets[i + 1] - tokens.offsets[i]);
    Tape tape(context_, {.record = false, .training = false, .activations = activations});
    const Ragged ids{
        Tensor::from(context_, std::span<const std::int32_t>(tokens.ids), Shape{tokens.ids.size()}),
        Sequences::from_lengths(context_, lengths)};
    const Tensor logits = model_(tape, tape.constant(ids)).value();
    const Tensor all = softmax(tape, tape.constant(logits)).value();
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::span<const float> row =
          all.span<float>().subspan(i * labels_.size(), labels_.size());
      const auto best =
          static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
      result.push_back({labels_[best], double{row[best]}, {row.begin(), row.end()}});
    }
    return result;
  }
  Prediction predict(std::string_view text) const {
    return predict(std::span<const std::string_view>(&text, 1)).front();
  }

  const Parameters& parameters() const override { return parameters_; }
  std::size_t classes() const override { return labels_.size(); }
  // For weights from files, and for initial ones.
  double learning_rate() const override { return pretrained_ ? 1e-4 : 5e-4; }
  Forward forward(Tape& tape, const data::Batch& batch) override {
    const Var types =
        batch.types.defined() ? tape.constant(batch.types, batch.inputs.sequences) : Var();
    nn::check_labels("TextClassifier", batch, classes());
    return finish(tape, model_(tape, tape.constant(batch.inputs), types), batch);
  }
  nn::Pieces pieces() const override { return model_.pieces(); }
  Forward finish(Tape& tape, const Var& logits, const data::Batch& batch) override {
    nn::check_labels("TextClassifier", batch, classes());
    return {cross_entropy(tape, logits, tape.constant(batch.labels), nn::loss_of(batch)),
            logits.value()};
  }
  bool takes_parts() const override { return true; }
  double loss_count(const data::Batch& batch) const override { return nn::counted_labels(batch); }
  double useful_flops(const data::Batch& batch) const override {
    return training_flops(config(), batch.inputs.sequences);
  }
  void describe(Record& identity) const override {
    model_.describe(identity);
    std::string names;
    for (const std::string& label : labels_) names.append(label).push_back('\n');
    identity.set("labels", names);
  }

 private:
  TextClassifier(Context& context, std::string_view folder, text::Tokenizer tokenizer,
                 const BertConfigFile& file, const std::vector<SafetensorsFile>& weights,
                 const TextClassifierOptions& options)
      : TextClassifier(context, std::move(tokenizer), file.config,
                       with_labels(options, file, folder)) {
    const std::vector<std::size_t> places = places_of_labels(file.labels);
    const bool new_classifier = places.empty() || file.other_task || !one_label(file);
    fresh_ = detail::load_bert_files(context, model_, std::string(folder), weights,
                                     {.new_classifier = new_classifier})
                 .fresh;
    if (!new_classifier) order_classes(places);
    pretrained_ = true;
  }
  static bool one_label(const BertConfigFile& file) {
    return file.problem_type == BertConfigFile{}.problem_type;
  }
  static TextClassifierOptions with_labels(TextClassifierOptions options,
                                           const BertConfigFile& file, std::string_view folder) {
    if (!options.labels.empty()) return options;
    if (!one_label(file))
      fail(error_id::config_value, "TextClassifier",
           "problem_type of the config.json of " + soma::quoted(folder),
           soma::quoted(file.problem_type),
           "\"single_label_classification\", or labels of a new classifier");
    options.labels = file.labels;
    return options;
  }
  // Of each class its number in files with these labels; empty: they have other classes.
  std::vector<std::size_t> places_of_labels(const std::vector<std::string>& of_files) const {
    std::vector<std::size_t> result;
    if (of_files.size() != labels_.size()) return result;
    std::map<std::string_view, std::size_t> known;
    bool unnamed = true;
    for (std::size_t i = 0; i < of_files.size(); ++i) {
      known.emplace(of_files[i], i);
      unnamed = unnamed && of_files[i] == detail::default_label(i);
    }
    for (const std::string& label : labels_)
      if (const auto found = known.find(label); found != known.end())
        result.push_back(found->second);
    if (result.size() == labels_.size()) return result;
    result.clear();
    // Files without names of their own have a classifier for whoever has as many labels.
    for (std::size_t i = 0; i < labels_.size() && unnamed; ++i) result.push_back(i);
    return result;
  }
  // Class i becomes what class places[i] was.
  void order_classes(const std::vector<std::size_t>& places) {
    for (const Var& parameter : {model_.classifier.weight, model_.classifier.bias}) {
      const Tensor to = parameter.value(), from = clone(context_, to);
      for (std::size_t i = 0; i < places.size(); ++i)
        copy(from.slice(0, places[i], places[i] + 1), to.slice(0, i, i + 1));
    }
  }
  BertConfig checked(BertConfig config, const TextClassifierOptions& options,
                     std::size_t vocabulary) const {
    constexpr std::string_view operation = "TextClassifier";
    if (labels_.size() < 2)
      fail(error_id::config_value, operation, "labels", std::to_string(labels_.size()),
           "at least 2");
    detail::check_labels(operation, labels_);
    if (options.max_length > config.positions)
      fail(error_id::config_value, operation, "max_length", std::to_string(options.max_length),
           "at most the model's positions, " + std::to_string(config.positions));
    // Weights of files may have more rows than the tokenizer has pieces, never fewer.
    config.vocabulary = (std::max)(config.vocabulary, vocabulary);
    config.recompute = options.recompute;
    if (options.dropout >= 0) {
      config.dropout = config.attention_dropout = options.dropout;
      config.classifier_dropout.reset();
    }
    return config;
  }

  Context& context_;
  text::Tokenizer tokenizer_;
  std::vector<std::string> labels_;
  std::size_t max_length_;
  BertClassifier model_;
  Parameters parameters_;
  std::vector<std::string> fresh_;
  bool pretrained_ = false;
};

}  // namespace soma::models
