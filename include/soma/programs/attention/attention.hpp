#pragma once
// Attention of one sequence and head, 128 queries at a time: scores of up to 2048 keys in PSUM,
// their largest, exp() and the sums of the exponentials, and the product with the values, divided
// by the sums at the end. Longer sequences need a first pass over the scores that only finds the
// largest.

#include <soma/programs/attention/heads.hpp>
#include <soma/programs/inputs.hpp>

#include <algorithm>
#include <cstddef>

namespace SOMA_NAMESPACE::programs {

namespace detail {

inline constexpr std::size_t chunk_keys = 2048;  // whose scores are in PSUM at once

class AttentionForward {
  using Accumulate = neuroncore::Accumulate;

 public:
  AttentionForward(Core& core, const OperatorCall& call)
      : core_(core),
        setting_(call.attributes.as<AttentionSetting>()),
        threshold_(soma::detail::dropout_threshold(setting_.dropout)),
        inputs_(soma::detail::attention_inputs(setting_, call.inputs)),
        all_(core, inputs_.all),
        query_rows_(core, inputs_.q),
        width_(inputs_.width),
        longest_(longest_pack(call.sequences)),
        most_queries_((std::min)(longest_, lanes)),
        most_keys_((std::min)(longest_, chunk_keys)),
        // Probabilities are multiplied by values in a type that has enough digits for the values.
        weights_(is_wide(all_.dtype()) || all_.dtype() == DType::fp16
                     ? operand_type(all_.dtype(), all_.dtype())
                     : DType::bf16),
        out_(DeviceRows::target(call.outputs[0])),
        log_sums_(hbm_target(call.outputs[1]).swap(0, 1)),
        loader_(core, {.view = all_.view(), .inner_rows = false, .tile_type = all_.dtype()},
                (std::min)(longest_, bank_columns)),
        queries_(core, loader_, query_pack(), query_rows_.view(), all_.dtype(), most_queries_,
                 width_, 2),
        keys_(core, loader_, all_pack_, all_.view(), all_.dtype(),
              (std::min)(longest_, bank_columns), width_,
              (std::max)((most_keys_ + bank_columns - 1) / bank_columns, std::size_t{2})),
        values_(core, all_pack_, all_.view(), all_.dtype(), most_queries_, width_,
                (std::max)(blocks_of(most_keys_), std::size_t{2})),
        turner_(core, weights_, 1),
        scores_(core.psum.tile(most_queries_, most_keys_)),
        sums_(core.psum.tile(most_queries_, (std::min)(width_, bank_columns))),
        exponentials_(
            core.sbuf.tile(threshold_ != 0 ? DType::fp32 : weights_, most_queries_, most_keys_)),
        kept_(threshold_ != 0 ? core.sbuf.tile(weights_, most_queries_, most_keys_)
                              : exponentials_),
        turned_(core.sbuf.tile(weights_, most_queries_, blocks_of(most_keys_) * most_queries_)),
        results_(core, call.outputs[0].dtype(), most_queries_, (std::min)(width_, bank_columns)),
        columns_(core, DType::fp32, most_queries_, 8),
        mask_(core, call, most_keys_),
        all_pack_(core, all_.view(), all_.dtype(), longest_),
        query_pack_(core, query_rows_.view(), all_.dtype(), inputs_.apart ? longest_ : 0),
        out_pack_(core, out_, call.outputs[0].dtype(), longest_),
        log_sum_pack_(core, hbm_target(call.outputs[1]), longest_) {}

  std::size_t width() const { return width_; }
  void begin(const Pack& pack) {
    mask_.begin(pack);
    all_pack_.begin(pack.row, pack.length);
    query_pack_.begin(pack.query_row, pack.queries);
    out_pack_.begin(pack.query_row);
    log_sum_pack_.begin(pack.query_row);
  }
  void end(const Pack& pack) {
    out_pack_.end(pack.query_row, pack.queries);
    log_sum_pack_.store(pack.query_row, pack.queries);
  }

  void run(const Head& head) {
    for_pieces(width_, bank_columns, [&](std::size_t first, std::size_t columns) {
      for_pieces(head.pack.queries, lanes, [&](std::size_t query, std::size_t queries) {
        block(head, query, queries, first, columns);
      });
    });
  }

