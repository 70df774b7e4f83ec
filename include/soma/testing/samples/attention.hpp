#pragma once
// Attention's samples, and its formulas in double.

#include <soma/ops/attention/heads.hpp>
#include <soma/ops/samples.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::detail {

inline std::vector<ReferenceTensor> attention_reference(
    const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
  const auto& setting = sample.attributes.as<AttentionSetting>();
  const auto given = [&](std::size_t i) { return inputs.size() > i && inputs[i].defined; };
  const ReferenceTensor& all = inputs[0];
  const bool apart = given(1), first = setting.first_rows;
  const std::size_t shared = key_value_heads_of(setting), group = setting.heads / shared,
                    width = all.shape[1] / ((apart ? 0 : setting.heads) + 2 * shared),
                    channels = setting.heads * width;
  const std::uint32_t threshold = dropout_threshold(setting.dropout);
  ReferenceTensor y{Shape{apart ? inputs[1].shape[0] : all.shape[0], channels}, {}};
  y.values.assign(y.shape.elements(), 0.0);
  std::size_t begin = 0, flags = 0;
  for (std::size_t s = 0; s < sample.lengths.size(); ++s) {
    const std::size_t keys = sample.lengths[s];
    std::size_t query_begin = first ? s : begin, queries = first ? 1 : keys;
    if (given(3)) {
      query_begin = static_cast<std::size_t>(inputs[3].values[s]);
      queries = static_cast<std::size_t>(inputs[3].values[s + 1]) - query_begin;
    }
    for (std::size_t head = 0; head < setting.heads; ++head)
      for (std::size_t i = 0; keys != 0 && i < queries; ++i) {
        const auto at = [&](std::size_t part, std::size_t row, std::size_t c) {
          const std::size_t column = head * width + c;
          if (apart && part == 0) return inputs[1].values[(query_begin + row) * channels + column];
          const double* const from = &all.values[(begin + row) * all.shape[1]];
          if (part == 0) return from[column];
          return from[(apart ? 0 : channels) + ((part - 1) * shared + head / group) * width + c];
        };
        std::vector<double> p(keys);
        double sum = 0;
        for (std::size_t j = 0; j < keys; ++j) {
          if (setting.causal && j > i + (given(3) ? keys - queries : 0)) continue;
          if (given(2) && inputs[2].values[flags + i * keys + j] == 0) continue;
          double score = 0;
          for (std::size_t c = 0; c < width; ++c) score += at(0, i, c) * at(1, j, c);
          sum += p[j] = std::exp(score / std::sqrt(static_cast<double>(width)));
        }
        for (std::size_t j = 0; j < keys; ++j) {
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
            y.values[(query_begin + i) * channels + head * width + c] += probability * at(2, j, c);
        }
      }
    flags += queries * keys;
    begin += keys;
  }
  return {y};
}

// A sample of attention. Its mask, if any, hides about a third of the keys, and never the first.
struct AttentionSample {
  std::size_t channels, heads;
  std::vector<std::size_t> lengths;  // lengths of the sequences of keys
  float probability = 0;
  bool apart = false, first_rows = false, causal = false, masked = false;
  std::vector<std::size_t> queries{};  // lengths of the sequences of queries, if they differ
  std::size_t key_value_heads = 0;
};

