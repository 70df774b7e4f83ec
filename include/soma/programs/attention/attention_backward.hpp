#pragma once
// The gradient of attention: probabilities P are computed again from the saved log-sum-exp, 128
// queries by up to 512 keys at a time. With dP = dout v^T and delta = the row sums of dout * out,
//     dS = P (dP - delta),  dv = P^T dout,  dk = scale dS^T q,  dq = scale dS k.
// Dropout zeroes elements of P (for dv) and of dP; what scales the kept ones is applied at the end.
//
// dk and dv are summed over queries in PSUM, dq over keys: sequences whose keys fit one strip take
// one sweep over their scores, longer ones two.

#include <soma/programs/attention/heads.hpp>
#include <soma/programs/inputs.hpp>

#include <algorithm>
#include <cstddef>

namespace SOMA_NAMESPACE::programs {

namespace detail {

class AttentionBackward {
  using Accumulate = neuroncore::Accumulate;

 public:
  AttentionBackward(Core& core, const OperatorCall& call)
      : core_(core),
        setting_(call.attributes.as<AttentionSetting>()),
        threshold_(soma::detail::dropout_threshold(setting_.dropout)),
        inputs_(soma::detail::attention_backward_inputs(setting_, call.inputs)),
        all_(core, inputs_.all),
        query_rows_(core, inputs_.q),
        out_(core, call.inputs[1]),
        dout_(core, call.inputs[3]),
        width_(inputs_.width),
        columns_((std::min)(width_, bank_columns)),
        strip_(lanes * (std::min)(bank_columns / columns_, bank_columns / lanes)),
        longest_(longest_pack(call.sequences)),
        queries_most_((std::min)(longest_, lanes)),
        keys_most_((std::min)(longest_, strip_)),
        input_type_(tile_type(all_.dtype(), dout_.dtype())),
        dout_type_(tile_type(dout_.dtype(), all_.dtype())),
        weights_type_(input_type_ == DType::fp32 ? DType::fp32 : DType::bf16),
        log_sums_(hbm(call.inputs[2]).swap(0, 1)),
        target_(DeviceRows::target(call.outputs[0])),
        query_target_(inputs_.apart ? DeviceRows::target(call.outputs[1]) : target_),
        load_inputs_(core, {.view = all_.view(), .inner_rows = false, .tile_type = input_type_},
                     keys_most_, 1),
        load_dout_(core, {.view = dout_.view(), .inner_rows = false, .tile_type = dout_type_},
                   queries_most_, 1),
        turned_queries_(core, load_inputs_, query_pack(), query_rows_.view(), input_type_,
                        queries_most_, width_, 2),
        turned_keys_(core, load_inputs_, all_pack_, all_.view(), input_type_, keys_most_, width_,
                     2),
        turned_values_(core, load_inputs_, all_pack_, all_.view(), input_type_, keys_most_, width_,
                       2),
        turned_douts_(core, load_dout_, dout_pack_, dout_.view(), dout_type_, queries_most_, width_,
                      2),
        queries_(core, query_pack(), query_rows_.view(), input_type_, queries_most_, width_, 2),
        keys_(core, all_pack_, all_.view(), input_type_, queries_most_, width_,
              (std::max)(blocks_of(keys_most_), std::size_t{2})),
        douts_(core, dout_pack_, dout_.view(), dout_type_, queries_most_, width_, 2),
        outs_(core, out_pack_, out_.view(), out_.dtype(), queries_most_, width_, 2),
        turner_(core, weights_type_, 1),
        scores_(core.psum.tile(queries_most_, keys_most_)),
        gradients_(core.psum.tile(queries_most_, keys_most_)),
        dq_(core.psum.tile(queries_most_, columns_)),
        dk_(core.psum.tile(queries_most_, blocks_of(keys_most_) * columns_)),
        dv_(core.psum.tile(queries_most_, blocks_of(keys_most_) * columns_)),
        shifts_(core.sbuf.tile(DType::fp32, queries_most_, blocks_of(longest_))),
        deltas_(core.sbuf.tile(DType::fp32, queries_most_, blocks_of(longest_))),
        part_(core.sbuf.tile(DType::fp32, queries_most_, 1)),
        products_(core.sbuf.tile(DType::fp32, queries_most_, columns_)),
        probabilities_(core.sbuf.tile(DType::fp32, queries_most_, keys_most_)),
        kept_(core.sbuf.tile(DType::fp32, queries_most_, keys_most_)),
        weights_(core.sbuf.tile(weights_type_, queries_most_, keys_most_)),
        dscores_(core.sbuf.tile(weights_type_, queries_most_, keys_most_)),
        turned_(
            core.sbuf.tile(weights_type_, queries_most_, blocks_of(keys_most_) * queries_most_)),
        results_(core, call.outputs[0].dtype(), queries_most_, columns_),
        mask_(core, call, keys_most_),
        all_pack_(core, all_.view(), input_type_, longest_),
        query_pack_(core, query_rows_.view(), input_type_, inputs_.apart ? longest_ : 0),
        dout_pack_(core, dout_.view(), dout_type_, longest_),
        out_pack_(core, out_.view(), out_.dtype(), longest_),
        log_sum_pack_(core, hbm(call.inputs[2]), longest_),
        target_pack_(core, target_, call.outputs[0].dtype(), longest_),
        query_target_pack_(core, query_target_, call.outputs[0].dtype(),
                           inputs_.apart ? longest_ : 0) {}

