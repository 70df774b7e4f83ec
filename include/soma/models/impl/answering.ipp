#pragma once
// The functions of answering.hpp.

#include <soma/models/answering.hpp>

#include <soma/autograd/tape.hpp>
#include <soma/base/error.hpp>
#include <soma/base/error_ids.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::models::detail {

// The texts of one batch.
class AnswerBatch {
 public:
  AnswerBatch(Context& context, const TokenizedPairs& tokens, std::span<const std::size_t> texts)
      : context_(context), tokens_(tokens), texts_(texts) {
    HeapVector<std::size_t> lengths(context.heap());
    for (const std::size_t text : texts)
      lengths.push_back(tokens.offsets[text + 1] - tokens.offsets[text]);
    sequences_ = Sequences::from_lengths(context, {lengths.data(), lengths.size()});
  }
  // One list of the texts' tokens.
  Var of(Tape& tape, std::span<const std::int32_t> all) const {
    const Tensor ids = Tensor::empty(context_, Shape{sequences_.rows()}, DType::int32);
    auto* to = ids.mutable_data<std::int32_t>();
    for (const std::size_t text : texts_) {
      const std::size_t begin = tokens_.offsets[text], count = tokens_.offsets[text + 1] - begin;
      std::memcpy(to, all.data() + begin, count * sizeof(std::int32_t));
      to += count;
    }
    return tape.constant(ids, sequences_);
  }

 private:
  Context& context_;
  const TokenizedPairs& tokens_;
  std::span<const std::size_t> texts_;
  Sequences sequences_{};
};

SOMA_INLINE void answer_texts(std::string_view operation, Context& context,
                              const TokenizedPairs& tokens, const AnswerOptions& options,
                              const void* model, ComputeAnswers compute, std::size_t width,
                              float* to) {
  const std::size_t count = tokens.offsets.empty() ? 0 : tokens.offsets.size() - 1;
  const auto length = [&](std::size_t i) { return tokens.offsets[i + 1] - tokens.offsets[i]; };
  if (options.tokens != nullptr) *options.tokens += tokens.ids.size();
  HeapVector<std::size_t> order(context.heap());
  for (std::size_t i = 0; i < count; ++i) order.push_back(i);
  if (count != 0 && tokens.offsets[count] > options.most_tokens)
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return length(a) > length(b); });
  for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
    if (length(order[begin]) > options.most_tokens)
      fail(error_id::predictor, operation, "most_tokens", std::to_string(options.most_tokens),
           "at least the tokens of the longest text, " + std::to_string(length(order[begin])));
    std::size_t held = 0;
    while (end < count && held + length(order[end]) <= options.most_tokens)
      held += length(order[end++]);
    const std::span<const std::size_t> texts(order.data() + begin, end - begin);
    const AnswerBatch batch(context, tokens, texts);
    Tape tape(context, {.record = false,
                        .training = false,
                        .activations = options.activations,
                        .packed = options.packed});
    const Var ids = batch.of(tape, tokens.ids);
    const Var types = tokens.types.empty() ? Var() : batch.of(tape, tokens.types);
    const Tensor found = contiguous(context, compute(model, tape, ids, types).value());
    const float* from = found.data<float>();
    for (std::size_t i = 0; i < texts.size(); ++i)
      std::copy_n(from + i * width, width, to + texts[i] * width);
  }
}

}  // namespace SOMA_NAMESPACE::models::detail
