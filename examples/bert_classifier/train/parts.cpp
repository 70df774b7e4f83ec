#include "bert_classifier/train/parts.hpp"

#include "bert_classifier/train/class_weights.hpp"
#include "training/arguments.hpp"
#include "training/trainer_options.hpp"

#include <soma/data/content_hash.hpp>
#include <soma/nn/freeze.hpp>
#include <soma/soma.hpp>
#include <soma/text/stream_source.hpp>
#include <soma/text/train_vocabulary.hpp>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using soma::models::TextClassifier;

// Made-up text is never read twice, because there is always more. It has many names, and a small
// vocabulary has the pieces of new names.
std::size_t vocabulary_size(const TrainOptions& options) {
  if (options.vocab_size != 0) return options.vocab_size;
  return options.data.data.empty() ? 1000 : 8000;
}
std::uint64_t epochs(const TrainOptions& options) {
  if (options.epochs != 0) return options.epochs;
  return options.data.data.empty() || !options.pretrained.empty() ? 1 : 6;
}

std::size_t max_length(const TrainOptions& options) {
  constexpr std::size_t usual = 128;
  if (options.max_length != 0) return options.max_length;
  if (options.pretrained.empty()) return usual;
  return (std::min)(usual, soma::models::load_bert_config(options.pretrained).config.positions);
}

std::optional<soma::models::Pooling> pooling(const TrainOptions& options) {
  using soma::models::pooling_names;
  if (options.pooling.empty()) return {};
  const auto* const found =
      std::find(std::begin(pooling_names), std::end(pooling_names), options.pooling);
  return static_cast<soma::models::Pooling>(found - std::begin(pooling_names));
}

// Freezes the embeddings and the first layers.
void freeze_layers(const TextClassifier& model, std::size_t count) {
  if (count == 0) return;
  const std::size_t layers = model.config().layers;
  if (count > layers)
    throw UsageError("--freeze-layers: " + std::to_string(count) + " of a model with " +
                     std::to_string(layers) + " layers");
  const bool distilled = model.config().kind == soma::models::BertKind::distilbert;
  soma::nn::freeze(model.parameters(), "*bert.embeddings.*");
  for (std::size_t i = 0; i < count; ++i)
    soma::nn::freeze(model.parameters(), std::string(distilled ? "*.transformer" : "*.encoder") +
                                             ".layer." + std::to_string(i) + ".*");
}

}  // namespace

std::unique_ptr<TextClassifier> make_model(soma::Context& context, const TrainOptions& options,
                                           const TrainingRows& rows, soma::nn::Later* later) {
  const soma::models::TextClassifierOptions settings{.labels = rows.labels,
                                                     .max_length = max_length(options),
                                                     .seed = options.seed,
                                                     .dropout = options.dropout,
                                                     .recompute = options.recompute,
                                                     .pooling = pooling(options),
                                                     .kind = label_kind(options.data),
                                                     .class_weights = class_weights(options, rows),
                                                     .input = rows.input,
                                                     .later = later};
  if (!options.pretrained.empty()) {
    std::unique_ptr<TextClassifier> model(
        new TextClassifier(TextClassifier::from_pretrained(context, options.pretrained, settings)));
    freeze_layers(*model, options.freeze_layers);
    if (!model->fresh().empty() && !options.quiet)
      std::cerr << "new tensors, which the files do not have: " << model->fresh().size()
                << ", such as " << model->fresh().front() << '\n';
    return model;
  }
  soma::text::VocabularyTrainer trainer;
  for_each_text(rows, [&](std::string_view text) { trainer.add(text); });
  soma::text::Tokenizer tokenizer(
      trainer.train({.size = vocabulary_size(options), .stop = &stop_requested}), {});
  using soma::models::BertConfig;
  BertConfig config = options.preset == "base"     ? BertConfig::base()
                      : options.preset == "minilm" ? BertConfig::minilm()
                      : options.preset == "small"  ? BertConfig::small()
                                                   : BertConfig::tiny();
  config.vocabulary = tokenizer.vocabulary().size();
  // Models that are pretrained on much text use 0.02 and 0.1. A small model that sees little text
  // starts faster from larger weights.
  config.standard_deviation = 0.05f;
  if (options.dropout < 0) config.dropout = config.attention_dropout = 0;
  return std::make_unique<TextClassifier>(context, std::move(tokenizer), config, settings);
}

soma::train::TrainerOptions trainer_options(const TrainOptions& options, Launch& launch) {
  soma::train::TrainerOptions result = common_trainer_options(options, launch);
  result.epochs = epochs(options);
  return result;
}

std::unique_ptr<soma::data::BatchSource> make_source(soma::Context& context,
                                                     const TextClassifier& model,
                                                     const TrainingRows& rows,
                                                     const soma::data::BatchOptions& batching) {
  if (!rows.stream) return model.batches(rows.train, batching, &stop_requested);
  const auto encode = [&model](std::string_view text, std::vector<std::int32_t>& ids) {
    model.tokenizer().encode_ids(text, model.max_length(), ids);
  };
  soma::text::EncodePair encode_pair;
  if (!rows.stream->rows.pair_column.empty())
    encode_pair = [&model](std::string_view text, std::string_view pair,
                           std::vector<std::int32_t>& ids, std::vector<std::int32_t>& types) {
      const soma::text::Encoding both =
          model.tokenizer().encode(text, pair, {.max_length = model.max_length()});
      ids.insert(ids.end(), both.ids.begin(), both.ids.end());
      types.insert(types.end(), both.types.begin(), both.types.end());
    };
  soma::data::ContentHash tokenizer;
  tokenizer.add_text(soma::text::to_tokenizer_json(model.tokenizer()));
  return std::make_unique<soma::text::StreamSource>(
      context, rows.stream->file, rows.labels, encode,
      soma::text::StreamOptions{.rows = rows.stream->rows,
                                .batches = batching,
                                .buffer_rows = rows.stream->buffer_rows,
                                .max_tokens = model.max_length(),
                                .settings = tokenizer.value(),
                                .encode_pair = encode_pair});
}