  std::size_t width() const { return width_; }
  void begin(const Pack& pack) {
    mask_.begin(pack);
    all_pack_.begin(pack.row, pack.length);
    query_pack_.begin(pack.query_row, pack.queries);
    dout_pack_.begin(pack.query_row, pack.queries);
    out_pack_.begin(pack.query_row, pack.queries);
    log_sum_pack_.load(pack.query_row, pack.queries);
    target_pack_.begin(pack.row);
    query_target_pack_.begin(pack.query_row);
  }
  void end(const Pack& pack) {
    target_pack_.end(pack.row, pack.length);
    query_target_pack_.end(pack.query_row, pack.queries);
  }
  void run(const Head& head) {
    const std::size_t length = head.pack.length;
    const float keep = keep_scale(setting_.dropout), scale = score_scale(width_) * keep;
    for_pieces(head.pack.queries, lanes, [&](std::size_t query, std::size_t queries) {
      note_rows(head, query, queries, 1 / keep);
    });
    const bool together = length <= strip_;
    for_pieces(width_, columns_, [&](std::size_t first, std::size_t columns) {
      const std::size_t column = head.column + first;
      if (!together)
        for_pieces(head.pack.queries, lanes, [&](std::size_t query, std::size_t queries) {
          const std::size_t seen = mask_.keys_seen(query, queries, 0, length);
          for_pieces(seen, strip_, [&](std::size_t key, std::size_t keys) {
            compute_block(head, query, queries, key, keys, false);
            add_dq(head, queries, key, keys, column, columns);
          });
          write_dq(head, query, queries, column, columns, scale);
        });
      for_pieces(length, strip_, [&](std::size_t key, std::size_t keys) {
        for_pieces(head.pack.queries, lanes, [&](std::size_t query, std::size_t queries) {
          const std::size_t seen = mask_.keys_seen(query, queries, key, keys);
          if (seen == 0) return;
          compute_block(head, query, queries, key, seen, true);
          add_dk_dv(head, query, queries, key, seen, column, columns);
          if (!together) return;
          add_dq(head, queries, key, seen, column, columns);
          write_dq(head, query, queries, column, columns, scale);
        });
        for_pieces(keys, lanes, [&](std::size_t at, std::size_t count) {
          const std::size_t row = head.pack.row + key + at;
          write(key_block(dk_, at, count, columns), target_, target_pack_, row,
                inputs_.first_key + column, scale);
          write(key_block(dv_, at, count, columns), target_, target_pack_, row,
                inputs_.first_value + column, keep);
        });
      });
    });
  }

