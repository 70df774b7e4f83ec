#pragma once
// How texts are answered: cut into batches, each of which a model computes on a tape that does not
// record. TextClassifier, TextEncoder and Predictor share this.

#include <soma/autograd/var.hpp>
#include <soma/models/tokenized_pairs.hpp>
#include <soma/tensor/dtype.hpp>

#include <cstddef>
#include <string_view>

namespace SOMA_NAMESPACE {

class PackedWeights;  // ops/product/packed_weights.hpp
class Tape;

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::models {

struct AnswerOptions {
  DType activations = DType::fp32;  // TapeOptions::activations
  PackedWeights* packed = nullptr;  // TapeOptions::packed
  // The most tokens of a batch. Texts of more tokens in all are cut into several batches, the
  // longest texts first, so that memory does not grow with their number.
  std::size_t most_tokens = to_end;
  std::size_t* tokens = nullptr;  // the tokens of all texts are added to it
};

namespace detail {

// Computes `width` numbers for each text and writes them to `to`, in the order of the texts. An
// answer has the same bits in every batch. compute(model, tape, ids, types) returns the numbers of
// a batch's texts, fp32 [texts, width]; `types` is not defined() without types. Error
// models.predictor: a text has more tokens than `most_tokens`.
using ComputeAnswers = Var (*)(const void* model, Tape& tape, const Var& ids, const Var& types);
void answer_texts(std::string_view operation, Context& context, const TokenizedPairs& tokens,
                  const AnswerOptions& options, const void* model, ComputeAnswers compute,
                  std::size_t width, float* to);

}  // namespace detail

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/answering.ipp>
#endif
