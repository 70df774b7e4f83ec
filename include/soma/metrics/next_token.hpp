#pragma once
// Metrics of models that predict the next token: perplexity, the share of tokens that were the most
// probable, and bits for each byte of text.

#include <soma/base/error.hpp>
#include <soma/metrics/metrics.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace SOMA_NAMESPACE::metrics {

// A case is a sequence of rows. Sums are double, in the order of the cases, so that batches of
// other sizes give the same numbers.
class NextToken final : public Metrics {
 public:
  // The scores of a case: the sum of its losses as two numbers (a float, and the rest of the
  // double), and the number of tokens that were the most probable.
  static constexpr std::size_t scores = 3;
  // Writes the scores of a case.
  static void put(double loss, std::size_t hits, std::span<float, scores> to);

  SOMA_INLINE std::size_t outputs() const override { return scores; }
  // `labels`: int64 [cases, 2], the predicted tokens of each case, and the bytes of their text.
  SOMA_INLINE void add(std::span<const float> given, const Tensor& labels) override;
  std::uint64_t cases() const override { return cases_; }
  SOMA_INLINE Values values() const override;

  std::uint64_t tokens() const { return tokens_; }
  double loss() const { return loss_; }  // the sum over all tokens
  // exp of the mean loss of a token; NaN for no tokens, infinity beyond the range of a double.
  double perplexity() const;
  double accuracy() const;
  // NaN if the tokens have no text.
  double bits_per_byte() const;

 private:
  double loss_ = 0;
  std::uint64_t cases_ = 0, tokens_ = 0, hits_ = 0, bytes_ = 0;
};

}  // namespace SOMA_NAMESPACE::metrics

#ifndef SOMA_DISPATCH
#include <soma/metrics/impl/next_token.ipp>
#endif