 private:
  // Queries and their gradients are columns of the common input, except if they are a separate
  // input.
  const PackRows& query_pack() const { return inputs_.apart ? query_pack_ : all_pack_; }
  // 16-bit and 8-bit tiles if the weights, as bf16, pair with them. fp16 is excluded: it has more
  // digits than bf16 keeps, and less range than gradients need.
  static DType tile_type(DType own, DType other) {
    const auto narrow = [](DType dtype) { return !is_wide(dtype) && dtype != DType::fp16; };
    return narrow(own) && narrow(other) ? own : DType::fp32;
  }
  static Tile block(const Tile& tile, std::size_t rows, std::size_t columns) {
    return tile.rows(0, rows).columns(0, columns);
  }
  static Tile key_block(const Tile& tile, std::size_t at, std::size_t count, std::size_t columns) {
    const std::size_t begin = at / lanes * columns;
    return tile.rows(0, count).columns(begin, begin + columns);
  }
  static Tile column_of(const Tile& tile, std::size_t query, std::size_t queries) {
    return tile.rows(0, queries).columns(query / lanes, query / lanes + 1);
  }

  // Computes two numbers for each row of scores: minus its log-sum-exp, and its delta.
  void note_rows(const Head& head, std::size_t query, std::size_t queries, float factor) {
    const std::size_t row = head.pack.query_row + query;
    const Tile shift = column_of(shifts_, query, queries),
               delta = column_of(deltas_, query, queries);
    Tile log_sum = shift;
    if (log_sum_pack_.used())
      log_sum = log_sum_pack_.at(row, queries, head.number);
    else
      core_.dma.load(log_sum,
                     log_sums_.rows(row, row + queries).columns(head.number, head.number + 1));
    core_.vector.tensor_scalar(shift, log_sum, Alu::multiply, -1.0f);
    for_pieces(width_, columns_, [&](std::size_t first, std::size_t columns) {
      const std::size_t column = head.column + first;
      const Tile products = block(products_, queries, columns), part = part_.rows(0, queries);
      core_.vector.scalar_tensor_tensor(products, douts_.get(row, queries, column, columns),
                                        Alu::multiply, factor, Alu::multiply,
                                        outs_.get(row, queries, column, columns));
      core_.vector.tensor_reduce(first == 0 ? delta : part, products, Alu::add);
      if (first != 0) core_.vector.tensor_tensor(delta, delta, part, Alu::add);
    });
  }

  // Computes dscores_ of some queries and keys, and weights_, the probabilities after dropout.
  void compute_block(const Head& head, std::size_t query, std::size_t queries, std::size_t key,
                     std::size_t keys, bool weights) {
    const std::size_t row = head.pack.query_row + query, key_row = head.pack.row + key;
    const Tile scores = block(scores_, queries, keys), gradients = block(gradients_, queries, keys);
    const Tile probabilities = block(probabilities_, queries, keys);
    const Tile shift = column_of(shifts_, query, queries);
    multiply_scores(core_, scores, {turned_queries_, row, queries, head.column},
                    {turned_keys_, key_row, keys, inputs_.first_key + head.column}, width_);
    core_.scalar.activation(probabilities, mask_.apply(scores, query, key), Function::exp,
                            {.scale = score_scale(width_), .bias = &shift});
    multiply_scores(core_, gradients, {turned_douts_, row, queries, head.column},
                    {turned_values_, key_row, keys, inputs_.first_value + head.column}, width_);
    Tile kept = gradients;
    if (threshold_ != 0) {
      const neuroncore::DrawPosition position = head.position(setting_.dropout.draw, query, key);
      kept = block(kept_, queries, keys);
      core_.vector.dropout(kept, gradients, threshold_, position);
      if (weights)
        core_.vector.dropout(block(weights_, queries, keys), probabilities, threshold_, position);
    } else if (weights) {
      core_.scalar.copy(block(weights_, queries, keys), probabilities);
    }
    core_.vector.scalar_tensor_tensor(block(dscores_, queries, keys), kept, Alu::subtract,
                                      column_of(deltas_, query, queries), Alu::multiply,
                                      probabilities);
  }

