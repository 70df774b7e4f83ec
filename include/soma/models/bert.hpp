#pragma once
// BERT (arXiv 1810.04805) over ragged batches: embeddings, post-norm encoder, pooler, and a
// classifier on top. Parameters have the names of the usual checkpoints.

#include <soma/nn/transformer.hpp>
#include <soma/ops/checks.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace soma::models {

struct BertConfig {
  std::size_t vocabulary = 30522, width = 768, layers = 12, heads = 12, inner = 3072;
  std::size_t positions = 512, types = 2;
  float dropout = 0.1f, attention_dropout = 0.1f;
  float epsilon = 1e-12f, deviation = 0.02f;
  Activation activation = Activation::gelu;

  static BertConfig base() { return {}; }
  static BertConfig minilm() { return {.width = 384, .layers = 6, .inner = 1536}; }
  static BertConfig small() { return {.width = 512, .layers = 4, .heads = 8, .inner = 2048}; }
  static BertConfig tiny() { return {.width = 128, .layers = 2, .heads = 2, .inner = 512}; }
};

class BertModel {
 public:
  BertModel() = default;
  // Errors operator.value (heads do not divide the width).
  BertModel(const nn::Scope& scope, const BertConfig& settings)
      : config(settings),
        words(scope / "embeddings.word_embeddings", settings.vocabulary, settings.width,
              settings.deviation),
        positions(scope / "embeddings.position_embeddings", settings.positions, settings.width,
                  settings.deviation),
        types(scope / "embeddings.token_type_embeddings", settings.types, settings.width,
              settings.deviation),
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
                                    .deviation = settings.deviation}),
        pooler(scope / "pooler.dense", settings.width, settings.width,
               {.deviation = settings.deviation}) {}

  // Hidden states [rows, width] of token ids whose rows form sequences. All tokens are of type 0.
  // Errors operator.inputs, operator.sequences, models.sequence_length, operator.value (an id
  // outside the vocabulary).
  Var operator()(Tape& tape, const Var& ids) const { return encoder(tape, embed(tape, ids)); }
  // The same, keeping only the input of each layer for backward.
  Var checkpointed(Tape& tape, const Var& ids) const {
    return encoder.checkpointed(tape, embed(tape, ids));
  }

  // tanh of a linear function of each sequence's first hidden state: [sequences, width]. Error
  // ragged.empty_sequence.
  Var pool(Tape& tape, const Var& hidden) const {
    return pooler(tape, sequence_first(tape, hidden), {.activation = Activation::tanh});
  }

  void collect(nn::Collector& collector) const {
    collector.part("embeddings.word_embeddings", words);
    collector.part("embeddings.position_embeddings", positions);
    collector.part("embeddings.token_type_embeddings", types);
    collector.part("embeddings.LayerNorm", norm);
    for (std::size_t i = 0; i < encoder.layers.size(); ++i)
      collector.part("encoder.layer." + std::to_string(i), Layer{encoder.layers[i]});
    collector.part("pooler.dense", pooler);
  }

  BertConfig config;
  nn::Embedding words, positions, types;
  nn::LayerNorm norm;
  nn::Dropout dropout;
  nn::TransformerEncoder encoder;
  nn::Linear pooler;

 private:
  // A layer under the names of checkpoints.
  struct Layer {
    const nn::TransformerEncoderLayer& layer;
    void collect(nn::Collector& collector) const {
      collector.part("attention.self", Projections{layer.attention});
      collector.part("attention.output.dense", layer.attention.output);
      collector.part("attention.output.LayerNorm", layer.attention_norm);
      collector.part("intermediate.dense", layer.inner);
      collector.part("output.dense", layer.outer);
      collector.part("output.LayerNorm", layer.outer_norm);
    }
  };
  struct Projections {
    const nn::MultiHeadAttention& attention;
    void collect(nn::Collector& collector) const { attention.collect_projections(collector); }
  };

  Var embed(Tape& tape, const Var& ids) const {
    if (!ids.defined())
      fail(error_id::operator_inputs, "BertModel", "ids", "not defined", "token ids");
    const Sequences& sequences = ids.sequences();
    detail::check_sequences("BertModel", ids.value(), sequences);
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
    const Var type = tape.constant(Tensor::zeros(context, shape, DType::int32), sequences);
    // In the order of the usual implementation: (words + types) + positions.
    const Var sum =
        add(tape, add(tape, words(tape, ids), types(tape, type)), positions(tape, place));
    return dropout(tape, norm(tape, sum));
  }
};

class BertClassifier {
 public:
  BertClassifier() = default;
  BertClassifier(const nn::Scope& scope, const BertConfig& config, std::size_t labels)
      : bert(scope / "bert", config),
        dropout(scope / "classifier", config.dropout),
        classifier(scope / "classifier", config.width, labels, {.deviation = config.deviation}) {}

  // Logits [sequences, labels]. Errors as BertModel.
  Var operator()(Tape& tape, const Var& ids) const {
    return classifier(tape, dropout(tape, bert.pool(tape, bert(tape, ids))));
  }

  void collect(nn::Collector& collector) const {
    collector.part("bert", bert);
    collector.part("classifier", classifier);
  }

  BertModel bert;
  nn::Dropout dropout;
  nn::Linear classifier;
};

}  // namespace soma::models
