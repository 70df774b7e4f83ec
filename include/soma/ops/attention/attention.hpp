#pragma once
// Multi-head self-attention over the sequences of a batch (arXiv 1706.03762). The input holds
// queries, keys and values side by side: [rows, 3 C]; or keys and values alone, [rows, 2 C], beside
// a second one, queries [rows, C]. Heads are C / heads columns of each. Rows attend to the rows of
// their own sequence, so there is nothing to pad and nothing to mask. The result is [rows, C].
// Where only first rows are queries, queries and the result are [sequences, C]: the same rows.

#include <soma/ops/element/dropout.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/samples.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace soma {

namespace detail {

// What queries, keys and values are columns of.
struct AttentionInputs {
  // `queries` is the number of the input that holds them where they are apart.
  AttentionInputs(std::span<const Tensor> inputs, std::size_t queries)
      : all(inputs[0]),
        apart(inputs.size() > queries && inputs[queries].defined()),
        q(apart ? inputs[queries] : all),
        channels(all.size(1) / (apart ? 2 : 3)),
        first_key(apart ? 0 : channels),
        first_value(first_key + channels) {}

  const Tensor& all;
  bool apart;
  const Tensor& q;
  std::size_t channels, first_key, first_value;
};
inline AttentionInputs attention_inputs(std::span<const Tensor> inputs) { return {inputs, 1}; }
inline AttentionInputs attention_backward_inputs(std::span<const Tensor> inputs) {
  return {inputs, 4};
}

inline void attention_shape(const ShapeCall& call) {
  const auto& setting = call.attributes.as<AttentionSetting>();
  const Tensor& all = call.inputs[0];
  check_rank("attention", "qkv", all, 2);
  check_floating("attention", "qkv", all);
  check_sequences("attention", all, call.sequences);
  if (setting.first_rows) check_first_rows("attention", call.sequences);
  check_dropout("attention", setting.dropout);
  const AttentionInputs inputs = attention_inputs(call.inputs);
  if (setting.heads == 0 || all.size(1) % ((inputs.apart ? 2 : 3) * setting.heads) != 0)
    fail(error_id::operator_value, "attention", "heads", std::to_string(setting.heads),
         (inputs.apart ? "a number whose double divides the columns of keys and values, "
                       : "a number whose triple divides the columns of qkv, ") +
             all.describe());
  const std::size_t queries = setting.first_rows ? call.sequences.count() : all.size(0);
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
  // log-sum-exp of each row of scores: what backward recomputes the probabilities from.
  call.outputs[1] = {Shape{setting.heads, queries}, DType::fp32};
}

// Where a head of a sequence is: its first row of keys and values, and of queries and the result;
// the head's first column of queries, keys, values and the result each.
struct HeadPlace {
  std::size_t row, query_row, column;
};

// Calls run(args, place) for each sequence and head, with what forward and backward share filled
// in. Parts of about equal cost go to the executor.
template <class Run>
void for_each_head(const OperatorCall& call, const AttentionInputs& inputs, float* log_sum_exp,
                   const Run& run_head) {
  const auto& setting = call.attributes.as<AttentionSetting>();
  const Sequences& sequences = call.sequences;
  const AttentionKernels& kernels = call.context.kernels().attention;
  const std::size_t width = inputs.channels / setting.heads;
  const std::size_t longest = sequences.longest();
  const std::size_t results = setting.first_rows ? sequences.count() : sequences.rows();
  const auto queries = [&](std::size_t length) { return setting.first_rows ? 1 : length; };
  const auto cost = [&](std::size_t item) {
    const std::size_t length = sequences.length(item / setting.heads);
    return length * (queries(length) + 64) * width;
  };
  constexpr std::size_t worth_a_task = 50000;  // multiply-adds
  const UnevenRanges parts(call.context, sequences.count() * setting.heads, worth_a_task, cost);
  if (parts.tasks() == 0) return;
  AttentionArgs most_args{.queries = queries(longest), .keys = longest, .width = width};
  most_args.bf16_products = call.context.bf16().products;
  const std::size_t workspace = (kernels.workspace_bytes(most_args) + memory_alignment - 1) /
                                memory_alignment * memory_alignment;
  const Storage memory = Storage::allocate(call.context.heap(),
                                           checked_multiply(workspace, parts.tasks(), "attention"));
  const float scale = 1.0f / std::sqrt(static_cast<float>(width));
  parts.run(call.context, [&](std::size_t begin, std::size_t end, std::size_t task) {
    for (std::size_t item = begin; item < end; ++item) {
      const std::size_t sequence = item / setting.heads, head = item % setting.heads;
      const std::size_t length = sequences.length(sequence);
      if (length == 0) continue;
      const HeadPlace place{.row = sequences.begin(sequence),
                            .query_row = setting.first_rows ? sequence : sequences.begin(sequence),
                            .column = head * width};
      AttentionArgs args{.queries = queries(length), .keys = length, .width = width};
      const MatrixOperand all = operand(inputs.all);
      args.q = part(operand(inputs.q), place.query_row, place.column);
      args.k = part(all, place.row, inputs.first_key + place.column);
      args.v = part(all, place.row, inputs.first_value + place.column);
      args.scale = scale;
      args.bf16_products = most_args.bf16_products;
      args.log_sum_exp = log_sum_exp + head * results + place.query_row;
      args.workspace = memory.data() + task * workspace;
      args.dropout.threshold = dropout_threshold(setting.dropout);
      if (args.dropout.threshold != 0) {
        args.dropout.keep_scale =
            static_cast<float>(1 / (1 - static_cast<double>(setting.dropout.probability)));
        args.dropout.draw = setting.dropout.draw;
        args.dropout.draw.index = attention_index(sequences.ordinal(sequence), head, 0, 0);
      }
      run_head(args, place);
    }
  });
}

// Of so many products of a sequence's queries and keys.
inline double attention_operations(const OperatorCall& call, const AttentionInputs& inputs,
                                   double products) {
  const bool first_rows = call.attributes.as<AttentionSetting>().first_rows;
  double pairs = 0;
  for (std::size_t i = 0; i < call.sequences.count(); ++i) {
    const auto length = static_cast<double>(call.sequences.length(i));
    pairs += (first_rows ? 1 : length) * length;
  }
  return products * 2.0 * pairs * static_cast<double>(inputs.channels);
}
inline double attention_forward_operations(const OperatorCall& call) {
  return attention_operations(call, attention_inputs(call.inputs), 2);
}
inline double attention_backward_operations(const OperatorCall& call) {
  // The scores once more.
  return attention_operations(call, attention_backward_inputs(call.inputs), 5);
}

inline void attention_host(const OperatorCall& call) {
  const MatrixTarget out = target(call.outputs[0]);
  for_each_head(call, attention_inputs(call.inputs), call.outputs[1].mutable_data<float>(),
                [&](AttentionArgs& args, const HeadPlace& place) {
                  args.out = part(out, place.query_row, place.column);
                  call.context.kernels().attention.forward(args);
                });
}

// Inputs qkv, out, log_sum_exp, dout, and queries where they are apart; outputs dqkv, and dqueries,
// which is empty where they are not.
inline void attention_backward_shape(const ShapeCall& call) {
  check_sequences("attention backward", call.inputs[0], call.sequences);
  check_shape("attention backward", "dout", call.inputs[3], call.inputs[1].shape());
  const AttentionInputs inputs = attention_backward_inputs(call.inputs);
  call.outputs[0] = {inputs.all.shape(), inputs.all.dtype()};
  call.outputs[1] = {inputs.apart ? inputs.q.shape() : Shape{0}, inputs.all.dtype()};
}

inline void attention_backward_host(const OperatorCall& call) {
  const AttentionInputs inputs = attention_backward_inputs(call.inputs);
  const Tensor& out = call.inputs[1];
  const Tensor dout = regular(call.context, call.inputs[3]);
  const MatrixTarget dqkv = target(call.outputs[0]);
  const MatrixTarget dq = inputs.apart ? target(call.outputs[1]) : dqkv;
  // The kernel's pointer serves both directions; backward only reads.
  auto* log_sum_exp = const_cast<float*>(call.inputs[2].data<float>());
  for_each_head(call, inputs, log_sum_exp, [&](AttentionArgs& args, const HeadPlace& place) {
    args.forward_out = part(operand(out), place.query_row, place.column);
    args.dout = part(operand(dout), place.query_row, place.column);
    args.dq = part(dq, place.query_row, place.column);
    args.dk = part(dqkv, place.row, inputs.first_key + place.column);
    args.dv = part(dqkv, place.row, inputs.first_value + place.column);
    call.context.kernels().attention.backward(args);
  });
}

inline void attention_gradient(const GradientCall& call);

inline std::vector<ReferenceTensor> attention_reference(
    const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
  const auto& setting = sample.attributes.as<AttentionSetting>();
  const ReferenceTensor& all = inputs[0];
  const bool apart = inputs.size() > 1 && inputs[1].defined;
  const std::size_t channels = all.shape[1] / (apart ? 2 : 3), width = channels / setting.heads;
  const std::uint32_t threshold = dropout_threshold(setting.dropout);
  const bool first = setting.first_rows;
  ReferenceTensor y{Shape{first ? sample.lengths.size() : all.shape[0], channels}, {}};
  y.values.assign(y.shape.elements(), 0.0);
  std::size_t begin = 0;
  for (std::size_t s = 0; s < sample.lengths.size(); begin += sample.lengths[s++])
    for (std::size_t head = 0; head < setting.heads; ++head)
      for (std::size_t i = 0; i < (first ? 1 : sample.lengths[s]); ++i) {
        const auto at = [&](std::size_t part, std::size_t row, std::size_t c) {
          const std::size_t column = head * width + c;
          if (apart && part == 0)
            return inputs[1].values[((first ? s : begin) + row) * channels + column];
          return all
              .values[(begin + row) * all.shape[1] + (part - (apart ? 1 : 0)) * channels + column];
        };
        std::vector<double> p(sample.lengths[s]);
        double sum = 0;
        for (std::size_t j = 0; j < p.size(); ++j) {
          double score = 0;
          for (std::size_t c = 0; c < width; ++c) score += at(0, i, c) * at(1, j, c);
          sum += p[j] = std::exp(score / std::sqrt(static_cast<double>(width)));
        }
        for (std::size_t j = 0; j < p.size(); ++j) {
          double probability = p[j] / sum;
          if (threshold != 0) {
            Draw draw = setting.dropout.draw;
            draw.index = attention_index(s, head, i, j);
            probability =
                random_word(draw) < threshold
                    ? 0
                    : probability *
                          static_cast<double>(static_cast<float>(
                              1 / (1 - static_cast<double>(setting.dropout.probability))));
          }
          for (std::size_t c = 0; c < width; ++c)
            y.values[(first ? s : begin + i) * channels + head * width + c] +=
                probability * at(2, j, c);
        }
      }
  return {y};
}

inline OperatorSamples attention_samples() {
  OperatorSamples result;
  result.reference = &attention_reference;
  const auto add = [&](std::size_t channels, std::size_t heads, std::vector<std::size_t> lengths,
                       float probability, bool apart = false, bool first_rows = false) {
    std::size_t rows = 0, longest = 0;
    for (const std::size_t length : lengths) {
      rows += length;
      longest = (std::max)(longest, length);
    }
    const double error = 16 * static_cast<double>(longest + channels / heads) * 0x1p-24;
    result.samples.push_back(
        {.name = std::to_string(rows) + " rows, " + std::to_string(heads) + " heads" +
                 (first_rows ? ", first rows"
                  : apart    ? ", queries apart"
                             : ""),
         .inputs = {{.shape = Shape{rows, (apart ? 2 : 3) * channels}},
                    {.shape = Shape{first_rows ? lengths.size() : rows, channels},
                     .left_out = !apart}},
         .attributes = AttentionSetting{heads,
                                        {.probability = probability,
                                         .draw = {.seed = 1, .stream = 2, .step = 3}},
                                        first_rows},
         .lengths = std::move(lengths),
         .error = error,
         .gradient_error = error});
  };
  add(8, 2, {3, 0, 1, 5}, 0);
  add(6, 3, {7, 2}, 0.25f);
  add(4, 1, {}, 0);
  add(32, 2, {17}, 0.1f);
  add(8, 2, {3, 0, 1, 5}, 0, true);
  add(6, 3, {7, 2}, 0.25f, true);
  add(8, 2, {3, 1, 5}, 0, true, true);
  add(6, 3, {7, 2}, 0.25f, true, true);
  add(4, 1, {}, 0, true, true);
  return result;
}

}  // namespace detail