  void add_dk_dv(const Head& head, std::size_t query, std::size_t queries, std::size_t key,
                 std::size_t keys, std::size_t column, std::size_t columns) {
    const std::size_t row = head.pack.query_row + query;
    const Tile q = queries_.get(row, queries, column, columns);
    const Tile dout = douts_.get(row, queries, column, columns);
    for_pieces(keys, lanes, [&](std::size_t at, std::size_t count) {
      // The first block of queries that sees these keys.
      const bool begins = query == (setting_.causal ? key + at : 0);
      const Accumulate accumulate = begins ? Accumulate::no : Accumulate::yes;
      core_.tensor.matmul(key_block(dk_, at, count, columns),
                          dscores_.rows(0, queries).columns(at, at + count), q, accumulate);
      core_.tensor.matmul(key_block(dv_, at, count, columns),
                          weights_.rows(0, queries).columns(at, at + count), dout, accumulate);
    });
  }

  void add_dq(const Head& head, std::size_t queries, std::size_t key, std::size_t keys,
              std::size_t column, std::size_t columns) {
    const Tile turned = block(turned_, (std::min)(keys, lanes), blocks_of(keys) * queries);
    turner_.turn(turned, queries, keys,
                 [&](std::size_t, std::size_t) { return block(dscores_, queries, keys); });
    for_pieces(keys, lanes, [&](std::size_t at, std::size_t count) {
      const std::size_t index = at / lanes;
      core_.tensor.matmul(
          block(dq_, queries, columns),
          turned.rows(0, count).columns(index * queries, (index + 1) * queries),
          keys_.get(head.pack.row + key + at, count, inputs_.first_key + column, columns),
          key + at == 0 ? Accumulate::no : Accumulate::yes);
    });
  }

  void write_dq(const Head& head, std::size_t query, std::size_t queries, std::size_t column,
                std::size_t columns, float factor) {
    write(block(dq_, queries, columns), query_target_,
          inputs_.apart ? query_target_pack_ : target_pack_, head.pack.query_row + query, column,
          factor);
  }

  void write(const Tile& sums, const HbmView& target, const PackResults& pack, std::size_t row,
             std::size_t column, float factor) {
    const Tile result = pack.used() ? pack.at(row, sums.partitions(), column, sums.free_size())
                                    : results_.next(sums.partitions(), sums.free_size());
    core_.scalar.activation(result, sums, Function::copy, {.scale = factor});
    if (pack.used()) return;
    core_.dma.queue(store_queue)
        .store(target.rows(row, row + sums.partitions()).columns(column, column + sums.free_size()),
               result);
  }

  Core& core_;
  const AttentionSetting& setting_;
  std::uint32_t threshold_;
  soma::detail::AttentionInputs inputs_;
  DeviceRows all_, query_rows_, out_, dout_;
  std::size_t width_, columns_, strip_, longest_, queries_most_, keys_most_;
  DType input_type_, dout_type_, weights_type_;
  HbmView log_sums_, target_, query_target_;
  OperandLoader load_inputs_, load_dout_;
  TurnedBlocks turned_queries_, turned_keys_, turned_values_, turned_douts_;
  RowBlocks queries_, keys_, douts_, outs_;
  Turner turner_;
  Tile scores_, gradients_, dq_, dk_, dv_, shifts_, deltas_, part_, products_;
  Tile probabilities_, kept_, weights_, dscores_, turned_;
  Pair results_;
  PackMask mask_;
  // These come last, because they take the rest of SBUF.
  PackRows all_pack_, query_pack_, dout_pack_, out_pack_;
  PackNumbers log_sum_pack_;
  PackResults target_pack_, query_target_pack_;
};

}  // namespace detail

inline void attention_backward(Core& core, const OperatorCall& call) {
  check_attention_program(
      soma::detail::attention_backward_inputs(call.attributes.as<AttentionSetting>(), call.inputs));
  detail::AttentionBackward backward(core, call);
  for_each_head(
      call, backward.width(), [&](const Pack& pack) { backward.begin(pack); },
      [&](const Head& head) { backward.run(head); }, [&](const Pack& pack) { backward.end(pack); });
}

}  // namespace SOMA_NAMESPACE::programs
