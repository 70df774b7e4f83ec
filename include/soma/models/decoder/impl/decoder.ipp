#pragma once
// The functions of decoder.hpp.

#include <soma/models/decoder/decoder.hpp>

#include <soma/autograd/functions.hpp>
#include <soma/base/record.hpp>
#include <soma/nn/decoder_layer.hpp>
#include <soma/nn/key_value_cache.hpp>
#include <soma/nn/pieces.hpp>
#include <soma/ops/checks.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::models {

SOMA_INLINE DecoderConfig DecoderConfig::of(DecoderKind kind) {
  DecoderConfig config{.kind = kind};
  nn::DecoderOptions& layer = config.layer;
  if (kind == DecoderKind::gpt2) {
    layer.dropout = layer.attention_dropout = config.embedding_dropout = 0.1f;
    return config;
  }
  const bool qwen = kind == DecoderKind::qwen2, mistral = kind == DecoderKind::mistral;
  config.vocabulary = qwen ? 151936 : 32000;
  config.layers = 32;
  config.positions = qwen ? 32768 : mistral ? 131072 : 2048;
  config.learned_positions = false;
  config.window = mistral ? 4096 : 0;
  config.tied = false;
  layer = {.width = 4096,
           .heads = 32,
           .inner = qwen      ? 22016u
                    : mistral ? 14336u
                              : 11008u,
           .key_value_heads = qwen      ? 32u
                              : mistral ? 8u
                                        : 0u,
           .rms_norm = true,
           .epsilon = 1e-6f,
           .gated = true,
           .activation = Activation::silu,
           .projection_bias = qwen,
           .output_bias = false,
           .inner_bias = false,
           .rotary_base = 10000};
  return config;
}

SOMA_INLINE std::size_t DecoderConfig::most_rows() const {
  return learned_positions ? positions : window;
}

SOMA_INLINE double training_flops(const DecoderConfig& config, const Sequences& sequences) {
  const nn::DecoderOptions& layer = config.layer;
  const auto width = static_cast<double>(layer.width), inner = static_cast<double>(layer.inner);
  const auto queries = static_cast<double>(layer.heads * layer.head_size());
  const auto keys = static_cast<double>(layer.groups() * layer.head_size());
  const auto rows = static_cast<double>(sequences.used_rows());
  double pairs = 0;  // a row, and a row that it sees
  for (std::size_t i = 0; i < sequences.count(); ++i) {
    const auto length = static_cast<double>(sequences.used(i));
    pairs += length * (length + 1) / 2;
  }
  const double weights = width * (2 * queries + 2 * keys) + width * inner * (layer.gated ? 3 : 2);
  return 3 * (static_cast<double>(config.layers) * (2 * rows * weights + 4 * queries * pairs) +
              2 * rows * width * static_cast<double>(config.vocabulary));
}

SOMA_INLINE Decoder::Decoder(const nn::Scope& scope, const DecoderConfig& settings)
    : config(settings),
      tokens(scope / "tokens", settings.vocabulary, settings.layer.width,
             settings.layer.standard_deviation),
      dropout(scope / "tokens", settings.embedding_dropout),
      norm(scope / "norm", settings.layer),
      head_site(scope / "head", true) {
  if (settings.learned_positions)
    positions = nn::PositionEmbedding(scope / "positions", settings.positions, settings.layer.width,
                                      settings.layer.standard_deviation);
  for (std::size_t i = 0; i < settings.layers; ++i)
    layers.emplace_back(scope / "layer" / std::to_string(i), settings.layer);
  if (settings.tied) return;
  head = nn::Linear(
      scope / "head", settings.layer.width, settings.vocabulary,
      {.bias = false, .standard_deviation = settings.layer.standard_deviation, .edge = true});
  head_site = head.site;
}

SOMA_INLINE Var Decoder::operator()(Tape& tape, const Var& ids) const {
  Var x = ids;
  for (std::size_t i = 0; i < piece_count(); ++i) x = run_piece(i, tape, x);
  return x;
}

SOMA_INLINE void Decoder::check_ids(const Var& ids) const {
  constexpr std::string_view operation = "Decoder";
  if (!ids.defined()) fail(error_id::operator_inputs, operation, "ids", "not defined", "token ids");
  soma::detail::check_rank(operation, "ids", ids.value(), 1);
  soma::detail::check_sequences(operation, ids.value(), ids.sequences());
}

