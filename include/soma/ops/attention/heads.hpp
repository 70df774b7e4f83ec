#pragma once
// Code that attention's operators share: the columns of queries, keys and values, the rows that are
// queries of a sequence, and a loop over sequences and heads.

#include <soma/ops/element/dropout.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace SOMA_NAMESPACE::detail {

inline std::size_t key_value_heads_of(const AttentionSetting& setting) {
  return setting.key_value_heads == 0 ? setting.heads : setting.key_value_heads;
}

// The tensors that hold queries, keys and values; the mask, and the begins of sequences' queries.
struct AttentionInputs {
  // `queries`: the index of the input for separate queries. The mask is the next input, then
  // `query_begins`.
  AttentionInputs(const AttentionSetting& setting, std::span<const Tensor> inputs,
                  std::size_t queries)
      : all(inputs[0]),
        apart(inputs.size() > queries && inputs[queries].defined()),
        q(apart ? inputs[queries] : all),
        mask(input_or_none(inputs, queries + 1)),
        query_begins(input_or_none(inputs, queries + 2)),
        group(setting.heads / key_value_heads_of(setting)),
        heads_across((apart ? 0 : setting.heads) + 2 * key_value_heads_of(setting)),
        width(all.size(1) / heads_across),
        channels(setting.heads * width),
        first_key(apart ? 0 : channels),
        first_value(first_key + key_value_heads_of(setting) * width) {}

  const Tensor& all;
  bool apart;
  const Tensor& q;
  Tensor mask, query_begins;
  std::size_t group;         // heads of queries that share keys and values
  std::size_t heads_across;  // heads of all kinds that lie in a row of `all`
  std::size_t width;         // columns of a head
  std::size_t channels;      // columns of queries and results
  std::size_t first_key, first_value;
};
inline AttentionInputs attention_inputs(const AttentionSetting& setting,
                                        std::span<const Tensor> inputs) {
  return {setting, inputs, 1};
}
inline AttentionInputs attention_backward_inputs(const AttentionSetting& setting,
                                                 std::span<const Tensor> inputs) {
  return {setting, inputs, 4};
}

// The query rows for each sequence of keys, and their part of the mask.
class QueryRows {
 public:
  // Errors operator.sequences (`query_begins` does not ascend from 0 to the number of queries),
  // tensor.shape (a mask of another size), operator.value (a query that sees no key, causal
  // attention with more queries than keys).
  QueryRows(Context& context, const AttentionSetting& setting, const AttentionInputs& inputs,
            const Sequences& keys)
      : keys_(keys),
        first_rows_(setting.first_rows),
        last_rows_(setting.causal && inputs.query_begins.defined()),
        rows_(inputs.q.size(0)),
        mask_begins_(context.heap()) {
    if (inputs.query_begins.defined()) take_begins(contiguous(context, inputs.query_begins));
    for (std::size_t i = 0; i < keys.count(); ++i) {
      longest_ = (std::max)(longest_, length(i));
      if (last_rows_ && length(i) > keys.used(i))
        fail(error_id::operator_value, "attention", "query_begins",
             std::to_string(length(i)) + " queries of sequence " + std::to_string(i) +
                 ", and attention is causal",
             "at most its " + std::to_string(keys.used(i)) + " keys: queries are the last rows");
    }
    if (inputs.mask.defined()) take_mask(contiguous(context, inputs.mask), setting.causal);
  }
  std::size_t rows() const { return rows_; }
  std::size_t longest() const { return longest_; }
  std::size_t begin(std::size_t sequence) const {
    if (begins_.defined()) return static_cast<std::size_t>(begins_.data<std::int64_t>()[sequence]);
    return first_rows_ ? sequence : keys_.begin(sequence);
  }
  std::size_t length(std::size_t sequence) const {
    if (begins_.defined()) return begin(sequence + 1) - begin(sequence);
    return first_rows_ ? 1 : keys_.length(sequence);
  }
  // The keys of a sequence that kernels see: causal attention of all rows hides the padding, too.
  std::size_t keys(std::size_t sequence, bool causal) const {
    return causal && !last_rows_ ? keys_.length(sequence) : keys_.used(sequence);
  }
  // AttentionArgs::earlier.
  std::size_t earlier(std::size_t sequence) const {
    return last_rows_ ? keys_.used(sequence) - length(sequence) : 0;
  }
  // [queries][keys]; nullptr: no mask.
  const std::uint8_t* mask(std::size_t sequence) const {
    if (!mask_.defined()) return nullptr;
    return reinterpret_cast<const std::uint8_t*>(mask_.raw()) + mask_begins_[sequence];
  }

 private:
  void take_begins(const Tensor& begins) {
    const auto* const at = begins.data<std::int64_t>();
    const std::size_t count = keys_.count();
    bool ascend = at[0] == 0;
    for (std::size_t i = 0; i < count; ++i) ascend = ascend && at[i] <= at[i + 1];
    if (!ascend || static_cast<std::uint64_t>(at[count]) != rows_)
      fail(error_id::operator_sequences, "attention", "query_begins",
           "from " + std::to_string(at[0]) + " to " + std::to_string(at[count]) +
               (ascend ? "" : ", not ascending"),
           "ascending from 0 to the number of queries, " + std::to_string(rows_));
    begins_ = begins;
  }
  void take_mask(const Tensor& mask, bool causal) {
    std::size_t total = 0;
    for (std::size_t i = 0; i < keys_.count(); ++i) {
      mask_begins_.push_back(total);
      total = checked_add(total, checked_multiply(length(i), keys_.length(i), "attention"),
                          "attention");
    }
    if (mask.elements() != total)
      fail(error_id::tensor_shape, "attention", "mask", mask.describe(),
           "[" + std::to_string(total) + "], a flag for each query and key of a sequence");
    mask_ = mask;
    for (std::size_t i = 0; i < keys_.count(); ++i)
      for (std::size_t query = 0; keys_.length(i) != 0 && query < length(i); ++query) {
        const std::uint8_t* const row = this->mask(i) + query * keys_.length(i);
        const std::uint8_t* const end = row + (causal ? earlier(i) + query + 1 : keys_.length(i));
        if (std::find_if(row, end, [](std::uint8_t seen) { return seen != 0; }) == end)
          fail(
              error_id::operator_value, "attention", "mask",
              "only zeros for query " + std::to_string(query) + " of sequence " + std::to_string(i),
              "at least one key that each query sees");
      }
  }