 private:
  // Queries are columns of the common input, except if they are a separate input.
  const PackRows& query_pack() const { return inputs_.apart ? query_pack_ : all_pack_; }
  // Columns of the results of some queries, from `first` on.
  void block(const Head& head, std::size_t query, std::size_t queries, std::size_t first,
             std::size_t columns) {
    const Tile column = columns_.next(queries, 8);
    const auto one = [&](std::size_t i) { return column.columns(i, i + 1); };
    const Tile largest = one(0), other = one(1), shift = one(2), total = one(3), inverse = one(4);
    const std::size_t length = mask_.keys_seen(query, queries, 0, head.pack.length);
    const bool whole = length <= chunk_keys;
    const float scale = score_scale(width_);
    if (!whole)
      for_pieces(length, chunk_keys, [&](std::size_t key, std::size_t keys) {
        const Tile scores = multiply(head, query, queries, key, keys);
        core_.vector.tensor_reduce(key == 0 ? largest : other, scores, Alu::maximum);
        if (key != 0) core_.vector.tensor_tensor(largest, largest, other, Alu::maximum);
      });
    const Tile sums = sums_.rows(0, queries).columns(0, columns);
    for_pieces(length, chunk_keys, [&](std::size_t key, std::size_t keys) {
      const Tile scores = multiply(head, query, queries, key, keys);
      if (whole) core_.vector.tensor_reduce(largest, scores, Alu::maximum);
      if (key == 0) core_.vector.tensor_scalar(shift, largest, Alu::multiply, -scale);
      const Tile exponentials = part(exponentials_, queries, keys);
      const Tile kept = part(kept_, queries, keys);
      core_.scalar.activation(
          exponentials, scores, Function::exp,
          {.scale = scale,
           .bias = &shift,
           .reduce = key == 0 ? neuroncore::Reduce::reset_reduce : neuroncore::Reduce::reduce,
           .reduce_result = key + keys == length ? &total : nullptr});
      if (threshold_ != 0)
        core_.vector.dropout(kept, exponentials, threshold_,
                             head.position(setting_.dropout.draw, query, key));
      const Tile turned =
          turned_.rows(0, (std::min)(keys, lanes)).columns(0, blocks_of(keys) * queries);
      turner_.turn(turned, queries, keys, [&](std::size_t, std::size_t) { return kept; });
      for_pieces(keys, lanes, [&](std::size_t at, std::size_t count) {
        const std::size_t block = at / lanes;
        core_.tensor.matmul(sums,
                            turned.rows(0, count).columns(block * queries, (block + 1) * queries),
                            values_.get(head.pack.row + key + at, count,
                                        inputs_.first_value + head.column + first, columns),
                            key + at == 0 ? Accumulate::no : Accumulate::yes);
      });
    });
    core_.vector.reciprocal(inverse, total);
    const std::size_t row = head.pack.query_row + query;
    const Tile result = out_pack_.used() ? out_pack_.at(row, queries, head.column + first, columns)
                                         : results_.next(queries, columns);
    core_.vector.tensor_scalar(result, sums, Alu::multiply, inverse, Alu::multiply,
                               keep_scale(setting_.dropout));
    if (!out_pack_.used())
      core_.dma.queue(store_queue)
          .store(out_.rows(row, row + queries)
                     .columns(head.column + first, head.column + first + columns),
                 result);
    if (first != 0) return;
    const Tile logarithm = one(5);
    const Tile log_sum =
        log_sum_pack_.used() ? log_sum_pack_.at(row, queries, head.number) : one(6);
    core_.scalar.activation(logarithm, total, Function::log);
    core_.vector.tensor_tensor(log_sum, logarithm, shift, Alu::subtract);
    if (!log_sum_pack_.used())
      core_.dma.queue(store_queue)
          .store(log_sums_.rows(row, row + queries).columns(head.number, head.number + 1), log_sum);
  }

  Tile multiply(const Head& head, std::size_t query, std::size_t queries, std::size_t key,
                std::size_t keys) {
    const Tile scores = part(scores_, queries, keys);
    for_pieces(keys, bank_columns, [&](std::size_t at, std::size_t count) {
      multiply_scores(core_, scores.columns(at, at + count),
                      {queries_, head.pack.query_row + query, queries, head.column},
                      {keys_, head.pack.row + key + at, count, inputs_.first_key + head.column},
                      width_);
    });
    return mask_.apply(scores, query, key);
  }
  static Tile part(const Tile& tile, std::size_t rows, std::size_t columns) {
    return tile.rows(0, rows).columns(0, columns);
  }

  Core& core_;
  const AttentionSetting& setting_;
  std::uint32_t threshold_;
  soma::detail::AttentionInputs inputs_;
  DeviceRows all_, query_rows_;
  std::size_t width_, longest_, most_queries_, most_keys_;
  DType weights_;
  HbmView out_, log_sums_;
  OperandLoader loader_;
  TurnedBlocks queries_, keys_;
  RowBlocks values_;
  Turner turner_;
  Tile scores_, sums_, exponentials_, kept_, turned_;
  Pair results_, columns_;
  PackMask mask_;
  // These come last, because they take the rest of SBUF.
  PackRows all_pack_, query_pack_;
  PackResults out_pack_;
  PackNumbers log_sum_pack_;
};

}  // namespace detail

inline void attention(Core& core, const OperatorCall& call) {
  // If no row has a result, there is nothing to compute.
  if (call.sequences.longest() == 0 || call.outputs[0].elements() == 0) return;
  check_attention_program(
      soma::detail::attention_inputs(call.attributes.as<AttentionSetting>(), call.inputs));
  detail::AttentionForward forward(core, call);
  for_each_head(
      call, forward.width(), [&](const Pack& pack) { forward.begin(pack); },
      [&](const Head& head) { forward.run(head); }, [&](const Pack& pack) { forward.end(pack); });
}

}  // namespace SOMA_NAMESPACE::programs
