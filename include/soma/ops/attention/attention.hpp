#pragma once
// Multi-head self-attention over the sequences of a batch (arXiv 1706.03762). The input holds
// queries, keys and values side by side, [rows, 3 C]; or keys and values alone, [rows, 2 C], and a
// second input holds the queries, [rows, C]. A head has C / heads columns of each. Rows attend to
// the rows of their own sequence, so nothing is padded. The result is [rows, C]. If only first rows
// are queries, queries and the result are [sequences, C]: the same rows.
//
// With fewer heads K of keys and values than H of queries (key_value_heads), qkv is
// [rows, (H + 2 K) D] for heads of D columns, or [rows, 2 K D] beside queries [rows, H D], and C is
// H D. The heads of a group, H / K neighbours, read the same keys and values in place; gradients of
// keys and values are added in ascending order of the group's heads, in fp32, and rounded once.
//
// Inputs:
//   qkv           [rows, 3 C], or [rows, 2 C]; their rows form sequences
//   queries       [rows, C], or [sequences, C] where only first rows are queries; or left out
//   mask          boolean, uint8 or int8, one element for each query and key of a sequence,
//                 row-major, one sequence behind the other: a query sees the keys whose flag is
//                 not 0. Left out: all keys
//   query_begins  int64 [sequences + 1]: the queries of sequence i are rows query_begins[i] to
//                 query_begins[i + 1] of `queries`, however many keys it has (cross attention). A
//                 sequence without keys has zeros as results. Left out: queries are the same rows.
//                 With `causal` the queries are the last rows of their sequence: query j of n sees
//                 the keys 0 to S - n + j of S, as where earlier rows' keys were kept
//
// Padding of sequences (SequencesOptions::used) is no key: rows in the padding see the sequence's
// own rows, no row sees the padding, and keys and values in the padding have a gradient of zero.
// Where attention is causal the padding comes behind all own rows, so nothing is left to hide.
//
// With `causal`, row i of a sequence sees rows 0 to i only; a mask can hide further keys. Products
// of 32 queries with keys that all of them ignore are not computed.
//
// Errors operator.value (heads, key_value_heads, head_width; causal with first rows, or with more
// queries than keys; a query that sees no key; a mask beside padding), operator.inputs,
// operator.sequences, tensor.rank, tensor.shape, tensor.dtype, ragged.empty_sequence,
// random.index_range.

#include <soma/ops/attention/heads.hpp>
#include <soma/ops/batch.hpp>
#include <soma/ops/run.hpp>

#include <algorithm>
#include <cstddef>
#include <string>

