#pragma once
// Code that tests of norms share: the arguments of a case, and errors against the reference in
// double as a multiple of the bounds in kernels/norm/moments.hpp.

#include <soma/kernels/norm/args.hpp>
#include <soma/kernels/reference/norm.hpp>

#include "support/matrices.hpp"
#include "support/row_sums.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace soma_test {

using namespace soma;

inline constexpr double u = 0x1p-24;  // half a unit in the last place, relative

inline std::vector<double> widen(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}
inline std::span<const double> row_of(const std::vector<double>& values, std::size_t row,
                                      std::size_t columns) {
  return std::span(values).subspan(row * columns, columns);
}

// Everything that layer norm reads and writes, as plain fp32.
struct NormCase {
  std::size_t rows, columns;
  std::vector<float> x, dy, gamma, beta, y, dx, mean, rstd, dgamma, dbeta;
  NormArgs args;

  NormCase(std::size_t row_count, std::size_t column_count, bool rms, bool affine, float offset = 0)
      : rows(row_count), columns(column_count) {
    RandomFloats random(31);
    const std::size_t size = rows * columns;
    x = random.many(size);
    for (float& value : x) value += offset;
    dy = random.many(size);
    gamma = random.many(columns);
    beta = random.many(columns);
    y.resize(size), dx.resize(size);
    mean.resize(rows), rstd.resize(rows), dgamma.resize(columns), dbeta.resize(columns);
    args.rows = rows;
    args.columns = columns;
    args.rms = rms;
    args.epsilon = 1e-5f;
    args.x = plain(x, columns);
    args.dy = plain(dy, columns);
    args.y = plain_target(y, columns);
    args.dx = plain_target(dx, columns);
    if (affine) {
      args.gamma = gamma.data();
      args.beta = beta.data();
    }
    if (!rms) args.mean = mean.data();
    args.rstd = rstd.data();
    args.column_count = columns;
    args.dgamma = dgamma.data();
    args.dbeta = dbeta.data();
  }
};

inline double mean_magnitude(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += std::fabs(value);
  return sum / static_cast<double>(values.size());
}

// The roundings that an element of a mean goes through: its sum's, and the division.
inline double sum_steps(std::size_t columns) { return row_sum_steps(columns) + 1; }

inline std::vector<double> affine(const NormCase& c, const float* values) {
  return values != nullptr ? std::vector<double>(values, values + c.columns)
                           : std::vector<double>();
}

// The largest error of the forward results as a multiple of the bounds in kernels/norm/moments.hpp.
inline double forward_excess(const NormCase& c) {
  const std::vector<double> x = widen(c.x), gamma = affine(c, c.args.gamma),
                            beta = affine(c, c.args.beta);
  std::vector<double> wanted(c.columns);
  const double s = sum_steps(c.columns);
  double worst = 0;
  for (std::size_t r = 0; r < c.rows; ++r) {
    const auto row = row_of(x, r, c.columns);
    const auto m = reference::moments<double>(row, c.args.rms, c.args.epsilon);
    reference::norm<double>(row, m, gamma, beta, wanted);
    const double variance = reference::moments<double>(row, c.args.rms, 0).rstd;
    const double deviation = std::isinf(variance) ? 0 : 1 / variance;
    const double mean_error = c.args.rms ? 0 : u * (std::fabs(m.mean) + 1.2 * (s + 2) * deviation);
    const double rstd_error = u * (c.args.rms ? (s + 3) / 2 + 3 : 2.5 * (s + 3) + 3);
    for (std::size_t i = 0; i < c.columns; ++i) {
      const double scale = gamma.empty() ? 1 : std::fabs(gamma[i]);
      const double xhat = std::fabs(row[i] - m.mean) * m.rstd;
      const double slope = u * (c.args.rms ? s / 2 + 7 : 2.5 * s + 14);
      const double allowed =
          scale * (mean_error * m.rstd + xhat * slope) + u * std::fabs(wanted[i]) + 0x1p-149;
      worst = (std::max)(worst, std::fabs(c.y[r * c.columns + i] - wanted[i]) / allowed);
    }
    worst = (std::max)(worst, std::fabs(c.rstd[r] - m.rstd) / (m.rstd * rstd_error));
    if (!c.args.rms)
      worst = (std::max)(worst, std::fabs(c.mean[r] - m.mean) / (mean_error + 0x1p-149));
  }
  return worst;
}

// The same of dx, from the kernel's own mean and rstd.
inline double backward_excess(const NormCase& c) {
  const std::vector<double> x = widen(c.x), dy = widen(c.dy), gamma = affine(c, c.args.gamma);
  std::vector<double> wanted(c.columns), g(c.columns), products(c.columns);
  const double steps = sum_steps(c.columns);
  double worst = 0;
  for (std::size_t r = 0; r < c.rows; ++r) {
    const reference::Moments<double> m{c.args.rms ? 0.0 : c.mean[r], c.rstd[r]};
    const auto row = row_of(x, r, c.columns), slope = row_of(dy, r, c.columns);
    reference::norm_backward<double>(row, m, c.args.rms, gamma, slope, wanted);
    for (std::size_t i = 0; i < c.columns; ++i) {
      g[i] = slope[i] * (gamma.empty() ? 1 : gamma[i]);
      products[i] = g[i] * (row[i] - m.mean) * m.rstd;
    }
    const double mean_g = c.args.rms ? 0 : mean_magnitude(g), mean_p = mean_magnitude(products);
    for (std::size_t i = 0; i < c.columns; ++i) {
      const double xhat = std::fabs(row[i] - m.mean) * m.rstd;
      // Either mean: its sum, a division; three roundings in each product. Then the three terms,
      // each rounded a few times more.
      const double allowed = m.rstd * u *
                             ((steps + 1) * mean_g + (steps + 4) * xhat * mean_p +
                              6 * (std::fabs(g[i]) + mean_g + xhat * mean_p));
      worst = (std::max)(worst, std::fabs(c.dx[r * c.columns + i] - wanted[i]) / allowed);
    }
  }
  return worst;
}

}  // namespace soma_test
