#pragma once
// How the next token is chosen from a row of scores: greedily, or by a draw. The steps, their order
// and their ties are those of the usual library (transformers' logits processors):
//
//   repetition_penalty  scores of ids that prompt and text have already, each id once: a score
//                       below 0 times the penalty, else divided by it
//   temperature         scores divided by it; 0: greedy, the steps below are left out
//   top_k               keeps the k best scores, and all that equal the k-th
//   top_p               keeps the fewest likely tokens whose probabilities reach p together, the
//                       one that crosses p with them; of equal ones lower ids stay (there it
//                       depends on the sort)
//   min_p               keeps tokens at least min_p times as likely as the likeliest
//
// At least one token stays. Scores are fp32, probabilities are computed in double.

#include <soma/ops/settings.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::models {

struct SamplingOptions {
  float temperature = 0;         // 0: greedy, the likeliest token; of equal ones the lowest id
  std::size_t top_k = 0;         // 0: all
  float top_p = 1, min_p = 0;    // 0 to 1; 1 and 0 keep all tokens
  float repetition_penalty = 1;  // above 0; 1: none
};
void fields(FieldVisitor& visitor, SamplingOptions& options);

struct TokenChance {
  std::int32_t id = 0;
  double probability = 0;
};

// The tokens that may come next, as their ids ascend, with probabilities that add to 1. `scores`:
// the model's, [V]. `seen`: the ids of prompt and text. `drawable`: not 0 for ids that may come,
// [V]; empty: all. Errors models.not_finite: the score of a drawable id is not finite (`what` names
// the text); models.generator: no drawable id; operator.value: options out of range.
std::vector<TokenChance> token_chances(std::span<const float> scores,
                                       const SamplingOptions& options,
                                       std::span<const std::int32_t> seen = {},
                                       std::span<const std::uint8_t> drawable = {},
                                       std::string_view what = "a text");

// The token that the draw of (seed, prompt, position) chooses. The draw depends on nothing else.
TokenChance draw_token(std::span<const TokenChance> chances, std::uint64_t seed,
                       std::uint64_t prompt, std::uint32_t position);

// The natural logarithm of a token's probability among all `scores`, before any setting.
float log_probability(std::span<const float> scores, std::int32_t id);

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/decoder/impl/sampling.ipp>
#endif