namespace SOMA_NAMESPACE {

namespace detail {

// The heads of queries, keys and values fit the columns. `apart`: queries are another input.
inline void check_heads(const AttentionSetting& setting, const Tensor& all, bool apart) {
  const std::size_t heads = setting.heads, columns = all.size(1);
  const std::size_t shared = key_value_heads_of(setting);
  if (heads != 0 && heads % shared != 0)
    fail(error_id::operator_value, "attention", "key_value_heads", std::to_string(shared),
         "a divisor of the number of heads, " + std::to_string(heads));
  const bool grouped = shared != heads;
  const std::size_t across = (apart ? 0 : heads) + 2 * shared;
  if (heads == 0 || columns % across != 0)
    fail(error_id::operator_value, "attention", "heads", std::to_string(heads),
         "a number of heads such that " +
             (grouped ? (apart ? "2 * key_value_heads" : "heads + 2 * key_value_heads")
                      : std::string(apart ? "2 * heads" : "3 * heads")) +
             " divides the columns of " + (apart ? "keys and values, " : "qkv, ") + all.describe());
  if (setting.head_width != 0 && setting.head_width * across != columns)
    fail(error_id::operator_value, "attention", "head_width", std::to_string(setting.head_width),
         std::to_string(columns / across) + ", as " + std::to_string(across) +
             " heads lie side by side in " + all.describe());
}

inline void attention_shape(const ShapeCall& call) {
  const auto& setting = call.attributes.as<AttentionSetting>();
  const Tensor& all = call.inputs[0];
  check_rank("attention", "qkv", all, 2);
  check_floating("attention", "qkv", all);
  check_sequences("attention", all, call.sequences);
  if (setting.first_rows) check_first_rows("attention", call.sequences);
  check_heads(setting, all, call.inputs.size() > 1 && call.inputs[1].defined());
  const AttentionInputs inputs = attention_inputs(setting, call.inputs);
  const bool other_rows = inputs.query_begins.defined();
  if (setting.causal && setting.first_rows)
    fail(error_id::operator_value, "attention", "causal", "true, and first rows are queries",
         "queries that are the rows of the keys, or query_begins");
  if (other_rows && (!inputs.apart || setting.first_rows))
    fail(error_id::operator_inputs, "attention", "query_begins",
         inputs.apart ? "given, and first rows are queries" : "given without queries",
         "queries that are apart, more than first rows");
  if (other_rows) {
    if (inputs.query_begins.dtype() != DType::int64)
      fail(error_id::tensor_dtype, "attention", "query_begins", inputs.query_begins.describe(),
           "int64");
    check_shape("attention", "query_begins", inputs.query_begins,
                Shape{call.sequences.count() + 1});
    check_rank("attention", "queries", inputs.q, 2);
  }
  if (inputs.mask.defined()) {
    check_rank("attention", "mask", inputs.mask, 1);
    if (size_of(inputs.mask.dtype()) != 1 || is_floating(inputs.mask.dtype()))
      fail(error_id::tensor_dtype, "attention", "mask", inputs.mask.describe(),
           "boolean, uint8 or int8");
    if (call.sequences.padded())
      fail(error_id::operator_value, "attention", "mask",
           inputs.mask.describe() + " of sequences with padding",
           "none: padding is not looked at by itself");
  }
  std::size_t queries = setting.first_rows ? call.sequences.count() : all.size(0);
  if (other_rows) queries = inputs.q.size(0);
  if (setting.first_rows && !inputs.apart)
    fail(error_id::operator_inputs, "attention", "queries", "left out",
         "one of each sequence, where first rows are queries");
  if (inputs.apart) {
    check_shape("attention", "queries", inputs.q, Shape{queries, inputs.channels});
    if (inputs.q.dtype() != all.dtype())
      fail(error_id::tensor_dtype, "attention", "queries", inputs.q.describe(),
           "the type of keys and values, " + std::string(to_string(all.dtype())));
  }
  if (dropout_threshold(setting.dropout) != 0) {
    for (std::size_t i = 0; i < call.sequences.count(); ++i)
      static_cast<void>(attention_index(call.sequences.ordinal(i), setting.heads - 1,
                                        (std::max)(call.sequences.length(i), std::size_t{1}) - 1,
                                        0));
  }
  call.outputs[0] = {Shape{queries, inputs.channels}, all.dtype()};
  // log-sum-exp of each row of scores: backward recomputes the probabilities from it.
  call.outputs[1] = {Shape{setting.heads, queries}, DType::fp32};
}

// The operations of `products` products of a sequence's queries and keys. Masks are ignored.
inline double attention_operations(const OperatorCall& call, const AttentionInputs& inputs,
                                   double products) {
  const auto& setting = call.attributes.as<AttentionSetting>();
  const QueryRows queries(call.context, setting, inputs, call.sequences);
  double pairs = 0;
  for (std::size_t i = 0; i < call.sequences.count(); ++i) {
    const auto rows = static_cast<double>(queries.length(i));
    pairs +=
        rows * (static_cast<double>(queries.earlier(i)) +
                (setting.causal ? (rows + 1) / 2 : static_cast<double>(call.sequences.length(i))));
  }
  return products * 2.0 * pairs * static_cast<double>(inputs.channels);
}
inline double attention_forward_operations(const OperatorCall& call) {
  const auto& setting = call.attributes.as<AttentionSetting>();
  return attention_operations(call, attention_inputs(setting, call.inputs), 2);
}
inline double attention_backward_operations(const OperatorCall& call) {
  // Backward computes the scores once more.
  const auto& setting = call.attributes.as<AttentionSetting>();
  return attention_operations(call, attention_backward_inputs(setting, call.inputs), 5);
}

inline void attention_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<AttentionSetting>();
  const MatrixTarget out = target(call.outputs[0]);
  for_each_head(
      call, attention_inputs(setting, call.inputs), 1, call.outputs[1].mutable_data<float>(),
      [](std::size_t) {},
      [&](AttentionArgs& args, const HeadPosition& position) {
        args.out = part(out, position.query_row, position.column);
        call.context.kernels().attention.forward(args);
      });
}

// Gradients of keys and values that the heads of a group share: each head's go to memory of the
// task, where they are added in ascending order of heads, in fp32.
class GroupSums {
 public:
  GroupSums(Context& context, std::size_t group, std::size_t keys, std::size_t width)
      : context_(context), group_(group), width_(width), floats_(keys * width) {}
  void begin(std::size_t tasks) {
    if (group_ > 1)
      memory_ = Storage::allocate(
          context_.heap(), checked_multiply(4 * floats_ * sizeof(float), tasks, "attention"));
  }
  // Where a head's gradients go: the target if the head is alone, else memory. `which`: 0 for keys,
  // 1 for values.
  MatrixTarget place(const MatrixTarget& whole, const HeadPosition& position,
                     std::size_t which) const {
    if (group_ == 1) return whole;
    return {.data = own(position.task, which, position.of_group != 0), .row_stride = width_};
  }
  // Adds a head's gradients of `keys` rows; the last head of the group writes the sum.
  void add(const MatrixTarget& whole, std::size_t keys, const HeadPosition& position,
           std::size_t which) const {
    if (position.of_group == 0) return;
    float* const sum = own(position.task, which, false);
    const bool last = position.of_group + 1 == group_;
    context_.kernels().element.binary(
        {.rows = keys,
         .columns = width_,
         .a = {.data = sum, .row_stride = width_},
         .b = {.data = own(position.task, which, true), .row_stride = width_},
         .y = last ? whole : MatrixTarget{.data = sum, .row_stride = width_}});
  }