  const Sequences& keys_;
  bool first_rows_, last_rows_;
  std::size_t rows_, longest_ = 0;
  Tensor begins_, mask_;
  HeapVector<std::size_t> mask_begins_;
};

// The position of a head of a sequence: its first row of keys and values, and of queries and the
// result; its first column in queries and the result, and that of its group in keys and in values.
// `keys`: rows of keys and values with the padding, which the kernel does not see. `of_group`: the
// head's number in its group, which is at work as `task`.
struct HeadPosition {
  std::size_t row, query_row, column, key_column, keys, of_group, task;
};

// Writes zeros to the rows from `begin` to `end` of a head's columns.
inline void clear_rows(const MatrixTarget& target, std::size_t begin, std::size_t end,
                       std::size_t width) {
  const std::size_t bytes = size_of(target.dtype);
  for (std::size_t row = begin; row < end; ++row)
    std::memset(static_cast<std::byte*>(target.data) + row * target.row_stride * bytes, 0,
                width * bytes);
}

// Calls run(args, position) for each sequence and head, with the arguments that forward and
// backward share, after begin(tasks). The executor gets parts of about equal cost, which hold
// `together` neighbouring heads of a sequence or more, in ascending order.
template <class Begin, class Run>
void for_each_head(const OperatorCall& call, const AttentionInputs& inputs, std::size_t together,
                   float* log_sum_exp, const Begin& begin_tasks, const Run& run_head) {
  const auto& setting = call.attributes.as<AttentionSetting>();
  const Sequences& sequences = call.sequences;
  const QueryRows queries(call.context, setting, inputs, sequences);
  const AttentionKernels& kernels = call.context.kernels().attention;
  const std::size_t width = inputs.width,
                    items = setting.heads / together;  // each sequence has these
  const auto cost = [&](std::size_t item) {
    const std::size_t keys = sequences.length(item / items);
    const std::size_t rows = queries.length(item / items);
    const bool half = setting.causal && rows == keys;
    return together * (keys * ((half ? rows / 2 : rows) + 64) + rows) * width;
  };
  constexpr std::size_t worth_a_task = 50000;  // multiply-adds
  const UnevenRanges parts(call.context, sequences.count() * items, worth_a_task, cost);
  if (parts.tasks() == 0) return;
  begin_tasks(parts.tasks());
  AttentionArgs most_args{
      .queries = queries.longest(), .keys = sequences.longest(), .width = width};
  most_args.bf16_products = call.context.bf16().products;
  const std::size_t workspace = (kernels.workspace_bytes(most_args) + memory_alignment - 1) /
                                memory_alignment * memory_alignment;
  const Storage memory = Storage::allocate(call.context.heap(),
                                           checked_multiply(workspace, parts.tasks(), "attention"));
  const float scale = 1.0f / std::sqrt(static_cast<float>(width));
  const TensorRows keys_and_values = rows_of(call.context, inputs.all),
                   query_rows = rows_of(call.context, inputs.q);
  const MatrixOperand all = operand(keys_and_values), all_queries = operand(query_rows);
  const bool drops = dropout_threshold(setting.dropout) != 0;
  for (std::size_t i = 0; drops && i < sequences.count(); ++i)
    static_cast<void>(attention_index(sequences.ordinal(i), 0,
                                      (std::max)(queries.length(i), std::size_t{1}) - 1, 0));
  parts.run(call.context, [&](std::size_t begin, std::size_t end, std::size_t task) {
    for (std::size_t item = begin * together; item < end * together; ++item) {
      const std::size_t sequence = item / setting.heads, head = item % setting.heads;
      AttentionArgs args{.queries = queries.length(sequence),
                         .keys = queries.keys(sequence, setting.causal),
                         .width = width};
      if (args.queries == 0 && args.keys == 0) continue;
      const HeadPosition position{.row = sequences.begin(sequence),
                                  .query_row = queries.begin(sequence),
                                  .column = head * width,
                                  .key_column = head / inputs.group * width,
                                  .keys = sequences.length(sequence),
                                  .of_group = head % inputs.group,
                                  .task = task};
      args.q = part(all_queries, position.query_row, position.column);
      args.k = part(all, position.row, inputs.first_key + position.key_column);
      args.v = part(all, position.row, inputs.first_value + position.key_column);
      args.scale = scale;
      args.causal = setting.causal;
      args.earlier = queries.earlier(sequence);
      args.mask = queries.mask(sequence);
      args.bf16_products = most_args.bf16_products;
      args.log_sum_exp = log_sum_exp + head * queries.rows() + position.query_row;
      args.workspace = memory.data() + task * workspace;
      args.dropout.threshold = dropout_threshold(setting.dropout);
      if (drops) {
        args.dropout.keep_scale =
            static_cast<float>(1 / (1 - static_cast<double>(setting.dropout.probability)));
        args.dropout.draw = setting.dropout.draw;
        args.dropout.draw.index = attention_index(sequences.ordinal(sequence), head, 0, 0);
      }
      run_head(args, position);
    }
  });
}

}  // namespace SOMA_NAMESPACE::detail
