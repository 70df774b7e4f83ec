#pragma once
// The functions of next_token.hpp.

#include <soma/metrics/next_token.hpp>

#include <soma/base/error.hpp>
#include <soma/numeric/portable_math.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

namespace SOMA_NAMESPACE::metrics {

SOMA_INLINE void NextToken::put(double loss, std::size_t hits, std::span<float, scores> to) {
  to[0] = static_cast<float>(loss);
  // 48 bits of the sum: a relative error below 4e-15. An infinite sum has no rest.
  const double rest = loss - static_cast<double>(to[0]);
  to[1] = rest == rest ? static_cast<float>(rest) : 0.0f;
  to[2] = static_cast<float>(hits);
}

SOMA_INLINE void NextToken::add(std::span<const float> given, const Tensor& labels) {
  if (labels.dtype() != DType::int64 || labels.elements() * scores != given.size() * 2)
    fail(error_id::train_label, "metrics::NextToken", "labels", labels.describe(),
         "int64, tokens and bytes of each of " + std::to_string(given.size() / scores) + " cases");
  const std::span<const std::int64_t> counts = labels.span<std::int64_t>();
  for (std::size_t i = 0; i < given.size() / scores; ++i) {
    const float* const score = given.data() + i * scores;
    loss_ += static_cast<double>(score[0]) + static_cast<double>(score[1]);
    hits_ += static_cast<std::uint64_t>(score[2]);
    tokens_ += static_cast<std::uint64_t>(counts[2 * i]);
    bytes_ += static_cast<std::uint64_t>(counts[2 * i + 1]);
    ++cases_;
  }
}

SOMA_INLINE double NextToken::perplexity() const {
  constexpr double most = 709;  // the exponential of more than that is no double
  const double mean = loss_ / static_cast<double>(tokens_);
  return mean > most ? std::numeric_limits<double>::infinity() : portable_exp(mean);
}

SOMA_INLINE double NextToken::accuracy() const {
  return tokens_ == 0 ? std::numeric_limits<double>::quiet_NaN()
                      : static_cast<double>(hits_) / static_cast<double>(tokens_);
}

SOMA_INLINE double NextToken::bits_per_byte() const {
  constexpr double ln_2 = 0x1.62e42fefa39efp-1;
  return bytes_ == 0 ? std::numeric_limits<double>::quiet_NaN()
                     : loss_ / ln_2 / static_cast<double>(bytes_);
}

SOMA_INLINE Values NextToken::values() const {
  return {{"perplexity", "perplexity", perplexity(), false},
          {"accuracy", "accuracy", accuracy()},
          {"bits_per_byte", "bits a byte", bits_per_byte(), false}};
}

}  // namespace SOMA_NAMESPACE::metrics