inline Sample attention_sample(const AttentionSample& of) {
  std::size_t rows = 0, longest = 0, results = 0, flags = 0;
  std::vector<double> begins{0}, mask;
  for (std::size_t i = 0; i < of.lengths.size(); ++i) {
    const std::size_t keys = of.lengths[i];
    const std::size_t queries = !of.queries.empty() ? of.queries[i] : of.first_rows ? 1 : keys;
    rows += keys;
    results += queries;
    begins.push_back(static_cast<double>(results));
    longest = (std::max)({longest, keys, queries});
    for (std::size_t flag = 0; flag < queries * keys; ++flag)
      mask.push_back(flag % keys == 0 || (flags + flag * 7) % 3 != 0 ? 1 : 0);
    flags += queries * keys;
  }
  const bool apart = of.apart || !of.queries.empty();
  const std::size_t width = of.channels / of.heads,
                    shared = of.key_value_heads == 0 ? of.heads : of.key_value_heads;
  const double error = 16 * static_cast<double>(longest + of.channels / of.heads) * 0x1p-24;
  Sample sample{.name = std::to_string(rows) + " rows, " + std::to_string(of.heads) + " heads" +
                        (of.first_rows ? ", first rows"
                         : apart       ? ", queries apart"
                                       : "") +
                        (of.causal ? ", causal" : "") + (of.masked ? ", masked" : "") +
                        (of.queries.empty() ? "" : ", other queries") +
                        (shared == of.heads ? "" : ", " + std::to_string(shared) + " of keys"),
                .inputs = {{.shape = Shape{rows, ((apart ? 0 : of.heads) + 2 * shared) * width}},
                           {.shape = Shape{results, of.channels}, .left_out = !apart},
                           {.shape = Shape{flags},
                            .dtype = DType::boolean,
                            .values = std::move(mask),
                            .left_out = !of.masked},
                           {.shape = Shape{of.lengths.size() + 1},
                            .dtype = DType::int64,
                            .values = std::move(begins),
                            .left_out = of.queries.empty()}},
                .attributes = AttentionSetting{of.heads,
                                               {.probability = of.probability,
                                                .draw = {.seed = 1, .stream = 2, .step = 3}},
                                               of.first_rows,
                                               of.causal,
                                               of.key_value_heads},
                .lengths = of.lengths,
                .error = error,
                .gradient_error = error,
                // Rounded probabilities: 2^-8 of the sum of |p v|, for values up to 1.
                .bf16_error = 0x1p-8 / (1 - static_cast<double>(of.probability))};
  return sample;
}

inline OperatorSamples attention_samples() {
  OperatorSamples result;
  result.reference = &attention_reference;
  for (const AttentionSample& sample : std::initializer_list<AttentionSample>{
           {8, 2, {3, 0, 1, 5}},
           {6, 3, {7, 2}, 0.25f},
           {4, 1, {}},
           {32, 2, {17}, 0.1f},
           {8, 2, {3, 0, 1, 5}, 0, true},
           {6, 3, {7, 2}, 0.25f, true},
           {.channels = 8, .heads = 2, .lengths = {3, 1, 5}, .apart = true, .first_rows = true},
           {6, 3, {7, 2}, 0.25f, true, true},
           {4, 1, {}, 0, true, true},
           {.channels = 8, .heads = 2, .lengths = {3, 0, 1, 7}, .causal = true},
           {.channels = 6,
           .heads = 3,
           .lengths = {17, 2},
           .probability = 0.25f,
           .apart = true,
           .causal = true},
           {.channels = 8, .heads = 2, .lengths = {3, 0, 1, 7}, .masked = true},
           {.channels = 4, .heads = 1, .lengths = {9, 2}, .causal = true, .masked = true},
           {.channels = 8,
           .heads = 2,
           .lengths = {3, 0, 4, 5},
           .probability = 0.25f,
           .queries = {2, 3, 0, 6}},
           {.channels = 4, .heads = 1, .lengths = {5, 2}, .masked = true, .queries = {1, 8}},
           {.channels = 8,
           .heads = 2,
           .lengths = {3, 0, 7, 40},
           .causal = true,
           .queries = {1, 0, 3, 35},
           .key_value_heads = 1},
           {.channels = 24,
           .heads = 6,
           .lengths = {3, 0, 1, 7},
           .causal = true,
           .key_value_heads = 2},
           {.channels = 12,
           .heads = 4,
           .lengths = {7, 2},
           .probability = 0.25f,
           .key_value_heads = 1},
           {.channels = 8,
           .heads = 4,
           .lengths = {3, 1, 5},
           .apart = true,
           .first_rows = true,
           .key_value_heads = 2}})
    result.samples.push_back(attention_sample(sample));
  return result;
}

}  // namespace SOMA_NAMESPACE::detail
