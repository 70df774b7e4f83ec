#pragma once
// The functions of bert.hpp.

#include <soma/models/bert.hpp>

#include <soma/autograd/functions.hpp>
#include <soma/base/record.hpp>
#include <soma/nn/pieces.hpp>
#include <soma/nn/transformer.hpp>
#include <soma/ops/checks.hpp>
#include <soma/ops/sequence/settings.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

SOMA_INLINE BertConfig BertConfig::base() { return {}; }

SOMA_INLINE BertConfig BertConfig::minilm() { return {.width = 384, .layers = 6, .inner = 1536}; }

SOMA_INLINE BertConfig BertConfig::small_model() {
  return {.width = 512, .layers = 4, .heads = 8, .inner = 2048};
}

SOMA_INLINE BertConfig BertConfig::tiny() {
  return {.width = 128, .layers = 2, .heads = 2, .inner = 512};
}

SOMA_INLINE double training_flops(const BertConfig& config, const Sequences& sequences) {
  const auto width = static_cast<double>(config.width), inner = static_cast<double>(config.inner);
  const auto rows = static_cast<double>(sequences.used_rows());
  const auto count = static_cast<double>(sequences.count());
  double pairs = 0;
  for (std::size_t i = 0; i < sequences.count(); ++i)
    pairs += static_cast<double>(sequences.used(i)) * static_cast<double>(sequences.used(i));
  // `queries`: the number of queries; `scores`: the number of pairs of a query and a key.
  const auto layer = [&](double queries, double scores) {
    return rows * 4 * width * width + queries * 4 * width * (width + inner) + scores * 4 * width;
  };
  double forward = count * 2 * width * width;
  if (config.layers != 0)
    forward += static_cast<double>(config.layers - 1) * layer(rows, pairs) +
               (config.pooling == Pooling::first ? layer(count, rows) : layer(rows, pairs));
  return 3 * forward;
}

SOMA_INLINE BertModel::BertModel(const nn::Scope& scope, const BertConfig& settings)
    : config(settings),
      words(scope / "embeddings.word_embeddings", settings.vocabulary, settings.width,
            settings.standard_deviation),
      positions(scope / "embeddings.position_embeddings", settings.positions, settings.width,
                settings.standard_deviation),
      types(settings.kind == BertKind::distilbert
                ? nn::Embedding()
                : nn::Embedding(scope / "embeddings.token_type_embeddings", settings.types,
                                settings.width, settings.standard_deviation)),
      norm(scope / "embeddings.LayerNorm", settings.width, settings.epsilon),
      dropout(scope / "embeddings", settings.dropout),
      encoder(scope / "encoder", {.width = settings.width,
                                  .heads = settings.heads,
                                  .inner = settings.inner,
                                  .layers = settings.layers,
                                  .activation = settings.activation,
                                  .dropout = settings.dropout,
                                  .attention_dropout = settings.attention_dropout,
                                  .epsilon = settings.epsilon,
                                  .standard_deviation = settings.standard_deviation,
                                  .attention_output_dropout = settings.kind == BertKind::bert}),
      pooler(scope / "pooler.dense", settings.width, settings.width,
             {.standard_deviation = settings.standard_deviation, .edge = true}) {}

SOMA_INLINE Var BertModel::operator()(Tape& tape, const Var& ids, const Var& token_types) const {
  return encoder(tape, embed(tape, ids, token_types), {.recompute = config.recompute});
}

SOMA_INLINE Var BertModel::first(Tape& tape, const Var& ids, const Var& token_types) const {
  return encoder(tape, embed(tape, ids, token_types),
                 {.recompute = config.recompute, .first_rows = true});
}

SOMA_INLINE Var BertModel::pooled(Tape& tape, const Var& ids, const Var& token_types) const {
  return pool_rows(tape, encoder(tape, embed(tape, ids, token_types), pooled_setting()));
}

SOMA_INLINE Var BertModel::pool_rows(Tape& tape, const Var& x) const {
  if (config.pooling != Pooling::first)
    return tape.apply(*tape.operators().sequence_pool,
                      SequencePoolSetting{.largest = config.pooling == Pooling::max}, {x});
  return encoder.layers.empty() ? sequence_first(tape, x) : x;
}

SOMA_INLINE Var BertModel::run_layer(std::size_t i, Tape& tape, const Var& x) const {
  return encoder.run_layer(i, tape, x, pooled_setting());
}

