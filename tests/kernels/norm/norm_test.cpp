// The norm family: against the scalar reference in double, sums in their stated order bit by bit,
// every type and layout against plain fp32.

#include <soma/kernels/reference/norm.hpp>
#include <soma/kernels/table.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/matrices.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

constexpr double u = 0x1p-24;  // half a unit in the last place, relative
constexpr std::size_t lengths[] = {1, 2, 15, 16, 17, 31, 33, 511, 512, 513, 1009, 2049, 4099};

std::vector<double> widen(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}
std::span<const double> row_of(const std::vector<double>& values, std::size_t row,
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

double mean_magnitude(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += std::fabs(value);
  return sum / static_cast<double>(values.size());
}

// A sum of n numbers in 16 lanes is a chain of n / 16 additions and 4 levels of a tree; each step
// errs by at most u of what has been summed.
double sum_steps(std::size_t columns) { return static_cast<double>(columns) / 16 + 5; }

std::vector<double> affine(const NormCase& c, const float* values) {
  return values != nullptr ? std::vector<double>(values, values + c.columns)
                           : std::vector<double>();
}

// The largest error of the forward results as a multiple of what rounding explains.
double forward_excess(const NormCase& c) {
  const std::vector<double> x = widen(c.x), gamma = affine(c, c.args.gamma),
                            beta = affine(c, c.args.beta);
  std::vector<double> wanted(c.columns);
  const double steps = sum_steps(c.columns);
  double worst = 0;
  for (std::size_t r = 0; r < c.rows; ++r) {
    const auto row = row_of(x, r, c.columns);
    const auto m = reference::moments<double>(row, c.args.rms, c.args.epsilon);
    reference::norm<double>(row, m, gamma, beta, wanted);
    // The mean, its division included; differences from it err by that and by their own rounding.
    const double mean_error = c.args.rms ? 0 : (steps + 1) * u * mean_magnitude(row);
    for (std::size_t i = 0; i < c.columns; ++i) {
      const double scale = gamma.empty() ? 1 : std::fabs(gamma[i]);
      const double xhat = std::fabs(row[i] - m.mean) * m.rstd;
      // Squares double the relative error of a difference, the square root halves it again; the
      // mean's error shifts xhat and, squared, the variance.
      const double shift = mean_error * m.rstd;
      const double relative = (steps / 2 + 8) * u + shift * shift;
      const double allowed = scale * (xhat * relative + 2 * shift) + 2 * u * std::fabs(wanted[i]);
      worst = (std::max)(worst, std::fabs(c.y[r * c.columns + i] - wanted[i]) / allowed);
    }
    worst = (std::max)(worst, std::fabs(c.rstd[r] - m.rstd) /
                                  (m.rstd * ((steps / 2 + 4) * u + mean_error * mean_error)));
    if (!c.args.rms) worst = (std::max)(worst, std::fabs(c.mean[r] - m.mean) / mean_error);
  }
  return worst;
}

// The same of dx, from the kernel's own mean and rstd.
double backward_excess(const NormCase& c) {
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

// The stated order of a sum over a row.
template <class Term>
float lane_sum(std::size_t count, Term term) {
  float lanes[16] = {};
  for (std::size_t i = 0; i < count; ++i) lanes[i % 16] = term(i, lanes[i % 16]);
  for (const std::size_t half : {8, 4, 2, 1})
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

}  // namespace

TEST_CASE("layer norm and RMS norm agree with the reference", "[unit][norm]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets)
    for (const std::size_t columns : lengths)
      for (const bool rms : {false, true})
        for (const bool with_affine : {false, true})
          for (const float offset : {0.0f, 1000.0f}) {
            NormCase c(3, columns, rms, with_affine, offset);
            INFO(std::string(target.name) << ": " << columns << " columns, rms " << rms
                                          << ", affine " << with_affine << ", offset " << offset);
            target.kernels->norm.forward(c.args);
            CHECK(forward_excess(c) <= 1);
            target.kernels->norm.backward(c.args);
            CHECK(backward_excess(c) <= 1);
          }
}

TEST_CASE("sums over a row have the stated order", "[unit][norm]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets)
    for (const std::size_t columns : lengths) {
      NormCase c(2, columns, false, false);
      target.kernels->norm.forward(c.args);
      for (std::size_t r = 0; r < 2; ++r) {
        const float* x = c.x.data() + r * columns;
        const auto count = static_cast<float>(columns);
        const float mean =
            lane_sum(columns, [&](std::size_t i, float sum) { return sum + x[i]; }) / count;
        const float squares = lane_sum(columns, [&](std::size_t i, float sum) {
          const float difference = x[i] - mean;
          return std::fma(difference, difference, sum);
        });
        INFO(std::string(target.name) << ": " << columns << " columns");
        CHECK(c.mean[r] == mean);
        CHECK(c.rstd[r] == 1 / std::sqrt(squares / count + 1e-5f));
      }
    }
}

TEST_CASE("gradients of gamma and beta have the stated order, however columns are cut",
          "[unit][norm]") {
  auto any = make_context();
  const std::size_t rows = 53;
  for (const Target& target : any.targets().targets)
    for (const std::size_t columns : {std::size_t{1}, std::size_t{19}, std::size_t{300}})
      for (const std::size_t segments : {1, 2, 8, 1024}) {
        NormCase c(rows, columns, false, true);
        target.kernels->norm.forward(c.args);
        std::vector<std::size_t> bounds(segments + 1);
        for (std::size_t s = 0; s <= segments; ++s) bounds[s] = s * s * rows / segments / segments;
        c.args.segments = {bounds.data(), segments};
        target.kernels->norm.backward_parameters(c.args);
        bool gamma_right = true, beta_right = true;
        for (std::size_t i = 0; i < columns; ++i) {
          std::vector<float> gamma, beta;
          for (std::size_t s = 0; s < segments; ++s) {
            gamma.push_back(0), beta.push_back(0);
            for (std::size_t r = bounds[s]; r < bounds[s + 1]; ++r) {
              const float xhat = (c.x[r * columns + i] - c.mean[r]) * c.rstd[r];
              gamma.back() = std::fma(c.dy[r * columns + i], xhat, gamma.back());
              beta.back() += c.dy[r * columns + i];
            }
          }
          for (; gamma.size() > 1; gamma.resize(gamma.size() / 2), beta.resize(gamma.size()))
            for (std::size_t s = 0; s < gamma.size() / 2; ++s) {
              gamma[s] = gamma[2 * s] + gamma[2 * s + 1];
              beta[s] = beta[2 * s] + beta[2 * s + 1];
            }
          gamma_right = gamma_right && c.dgamma[i] == gamma[0];
          beta_right = beta_right && c.dbeta[i] == beta[0];
        }
        INFO(std::string(target.name) << ": " << columns << " columns, " << segments << " parts");
        CHECK(gamma_right);
        CHECK(beta_right);

        const std::vector<float> whole_gamma = c.dgamma, whole_beta = c.dbeta;
        std::fill(c.dgamma.begin(), c.dgamma.end(), -1.0f);
        std::fill(c.dbeta.begin(), c.dbeta.end(), -1.0f);
        for (std::size_t first = 0; first < columns; first += 7) {
          c.args.first_column = first;
          c.args.column_count = (std::min)(std::size_t{7}, columns - first);
          target.kernels->norm.backward_parameters(c.args);
        }
        CHECK(c.dgamma == whole_gamma);
        CHECK(c.dbeta == whole_beta);
      }
}

TEST_CASE("norms have the same bits on every target", "[unit][norm][invariance]") {
  auto any = make_context();
  for (const std::size_t columns : lengths)
    for (const bool rms : {false, true}) {
      NormCase best(2, columns, rms, true);
      const Kernels& kernels = *any.targets().targets[0].kernels;
      kernels.norm.forward(best.args);
      kernels.norm.backward(best.args);
      for (const Target& target : any.targets().targets) {
        NormCase c(2, columns, rms, true);
        target.kernels->norm.forward(c.args);
        target.kernels->norm.backward(c.args);
        INFO(std::string(target.name) << ": " << columns << " columns, rms " << rms);
        CHECK(same_bits(best.y, c.y));
        CHECK(same_bits(best.dx, c.dx));
      }
    }
}

TEST_CASE("norms take operands and targets of every type and layout", "[unit][norm]") {
  auto any = make_context();
  const std::size_t rows = 3;
  for (const Target& target : any.targets().targets)
    for (const std::size_t columns : {std::size_t{33}, std::size_t{517}, std::size_t{2051}})
      for (const DType dtype : floating_dtypes)
        for (const Layout layout : {Layout::contiguous, Layout::transposed}) {
          RandomFloats random(32);
          const StoredMatrix x = store_matrix(rows, columns, dtype, layout, random);
          const StoredMatrix dy = store_matrix(rows, columns, dtype, layout, random);
          NormCase wanted(rows, columns, false, true);
          wanted.x = x.values;
          wanted.dy = dy.values;
          wanted.args.x = plain(wanted.x, columns);
          wanted.args.dy = plain(wanted.dy, columns);
          NormCase c = wanted;
          c.args.mean = c.mean.data();
          c.args.rstd = c.rstd.data();
          c.args.dgamma = c.dgamma.data();
          c.args.x = x.operand;
          c.args.dy = dy.operand;
          TargetMatrix y(rows, columns, dtype, Rounding::stochastic);
          TargetMatrix dx(rows, columns, dtype, Rounding::nearest_even);
          c.args.y = y.target;
          c.args.dx = dx.target;
          for (const NormArgs* args : {&wanted.args, &c.args}) {
            target.kernels->norm.forward(*args);
            target.kernels->norm.backward(*args);
            target.kernels->norm.backward_parameters(*args);
          }
          INFO(std::string(target.name)
               << ": " << columns << " columns, " << std::string(to_string(dtype)) << ", layout "
               << static_cast<int>(layout));
          CHECK(y.holds(wanted.y, columns));
          CHECK(dx.holds(wanted.dx, columns));
          CHECK(same_bits(c.rstd, wanted.rstd));
          CHECK(same_bits(c.dgamma, wanted.dgamma));
        }
}

TEST_CASE("NaN and infinity spoil their row alone", "[unit][norm]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets)
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      NormCase c(3, 37, false, true);
      c.x[37 + 20] = bad;
      target.kernels->norm.forward(c.args);
      for (std::size_t i = 0; i < 37; ++i) {
        CHECK(std::isfinite(c.y[i]));
        CHECK(std::isnan(c.y[37 + i]));
        CHECK(std::isfinite(c.y[74 + i]));
      }
    }
}

TEST_CASE("a row whose squares are above all numbers is NaN, not zeros", "[unit][norm]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets)
    for (const bool rms : {false, true}) {
      NormCase c(1, 37, rms, true);
      c.x[20] = 1e20f;
      target.kernels->norm.forward(c.args);
      for (std::size_t i = 0; i < 37; ++i) CHECK(std::isnan(c.y[i]));
    }
}

TEST_CASE("norms of nothing write nothing", "[unit][norm]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets) {
    NormCase c(1, 1, false, true);
    c.args.rows = 0;
    target.kernels->norm.forward(c.args);
    target.kernels->norm.backward(c.args);
    CHECK(c.y[0] == 0);
    // A sum over no rows is zero.
    c.dgamma[0] = c.dbeta[0] = 7;
    target.kernels->norm.backward_parameters(c.args);
    CHECK(c.dgamma[0] == 0);
    CHECK(c.dbeta[0] == 0);
    // Not wanted.
    c.args.dgamma = c.args.dbeta = nullptr;
    target.kernels->norm.backward_parameters(c.args);
  }
}