namespace ops {

inline constexpr Operator attention_backward{.name = "attention backward",
                                             .min_inputs = 4,
                                             .max_inputs = 5,
                                             .outputs = 2,
                                             .shape = &detail::attention_backward_shape,
                                             .host = &detail::attention_backward_host,
                                             .operations = &detail::attention_backward_operations};

inline constexpr Operator attention{.name = "attention",
                                    .max_inputs = 2,
                                    .outputs = 2,
                                    .keeps_inputs = 3,
                                    .keeps_outputs = 3,
                                    .shape = &detail::attention_shape,
                                    .host = &detail::attention_host,
                                    .gradient = &detail::attention_gradient,
                                    .samples = &detail::attention_samples,
                                    .operations = &detail::attention_forward_operations};

}  // namespace ops

inline void detail::attention_gradient(const GradientCall& call) {
  const bool apart = attention_inputs(call.inputs).apart;
  const Outputs gradients = run(call.context, ops::attention_backward, call.attributes,
                                {call.inputs[0], call.outputs[0], call.outputs[1],
                                 call.output_gradients[0], apart ? call.inputs[1] : Tensor()},
                                call.sequences);
  call.input_gradients[0].values = gradients[0];
  if (apart) call.input_gradients[1].values = gradients[1];
}

}  // namespace soma