SOMA_INLINE Var BertModel::pool(Tape& tape, const Var& vectors) const {
  const bool distilled = config.kind == BertKind::distilbert;
  return pooler(tape, vectors, {.activation = distilled ? Activation::relu : Activation::tanh});
}

SOMA_INLINE void BertModel::collect(nn::Collector& collector) const {
  collect_embeddings(collector);
  for (std::size_t i = 0; i < encoder.layers.size(); ++i) collect_layer(collector, i);
  if (config.kind != BertKind::distilbert) collect_pooler(collector);
}

SOMA_INLINE void BertModel::collect_embeddings(nn::Collector& collector) const {
  collector.part("embeddings.word_embeddings", words);
  collector.part("embeddings.position_embeddings", positions);
  collector.part("embeddings.token_type_embeddings", types);
  collector.part("embeddings.LayerNorm", norm);
}

SOMA_INLINE void BertModel::collect_layer(nn::Collector& collector, std::size_t i) const {
  const bool distilled = config.kind == BertKind::distilbert;
  collector.part((distilled ? "transformer.layer." : "encoder.layer.") + std::to_string(i),
                 Layer{encoder.layers[i], config.kind});
}

SOMA_INLINE void BertModel::collect_pooler(nn::Collector& collector) const {
  collector.part("pooler.dense", pooler);
}

SOMA_INLINE void BertModel::describe(Record& identity) const {
  identity.set("heads", std::uint64_t{config.heads});
  identity.set("epsilon", config.epsilon);
  identity.set("activation", static_cast<std::uint64_t>(config.activation));
  identity.set("dropout", config.dropout);
  identity.set("attention_dropout", config.attention_dropout);
  if (config.kind == BertKind::distilbert) identity.set("kind", "distilbert");
  if (config.pooling != Pooling::first)
    identity.set("pooling", pooling_names[static_cast<std::size_t>(config.pooling)]);
}

SOMA_INLINE void BertModel::Layer::collect(nn::Collector& collector) const {
  if (kind == BertKind::distilbert) {
    layer.attention.collect_projections(collector,
                                        {"attention.q_lin", "attention.k_lin", "attention.v_lin"});
    collector.part("attention.out_lin", layer.attention.output);
    collector.part("sa_layer_norm", layer.attention_norm);
    collector.part("ffn.lin1", layer.inner);
    collector.part("ffn.lin2", layer.outer);
    collector.part("output_layer_norm", layer.outer_norm);
    return;
  }
  collector.part("attention.self", Projections{layer.attention});
  collector.part("attention.output.dense", layer.attention.output);
  collector.part("attention.output.LayerNorm", layer.attention_norm);
  collector.part("intermediate.dense", layer.inner);
  collector.part("output.dense", layer.outer);
  collector.part("output.LayerNorm", layer.outer_norm);
}

SOMA_INLINE void BertModel::Projections::collect(nn::Collector& collector) const {
  attention.collect_projections(collector);
}

SOMA_INLINE nn::EncoderSetting BertModel::pooled_setting() const {
  return {.recompute = config.recompute, .first_rows = config.pooling == Pooling::first};
}

SOMA_INLINE Var BertModel::embed(Tape& tape, const Var& ids, const Var& token_types) const {
  if (!ids.defined())
    fail(error_id::operator_inputs, "BertModel", "ids", "not defined", "token ids");
  const Sequences& sequences = ids.sequences();
  soma::detail::check_rank("BertModel", "ids", ids.value(), 1);
  soma::detail::check_sequences("BertModel", ids.value(), sequences);
  // Any other shape might still broadcast.
  if (token_types.defined())
    soma::detail::check_shape("BertModel", "token types", token_types.value(), ids.shape());
  if (sequences.longest() > config.positions)
    fail(error_id::sequence_length, "BertModel", "ids",
         "a sequence of " + std::to_string(sequences.longest()) + " tokens",
         "at most " + std::to_string(config.positions));
  Context& context = tape.context();
  const Shape shape{sequences.rows()};
  const Tensor position = Tensor::empty(context, shape, DType::int32);
  auto* next = position.mutable_data<std::int32_t>();
  for (std::size_t i = 0; i < sequences.count(); ++i)
    for (std::size_t j = 0; j < sequences.length(i); ++j) *next++ = static_cast<std::int32_t>(j);
  const Var place = tape.constant(position, sequences);
  // The additions have the order of the usual implementation: (words + types) + positions. A model
  // without a table of types ignores types.
  Var sum = words(tape, ids);
  if (types.weight.defined()) {
    const Var type = token_types.defined()
                         ? token_types
                         : tape.constant(Tensor::zeros(context, shape, DType::int32), sequences);
    sum = add(tape, sum, types(tape, type));
  }
  sum = add(tape, sum, positions(tape, place));
  const Var embedded = dropout(tape, norm(tape, sum));
  const DType activations = tape.options().activations;
  return embedded.value().dtype() == activations ? embedded : cast(tape, embedded, activations);
}