SOMA_INLINE void Decoder::check_rows(std::size_t longest) const {
  const std::size_t most = config.most_rows();
  if (most != 0 && longest > most)
    fail(error_id::sequence_length, "Decoder", "ids",
         "a sequence of " + std::to_string(longest) + " tokens",
         "at most " + std::to_string(most) +
             (config.learned_positions ? ", the model's positions" : ", its sliding window"));
}

SOMA_INLINE Var Decoder::embed(Tape& tape, const Var& ids) const {
  check_ids(ids);
  check_rows(ids.sequences().longest());
  const Var x = tokens(tape, ids);
  return begin_layers(tape, config.learned_positions ? positions(tape, x) : x);
}

SOMA_INLINE Var Decoder::begin_layers(Tape& tape, const Var& embedded) const {
  const Var x = dropout(tape, embedded);
  const DType activations = tape.options().activations;
  return x.value().dtype() == activations ? x : cast(tape, x, activations);
}

SOMA_INLINE Var Decoder::run_layer(std::size_t i, Tape& tape, const Var& x) const {
  // Backward of the last layer follows its forward at once.
  return config.recompute && i + 1 != layers.size() ? layers[i].recomputed(tape, x)
                                                    : layers[i](tape, x);
}

SOMA_INLINE Var Decoder::continued(Tape& tape, const Var& ids, nn::KeyValueCache& cache) const {
  check_ids(ids);
  for (std::size_t i = 0; i < cache.count(); ++i)
    check_rows(cache.rows(i) + cache.step().length(i));
  Var x = tokens(tape, ids);
  if (config.learned_positions) x = positions.continued(tape, x, cache.first_positions());
  x = begin_layers(tape, x);
  for (std::size_t i = 0; i < layers.size(); ++i) x = layers[i].continued(tape, x, cache, i);
  return norm(tape, x);
}

SOMA_INLINE Var Decoder::logits(Tape& tape, const Var& hidden) const {
  const Var x = hidden.value().dtype() == DType::fp32 ? hidden : cast(tape, hidden, DType::fp32);
  return nn::linear_at(head_site, tape, x, head_weight());
}

// The parameters of one piece with their names in files.
struct Decoder::Part {
  const Decoder& model;
  std::size_t first, end;  // pieces

  void collect(nn::Collector& collector) const;
  void collect_inside(nn::Collector& collector) const;
  void collect_gpt2(nn::Collector& collector, const nn::DecoderLayer& layer) const;
  void collect_llama(nn::Collector& collector, const nn::DecoderLayer& layer) const;
  bool is_gpt2() const { return model.config.kind == DecoderKind::gpt2; }
};

namespace detail {

// Calls function(collector) for a part.
template <class Function>
struct CollectedBy {
  const Function& function;
  void collect(nn::Collector& collector) const { function(collector); }
};
template <class Function>
void collect_part(nn::Collector& collector, std::string_view name, const Function& function) {
  collector.part(name, CollectedBy<Function>{function});
}

}  // namespace detail

SOMA_INLINE void Decoder::Part::collect(nn::Collector& collector) const {
  detail::collect_part(collector, is_gpt2() ? "transformer" : "model",
                       [&](nn::Collector& inside) { collect_inside(inside); });
  if (end == model.piece_count() && !model.config.tied) collector.part("lm_head", model.head);
}

SOMA_INLINE void Decoder::Part::collect_inside(nn::Collector& collector) const {
  const std::size_t last = model.piece_count() - 1;
  for (std::size_t piece = first; piece < end; ++piece) {
    if (piece == 0) {
      collector.part(is_gpt2() ? "wte" : "embed_tokens", model.tokens);
      if (model.config.learned_positions) collector.part("wpe", model.positions);
    } else if (piece != last) {
      const nn::DecoderLayer& layer = model.layers[piece - 1];
      detail::collect_part(collector, (is_gpt2() ? "h." : "layers.") + std::to_string(piece - 1),
                           [&](nn::Collector& inside) {
                             is_gpt2() ? collect_gpt2(inside, layer) : collect_llama(inside, layer);
                           });
    } else {
      collector.part(is_gpt2() ? "ln_f" : "norm", model.norm);
    }
  }
}