 private:
  // The sum of the heads before, or the gradients of one head.
  float* own(std::size_t task, std::size_t which, bool one) const {
    return reinterpret_cast<float*>(memory_.data()) +
           (4 * task + 2 * which + (one ? 1 : 0)) * floats_;
  }

  Context& context_;
  std::size_t group_, width_, floats_;
  Storage memory_;
};

// Inputs: qkv, out, log_sum_exp, dout, queries if they are separate, mask, query_begins. Outputs:
// dqkv, and dqueries, which is empty if queries are not separate.
inline void attention_backward_shape(const ShapeCall& call) {
  check_sequences("attention backward", call.inputs[0], call.sequences);
  check_shape("attention backward", "dout", call.inputs[3], call.inputs[1].shape());
  const AttentionInputs inputs =
      attention_backward_inputs(call.attributes.as<AttentionSetting>(), call.inputs);
  call.outputs[0] = {inputs.all.shape(), inputs.all.dtype()};
  call.outputs[1] = {inputs.apart ? inputs.q.shape() : Shape{0}, inputs.all.dtype()};
}

inline void attention_backward_host(const OperatorCall& call) {
  const AttentionInputs inputs =
      attention_backward_inputs(call.attributes.as<AttentionSetting>(), call.inputs);
  const TensorRows out = rows_of(call.context, call.inputs[1]),
                   dout = rows_of(call.context, call.inputs[3]);
  const MatrixTarget dqkv = target(call.outputs[0]);
  const MatrixTarget dq = inputs.apart ? target(call.outputs[1]) : dqkv;
  // The kernel's pointer serves both directions; backward only reads through it.
  auto* log_sum_exp = const_cast<float*>(call.inputs[2].data<float>());
  GroupSums sums(call.context, inputs.group, call.sequences.longest(), inputs.width);
  for_each_head(
      call, inputs, inputs.group, log_sum_exp, [&](std::size_t tasks) { sums.begin(tasks); },
      [&](AttentionArgs& args, const HeadPosition& position) {
        args.forward_out = part(operand(out), position.query_row, position.column);
        args.dout = part(operand(dout), position.query_row, position.column);
        args.dq = part(dq, position.query_row, position.column);
        const MatrixTarget dk = part(dqkv, position.row, inputs.first_key + position.key_column),
                           dv = part(dqkv, position.row, inputs.first_value + position.key_column);
        args.dk = sums.place(dk, position, 0);
        args.dv = sums.place(dv, position, 1);
        clear_rows(dk, args.keys, position.keys, args.width);
        clear_rows(dv, args.keys, position.keys, args.width);
        call.context.kernels().attention.backward(args);
        sums.add(dk, args.keys, position, 0);
        sums.add(dv, args.keys, position, 1);
      });
}

// The rows are those of the queries: of the first rows, of other rows, or of all.
inline void attention_batch(const BatchCall& call) {
  const bool other_rows = call.inputs.size() > 3 && call.inputs[3].defined();
  if (call.attributes.as<AttentionSetting>().first_rows)
    call.results[0] = call.batches[0].summary(call.context);
  else
    call.results[0] = call.batches[other_rows ? 1 : 0];
}

inline void attention_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

inline constexpr Operator attention_backward{.name = "attention backward",
                                             .min_inputs = 4,
                                             .max_inputs = 7,
                                             .outputs = 2,
                                             .shape = &detail::attention_backward_shape,
                                             .host = &detail::attention_backward_host,
                                             .operations = &detail::attention_backward_operations};

inline constexpr Operator attention{.name = "attention",
                                    .max_inputs = 4,
                                    .outputs = 2,
                                    .keeps_inputs = 15,
                                    .keeps_outputs = 3,
                                    .batch = &detail::attention_batch,
                                    .shape = &detail::attention_shape,
                                    .host = &detail::attention_host,
                                    .gradient = &detail::attention_gradient,
                                    .wide_gradients = true,
                                    .built_in_samples = true,
                                    .operations = &detail::attention_forward_operations};

}  // namespace ops

inline void detail::attention_gradient(const GradientCall& call) {
  const AttentionInputs inputs =
      attention_inputs(call.attributes.as<AttentionSetting>(), call.inputs);
  const bool apart = inputs.apart;
  const Outputs gradients =
      run(call.context, ops::attention_backward, call.attributes,
          {call.inputs[0], call.outputs[0], call.outputs[1], call.output_gradients[0],
           apart ? call.inputs[1] : Tensor(), inputs.mask, inputs.query_begins},
          call.sequences);
  call.input_gradients[0].values = gradients[0];
  if (apart) call.input_gradients[1].values = gradients[1];
}

}  // namespace SOMA_NAMESPACE
