#pragma once
// Decoder: a decoder-only language model over ragged batches, with the parameter names of the usual
// files: GPT-2 ("Language Models are Unsupervised Multitask Learners", Radford et al. 2019), and
// Llama (arXiv 2302.13971) with Mistral and Qwen2, which differ in options only.

#include <soma/base/record.hpp>
#include <soma/nn/decoder_layer.hpp>
#include <soma/nn/pieces.hpp>
#include <soma/nn/positions.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::models {

// The family decides names of parameters, and how files store matrices.
enum class DecoderKind : std::uint8_t { gpt2, llama, mistral, qwen2 };
inline constexpr std::string_view decoder_kind_names[] = {"gpt2", "llama", "mistral", "qwen2"};

struct DecoderConfig {
  DecoderKind kind = DecoderKind::gpt2;
  std::size_t vocabulary = 50257, layers = 12;
  // Learned positions, which limit a sequence; without them (learned_positions), the length that
  // the model was trained with.
  std::size_t positions = 1024;
  bool learned_positions = true;
  std::size_t window = 0;  // a sequence of more rows would need a sliding window; 0: none
  nn::DecoderOptions layer{.width = 768, .heads = 12, .inner = 3072};
  float embedding_dropout = 0;
  bool tied = true;  // the table of tokens is the head's weight, too
  // Backward keeps only the input of each layer and computes the rest again: the same bits.
  bool recompute = false;

  // The published defaults of the family, as its config.json leaves them out.
  static DecoderConfig of(DecoderKind kind);
  // The most rows of a sequence; 0: any.
  std::size_t most_rows() const;
};

// The floating-point operations of a training step on these sequences, forward and backward (twice
// forward), without recomputation: products of the layers and of the head, and attention.
double training_flops(const DecoderConfig& config, const Sequences& sequences);

class Decoder {
 public:
  Decoder() = default;
  // Errors operator.value, as of nn::CausalAttention.
  Decoder(const nn::Scope& scope, const DecoderConfig& settings);

  // The hidden states [rows, C] behind the last norm, of token ids [rows] that form sequences.
  // Errors operator.inputs, tensor.rank, operator.sequences, models.sequence_length,
  // operator.value (an id beyond the table).
  Var operator()(Tape& tape, const Var& ids) const;
  // The same in steps.
  Var embed(Tape& tape, const Var& ids) const;
  Var run_layer(std::size_t i, Tape& tape, const Var& x) const;
  // The hidden states behind the last norm of the cache's new rows, whose token ids are [rows]: the
  // bits of operator() for the whole sequences. Begin the cache's step before, and end it behind.
  // Errors as of operator(); models.sequence_length: a position beyond the most.
  Var continued(Tape& tape, const Var& ids, nn::KeyValueCache& cache) const;
  // Scores [rows, V] of the next token, of hidden states [rows, C].
  Var logits(Tape& tape, const Var& hidden) const;

  // The weight of logits(), [V, C]: the table of tokens if they are tied.
  const Var& head_weight() const { return config.tied ? tokens.weight : head.weight; }

  // The pieces: tokens, layers, last norm with the head, whose result is that of operator(). A tied
  // head is the table of the first piece, which the last one shares.
  nn::Pieces pieces() const;
  void collect(nn::Collector& collector) const;
  // Records the settings that change the results but no shape.
  void describe(Record& identity) const;

  DecoderConfig config;
  nn::Embedding tokens;
  nn::PositionEmbedding positions;  // if they are learned
  nn::Dropout dropout;
  std::vector<nn::DecoderLayer> layers;
  nn::DecoderNorm norm;
  nn::Linear head;  // its weight: if it is not tied
  nn::ProductSite head_site;

 private:
  struct Part;
  static Var run_of(const void* model, std::size_t i, Tape& tape, const Var& x,
                    const data::Batch& batch);
  std::size_t piece_count() const;
  void check_ids(const Var& ids) const;
  void check_rows(std::size_t longest) const;
  // Hidden states as the layers read them, of embedded tokens.
  Var begin_layers(Tape& tape, const Var& embedded) const;
  Var run_piece(std::size_t i, Tape& tape, const Var& x) const;
};

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/decoder/impl/decoder.ipp>
#endif
