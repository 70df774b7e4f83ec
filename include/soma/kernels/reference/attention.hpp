#pragma once
// Attention of one sequence and one head, forward and backward, as plain scalar code that stores
// all scores, to compare kernels with.

#include <soma/base/config.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace SOMA_NAMESPACE::reference {

// Everything row-major. `kept` (queries x keys) is what dropout multiplies a probability by; empty:
// no dropout. `seen` (queries x keys) is 0 where a query does not see a key; empty: it sees all.
template <class T>
struct Attention {
  std::size_t queries, keys, width;
  T scale;
  std::vector<T> q, k, v, kept;
  std::vector<unsigned char> seen;
  // results
  std::vector<T> p, log_sum_exp, out, dq, dk, dv;

  void forward() {
    p.assign(queries * keys, 0);
    log_sum_exp.assign(queries, 0);
    out.assign(queries * width, 0);
    for (std::size_t i = 0; i < queries; ++i) {
      T* row = p.data() + i * keys;
      T largest = -std::numeric_limits<T>::infinity(), sum = 0;
      for (std::size_t j = 0; j < keys; ++j) {
        for (std::size_t d = 0; d < width; ++d) row[j] += q[i * width + d] * k[j * width + d];
        row[j] *= scale;
        if (!seen.empty() && seen[i * keys + j] == 0) row[j] = -std::numeric_limits<T>::infinity();
        if (!(row[j] <= largest)) largest = row[j];
      }
      for (std::size_t j = 0; j < keys; ++j) sum += row[j] = std::exp(row[j] - largest);
      log_sum_exp[i] = largest + std::log(sum);
      for (std::size_t j = 0; j < keys; ++j) {
        row[j] /= sum;
        for (std::size_t d = 0; d < width; ++d)
          out[i * width + d] += kept_at(i, j) * row[j] * v[j * width + d];
      }
    }
  }

  // After forward.
  void backward(const std::vector<T>& dout) {
    dq.assign(queries * width, 0);
    dk.assign(keys * width, 0);
    dv.assign(keys * width, 0);
    std::vector<T> dp(keys);
    for (std::size_t i = 0; i < queries; ++i) {
      T weighted = 0;
      for (std::size_t j = 0; j < keys; ++j) {
        dp[j] = 0;
        for (std::size_t d = 0; d < width; ++d) dp[j] += dout[i * width + d] * v[j * width + d];
        dp[j] *= kept_at(i, j);
        weighted += p[i * keys + j] * dp[j];
      }
      for (std::size_t j = 0; j < keys; ++j) {
        const T ds = p[i * keys + j] * (dp[j] - weighted) * scale;
        for (std::size_t d = 0; d < width; ++d) {
          dq[i * width + d] += ds * k[j * width + d];
          dk[j * width + d] += ds * q[i * width + d];
          dv[j * width + d] += kept_at(i, j) * p[i * keys + j] * dout[i * width + d];
        }
      }
    }
  }

 private:
  T kept_at(std::size_t i, std::size_t j) const { return kept.empty() ? T(1) : kept[i * keys + j]; }
};

}  // namespace SOMA_NAMESPACE::reference
