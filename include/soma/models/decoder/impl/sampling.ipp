#pragma once
// The functions of sampling.hpp.

#include <soma/models/decoder/sampling.hpp>

#include <soma/base/error.hpp>
#include <soma/base/error_ids.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/numeric/portable_math.hpp>
#include <soma/ops/fields.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::models::detail {

// A token that may come, while settings leave tokens out.
struct ScoredToken {
  std::int32_t id;
  float score;
  double weight = 0;  // exp(score - largest)
};

// Apart from the loop over all scores, which stays short.
[[noreturn]] inline void refuse_score(std::size_t id, float score, std::string_view what,
                                      std::string_view wanted) {
  fail(error_id::model_not_finite, "TextGenerator", "score of token " + std::to_string(id),
       std::to_string(score) + " for " + std::string(what), wanted);
}

// Calls each(id, score) for the scores behind repetition penalty and temperature, of drawable ids.
template <class Each>
void for_scores(std::span<const float> scores, const SamplingOptions& options,
                std::span<const std::int32_t> seen, std::span<const std::uint8_t> drawable,
                std::string_view what, const Each& each) {
  std::vector<bool> known;
  const bool penalised = options.repetition_penalty != 1;
  if (penalised) {
    known.resize(scores.size());
    for (const std::int32_t id : seen)
      if (id >= 0 && static_cast<std::size_t>(id) < scores.size())
        known[static_cast<std::size_t>(id)] = true;
  }
  bool any = false;
  for (std::size_t id = 0; id < scores.size(); ++id) {
    if (!drawable.empty() && drawable[id] == 0) continue;
    float score = scores[id];
    if (!std::isfinite(score))
      refuse_score(id, score, what,
                   "a finite number: the weights are broken, or a precision is too narrow");
    if (penalised && known[id])
      score = score < 0 ? score * options.repetition_penalty : score / options.repetition_penalty;
    if (options.temperature > 0) score /= options.temperature;
    if (!std::isfinite(score))
      refuse_score(id, score, what,
                   "a finite number behind repetition_penalty and temperature, which are extreme");
    any = true;
    each(static_cast<std::int32_t>(id), score);
  }
  if (!any)
    fail(error_id::generator, "TextGenerator", "drawable", "no id for " + std::string(what),
         "at least one id that stands for a token");
}

inline void keep_top_k(std::vector<ScoredToken>& tokens, std::size_t k) {
  if (k == 0 || k >= tokens.size()) return;
  std::vector<float> scores;
  for (const ScoredToken& token : tokens) scores.push_back(token.score);
  const auto at = scores.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(scores.begin(), at, scores.end(), [](float a, float b) { return a > b; });
  const float last = *at;
  tokens.erase(std::remove_if(tokens.begin(), tokens.end(),
                              [&](const ScoredToken& token) { return token.score < last; }),
               tokens.end());
}

// Returns the sum of the weights that are kept.
inline double keep_top_p(std::vector<ScoredToken>& tokens, double p, double total) {
  const double left_out = (1 - p) * total;
  // Tokens with less than an equal share of it are left out in any case, and need not be sorted.
  const double small = left_out / static_cast<double>(tokens.size());
  double sum = 0;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i].weight < small)
      sum += tokens[i].weight;
    else
      order.push_back(i);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return tokens[a].score != tokens[b].score ? tokens[a].score < tokens[b].score : a > b;
  });
  std::vector<bool> kept(tokens.size());
  double kept_sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double weight = tokens[order[i]].weight;
    sum += weight;
    if (sum <= left_out && i + 1 != order.size()) continue;
    kept[order[i]] = true;
    kept_sum += weight;
  }
  std::size_t to = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (kept[i]) tokens[to++] = tokens[i];
  tokens.resize(to);
  return kept_sum;
}

}  // namespace SOMA_NAMESPACE::models::detail

namespace SOMA_NAMESPACE::models {

SOMA_INLINE void fields(FieldVisitor& visitor, SamplingOptions& options) {
  visitor.option("temperature", options.temperature, NumberRange::at_least(0));
  visitor.option("top_k", options.top_k);
  visitor.option("top_p", options.top_p, NumberRange::within(0, 1));
  visitor.option("min_p", options.min_p, NumberRange::within(0, 1));
  visitor.option("repetition_penalty", options.repetition_penalty, NumberRange::above(0));
}

SOMA_INLINE std::vector<TokenChance> token_chances(std::span<const float> scores,
                                                   const SamplingOptions& options,
                                                   std::span<const std::int32_t> seen,
                                                   std::span<const std::uint8_t> drawable,
                                                   std::string_view what) {
  check_ranges("TextGenerator", options);
  // The first of the best.
  detail::ScoredToken best{-1, -std::numeric_limits<float>::infinity()};
  const auto note = [&](std::int32_t id, float score) {
    if (score > best.score) best = {id, score};
  };
  if (options.temperature == 0) {
    detail::for_scores(scores, options, seen, drawable, what, note);
    return {{best.id, 1}};
  }
  std::vector<detail::ScoredToken> tokens;
  tokens.reserve(scores.size());
  detail::for_scores(scores, options, seen, drawable, what, [&](std::int32_t id, float score) {
    tokens.push_back({id, score});
    note(id, score);
  });
  const auto largest = static_cast<double>(best.score);
  detail::keep_top_k(tokens, options.top_k);
  double total = 0;
  for (detail::ScoredToken& token : tokens)
    total += token.weight = portable_exp(static_cast<double>(token.score) - largest);
  if (options.top_p < 1)
    total = detail::keep_top_p(tokens, static_cast<double>(options.top_p), total);
  if (options.min_p > 0) {
    // The likeliest token has weight 1.
    const auto least = static_cast<double>(options.min_p);
    total = 0;
    tokens.erase(std::remove_if(tokens.begin(), tokens.end(),
                                [&](const detail::ScoredToken& token) {
                                  const bool kept = token.weight >= least;
                                  if (kept) total += token.weight;
                                  return !kept;
                                }),
                 tokens.end());
  }
  std::vector<TokenChance> chances;
  for (const detail::ScoredToken& token : tokens)
    chances.push_back({token.id, token.weight / total});
  return chances;
}

SOMA_INLINE TokenChance draw_token(std::span<const TokenChance> chances, std::uint64_t seed,
                                   std::uint64_t prompt, std::uint32_t position) {
  if (chances.size() == 1) return chances.front();
  const auto words = random_block(
      {.seed = seed, .stream = stream_id("TextGenerator", "token"), .step = position}, prompt);
  const std::uint64_t bits = (std::uint64_t{words[0]} << 32 | words[1]) >> 11;  // 53 of them
  const double at = static_cast<double>(bits) * 0x1p-53;
  double sum = 0;
  for (const TokenChance& chance : chances)
    if ((sum += chance.probability) > at) return chance;
  return chances.back();  // the probabilities add to a little less than 1
}

SOMA_INLINE float log_probability(std::span<const float> scores, std::int32_t id) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const float score : scores) largest = (std::max)(largest, static_cast<double>(score));
  for (const float score : scores) sum += portable_exp(static_cast<double>(score) - largest);
  return static_cast<float>(static_cast<double>(scores[static_cast<std::size_t>(id)]) - largest -
                            portable_log(sum));
}

}  // namespace SOMA_NAMESPACE::models