SOMA_INLINE void Decoder::Part::collect_gpt2(nn::Collector& collector,
                                             const nn::DecoderLayer& layer) const {
  collector.part("ln_1", layer.attention_norm);
  detail::collect_part(collector, "attn.c_attn",
                       [&](nn::Collector& inside) { layer.attention.collect_together(inside); });
  collector.part("attn.c_proj", layer.attention.output);
  collector.part("ln_2", layer.inner_norm);
  collector.part("mlp.c_fc", layer.inner);
  collector.part("mlp.c_proj", layer.outer);
}

SOMA_INLINE void Decoder::Part::collect_llama(nn::Collector& collector,
                                              const nn::DecoderLayer& layer) const {
  collector.part("input_layernorm", layer.attention_norm);
  layer.attention.collect_apart(collector, "self_attn.q_proj", "self_attn.k_proj",
                                "self_attn.v_proj");
  collector.part("self_attn.o_proj", layer.attention.output);
  collector.part("post_attention_layernorm", layer.inner_norm);
  const nn::Linear& inner = layer.inner;
  const std::size_t rows = inner.weight.shape()[0] / 2;
  std::size_t begin = 0;
  for (const char* name : {"mlp.gate_proj", "mlp.up_proj"}) {
    collector.product(name, inner.weight, inner.site, begin, begin + rows);
    if (inner.bias.defined())
      collector.add_rows(std::string(name) + ".bias", inner.bias, begin, begin + rows,
                         ParameterRole::bias);
    begin += rows;
  }
  collector.part("mlp.down_proj", layer.outer);
}

SOMA_INLINE nn::Pieces Decoder::pieces() const {
  nn::Pieces result;
  for (std::size_t i = 0; i < piece_count(); ++i) {
    Parameters own;
    nn::Collector(own).part("", Part{*this, i, i + 1});
    const bool last = i + 1 == piece_count();
    std::string name = "tokens";
    if (i != 0) name = last ? "head" : "layer." + std::to_string(i - 1);
    result.push_back(nn::Piece(std::move(name), std::move(own), &run_of, this, i));
    if (!last || !config.tied) continue;
    for (const Parameter& parameter : result.front().parameters)
      if (parameter.var.is(tokens.weight)) result.back().shared.push_back(parameter);
  }
  return result;
}

SOMA_INLINE void Decoder::collect(nn::Collector& collector) const {
  Part{*this, 0, piece_count()}.collect(collector);
}

SOMA_INLINE void Decoder::describe(Record& identity) const {
  const nn::DecoderOptions& layer = config.layer;
  identity.set("kind", decoder_kind_names[static_cast<std::size_t>(config.kind)]);
  identity.set("heads", std::uint64_t{layer.heads});
  identity.set("epsilon", layer.epsilon);
  identity.set("activation", static_cast<std::uint64_t>(layer.activation));
  identity.set("dropout", layer.dropout);
  identity.set("attention_dropout", layer.attention_dropout);
  identity.set("embedding_dropout", config.embedding_dropout);
  if (layer.rotary_base > 0) {
    identity.set("rotary_base", layer.rotary_base);
    identity.set("rotary_scaling", static_cast<std::uint64_t>(layer.rotary_scaling.kind));
    identity.set("rotary_factor", layer.rotary_scaling.factor);
    identity.set("rotary_low", layer.rotary_scaling.low_frequency_factor);
    identity.set("rotary_high", layer.rotary_scaling.high_frequency_factor);
    identity.set("rotary_positions", std::uint64_t{layer.rotary_scaling.original_positions});
  }
}

SOMA_INLINE Var Decoder::run_of(const void* model, std::size_t i, Tape& tape, const Var& x,
                                const data::Batch& batch) {
  const auto* own = static_cast<const Decoder*>(model);
  return own->run_piece(i, tape, i == 0 ? tape.constant(batch.inputs) : x);
}

SOMA_INLINE std::size_t Decoder::piece_count() const { return layers.size() + 2; }

SOMA_INLINE Var Decoder::run_piece(std::size_t i, Tape& tape, const Var& x) const {
  if (i == 0) return embed(tape, x);
  return i + 1 < piece_count() ? run_layer(i - 1, tape, x) : norm(tape, x);
}

}  // namespace SOMA_NAMESPACE::models