SOMA_INLINE BertClassifier::BertClassifier(const nn::Scope& scope, const BertConfig& config,
                                           std::size_t labels)
    : bert(scope / name_of(config.kind), config),
      dropout(scope / "classifier", config.classifier_dropout.value_or(config.dropout)),
      classifier(scope / "classifier", config.width, labels,
                 {.standard_deviation = config.standard_deviation, .edge = true}) {}

SOMA_INLINE Var BertClassifier::operator()(Tape& tape, const Var& ids,
                                           const Var& token_types) const {
  Var x = ids;
  for (std::size_t i = 0; i < piece_count(); ++i) x = run_piece(i, tape, x, token_types);
  return x;
}

SOMA_INLINE nn::Pieces BertClassifier::pieces() const {
  nn::Pieces result;
  for (std::size_t i = 0; i < piece_count(); ++i) {
    Parameters own;
    nn::Collector(own).part("", Part{*this, i});
    const bool last = i + 1 == piece_count();
    std::string name = "embeddings";
    if (i != 0) name = last ? "head" : "layer." + std::to_string(i - 1);
    result.push_back(nn::Piece(std::move(name), std::move(own), &run_of, this, i));
  }
  return result;
}

SOMA_INLINE void BertClassifier::collect(nn::Collector& collector) const {
  collector.part(name_of(bert.config.kind), bert);
  if (bert.config.kind == BertKind::distilbert) collector.part("pre_classifier", bert.pooler);
  collector.part("classifier", classifier);
}

SOMA_INLINE void BertClassifier::describe(Record& identity) const {
  bert.describe(identity);
  identity.set("classifier_dropout", dropout.probability);
}

SOMA_INLINE void BertClassifier::Part::OfBert::collect(nn::Collector& collector) const {
  if (piece == 0)
    bert.collect_embeddings(collector);
  else if (piece < last)
    bert.collect_layer(collector, piece - 1);
  else if (bert.config.kind != BertKind::distilbert)
    bert.collect_pooler(collector);
}

SOMA_INLINE void BertClassifier::Part::collect(nn::Collector& collector) const {
  const std::size_t last = model.piece_count() - 1;
  const BertKind kind = model.bert.config.kind;
  collector.part(name_of(kind), OfBert{model.bert, piece, last});
  if (piece != last) return;
  if (kind == BertKind::distilbert) collector.part("pre_classifier", model.bert.pooler);
  collector.part("classifier", model.classifier);
}

SOMA_INLINE Var BertClassifier::run_of(const void* model, std::size_t i, Tape& tape, const Var& x,
                                       const data::Batch& batch) {
  const auto* own = static_cast<const BertClassifier*>(model);
  if (i != 0) return own->run_piece(i, tape, x, {});
  const Sequences& sequences = batch.inputs.sequences;
  return own->run_piece(i, tape, tape.constant(batch.inputs),
                        batch.types.defined() ? tape.constant(batch.types, sequences) : Var());
}

SOMA_INLINE std::size_t BertClassifier::piece_count() const {
  return bert.encoder.layers.size() + 2;
}

SOMA_INLINE Var BertClassifier::run_piece(std::size_t i, Tape& tape, const Var& x,
                                          const Var& token_types) const {
  if (i == 0) return bert.embed(tape, x, token_types);
  if (i + 1 < piece_count()) return bert.run_layer(i - 1, tape, x);
  const Var pooled = dropout(tape, bert.pool(tape, bert.pool_rows(tape, x)));
  return classifier(
      tape, pooled.value().dtype() == DType::fp32 ? pooled : cast(tape, pooled, DType::fp32));
}

}  // namespace SOMA_NAMESPACE::models
