// Cross-entropy: against the scalar reference in double, every type and layout against plain fp32,
// ignored rows, infinities and NaN.

#include <soma/kernels/reference/loss.hpp>
#include <soma/kernels/table.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/floating_dtypes.hpp"
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

constexpr double u = 0x1p-24;
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::size_t lengths[] = {1, 2, 15, 16, 17, 31, 33, 511, 513, 2049, 4099};

// Cross-entropy over plain fp32 rows.
struct CrossEntropyCase {
  std::size_t rows, columns;
  std::vector<float> x, loss, lse, dx, factors;
  std::vector<std::int64_t> labels;
  std::vector<std::int32_t> short_labels;
  CrossEntropyArgs args;

  CrossEntropyCase(std::size_t row_count, std::size_t column_count, float smoothing, float range)
      : rows(row_count), columns(column_count) {
    RandomFloats random(51, range);
    x = random.many(rows * columns);
    factors = random.many(rows);
    loss.assign(rows, -7), lse.assign(2 * rows, -7), dx.assign(x.size(), -7);
    for (std::size_t r = 0; r < rows; ++r) {
      labels.push_back(static_cast<std::int64_t>(r * 5 % columns));
      short_labels.push_back(static_cast<std::int32_t>(labels.back()));
    }
    args.rows = rows;
    args.columns = columns;
    args.logits = plain(x, columns);
    args.labels = labels.data();
    args.smoothing = smoothing;
    args.loss = loss.data();
    args.log_sum_exp = lse.data();
    args.factor = 0.25f;
    args.dlogits = plain_target(dx, columns);
  }
  CrossEntropyCase(const CrossEntropyCase&) = delete;

  void run(const Kernels& kernels) {
    kernels.loss.cross_entropy(args);
    kernels.loss.cross_entropy_backward(args);
  }
};

// The largest error as a multiple of what rounding explains.
double excess(const CrossEntropyCase& c) {
  double worst = 0;
  const double steps = static_cast<double>(c.columns) / 16 + 5, s = c.args.smoothing;
  std::vector<double> wanted(c.columns);
  for (std::size_t r = 0; r < c.rows; ++r) {
    const std::vector<double> x(c.x.begin() + static_cast<std::ptrdiff_t>(r * c.columns),
                                c.x.begin() + static_cast<std::ptrdiff_t>((r + 1) * c.columns));
    const auto label = static_cast<std::size_t>(c.labels[r]);
    const double lse = reference::log_sum_exp<double>(x);
    const double largest = *std::max_element(x.begin(), x.end());
    // As in softmax: u of each distance and 0.9 ulp of exp, weighted by softmax; the sum's own
    // steps; 0.9 ulp of its logarithm.
    double weighted = 0, distance = 0;
    for (const double value : x) {
      weighted += std::exp(value - lse) * (largest - value);
      distance += (largest - value) / static_cast<double>(c.columns);
    }
    const double log_error = (weighted + 2 + steps + 2 * (lse - largest)) * u;
    if (c.lse[2 * r] != static_cast<float>(largest)) return infinity;
    worst = (std::max)(worst, std::fabs(c.lse[2 * r + 1] - (lse - largest)) / log_error);
    const double loss = reference::cross_entropy<double>(x, label, s);
    // Distances of the label and of the mean, the latter a sum; each once more where subtracted
    // from the logarithm, multiplied and added.
    const double from_label = largest - x[label];
    const double allowed = log_error + u * (1 - s) * (4 * from_label + 3 * (lse - largest)) +
                           u * s * ((steps + 4) * distance + 3 * (lse - largest)) + u * loss;
    worst = (std::max)(worst, std::fabs(c.loss[r] - loss) / allowed);
    // The gradient's exponent is two differences.
    const double factor = c.args.factors != nullptr ? c.factors[r] : c.args.factor;
    reference::cross_entropy_backward<double>(x, label, s, factor, wanted);
    for (std::size_t i = 0; i < c.columns; ++i) {
      const double p = std::exp(x[i] - lse);
      const double target = (i == label ? 1 - s : 0) + s / static_cast<double>(c.columns);
      const double exponent_error = log_error + u * (largest - x[i] + std::fabs(x[i] - lse));
      // A subnormal probability errs by units of 2^-149.
      const double error = p * (exponent_error + 2 * u) + 3 * u * target + 0x1p-148;
      const double bound = std::fabs(factor) * (error + 2 * u * std::fabs(p - target)) + 0x1p-149;
      worst = (std::max)(worst, std::fabs(c.dx[r * c.columns + i] - wanted[i]) / bound);
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("cross-entropy agrees with the reference", "[unit][loss]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets)
    for (const std::size_t columns : lengths)
      for (const float smoothing : {0.0f, 0.1f, 1.0f})
        for (const float range : {0.1f, 4.0f, 90.0f}) {
          CrossEntropyCase c(5, columns, smoothing, range);
          if (columns % 2 == 0) c.args.factors = c.factors.data();
          c.run(*target.kernels);
          INFO(std::string(target.name)
               << ": " << columns << " columns, smoothing " << smoothing << ", range " << range);
          CHECK(excess(c) <= 1);
        }
}

TEST_CASE("a row far ahead at its label keeps the digits of its loss and gradient",
          "[unit][loss]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets)
    for (const float ahead : {1.0f, 16.0f, 20.0f, 40.0f, 80.0f}) {
      INFO(std::string(target.name) << ": " << ahead << " ahead");
      CrossEntropyCase c(1, 2, 0, 1);
      c.x = {1000.0f, 1000.0f - ahead};
      c.run(*target.kernels);
      const double wanted = std::log1p(std::exp(-static_cast<double>(ahead)));
      // exp errs by 0.9 ulp (1.8 u), log1p by 1.9 ulp (3.8 u).
      CHECK(std::fabs(c.loss[0] - wanted) <= 6 * u * wanted);
      CHECK(c.lse[0] == 1000);
      // 1 - p = -expm1(-loss): its 5 ulp and the loss's own error. p of the other: its exponent's
      // rounding and exp.
      const double other = -std::expm1(-wanted);
      CHECK(std::fabs(c.dx[0] + 0.25 * other) <= 0.25 * 16 * u * other);
      CHECK(std::fabs(c.dx[1] - 0.25 * other) <= 0.25 * (u * (2 * ahead + 4) * other));
    }
}

TEST_CASE("ignored rows have neither loss nor gradient", "[unit][loss]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets) {
    CrossEntropyCase c(4, 19, 0.1f, 4);
    c.labels[1] = c.labels[3] = c.args.ignore_index;
    c.x[20] = std::numeric_limits<float>::quiet_NaN();
    c.factors[1] = infinity;
    c.args.factors = c.factors.data();
    c.run(*target.kernels);
    for (std::size_t i = 0; i < 19; ++i)
      for (const std::size_t row : {1, 3}) CHECK(c.dx[row * 19 + i] == 0);
    CHECK(c.loss[1] == 0);
    CHECK(c.loss[3] == 0);
    CHECK(c.loss[0] > 0);
    CHECK(c.loss[2] > 0);
  }
}

TEST_CASE("labels may be short", "[unit][loss]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets) {
    CrossEntropyCase wide(5, 33, 0, 4), narrow(5, 33, 0, 4);
    narrow.args.labels = narrow.short_labels.data();
    narrow.args.label_dtype = DType::int32;
    wide.run(*target.kernels);
    narrow.run(*target.kernels);
    CHECK(same_bits(wide.loss, narrow.loss));
    CHECK(same_bits(wide.dx, narrow.dx));
  }
}

TEST_CASE("cross-entropy has the same bits on every target", "[unit][loss][invariance]") {
  auto any = make_context();
  for (const std::size_t columns : lengths)
    for (const float smoothing : {0.0f, 0.1f}) {
      CrossEntropyCase best(3, columns, smoothing, 9);
      best.run(*any.targets().targets[0].kernels);
      for (const Target& target : any.targets().targets) {
        CrossEntropyCase c(3, columns, smoothing, 9);
        c.run(*target.kernels);
        INFO(std::string(target.name) << ": " << columns << " columns, smoothing " << smoothing);
        CHECK(same_bits(best.loss, c.loss));
        CHECK(same_bits(best.lse, c.lse));
        CHECK(same_bits(best.dx, c.dx));
      }
    }
}

TEST_CASE("cross-entropy takes logits and gradients of every type and layout", "[unit][loss]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets)
    for (const std::size_t columns : {std::size_t{33}, std::size_t{517}, std::size_t{2051}})
      for (const DType dtype : floating_dtypes)
        for (const Layout layout : {Layout::contiguous, Layout::transposed}) {
          RandomFloats random(52);
          const StoredMatrix x = store_matrix(3, columns, dtype, layout, random);
          CrossEntropyCase wanted(3, columns, 0.1f, 4), c(3, columns, 0.1f, 4);
          wanted.args.logits = plain(x.values, columns);
          wanted.run(*target.kernels);
          TargetMatrix dx(3, columns, dtype, Rounding::stochastic);
          c.args.logits = x.operand;
          c.args.dlogits = dx.target;
          c.run(*target.kernels);
          INFO(std::string(target.name)
               << ": " << columns << " columns, " << std::string(to_string(dtype)) << ", layout "
               << static_cast<int>(layout));
          CHECK(same_bits(wanted.loss, c.loss));
          CHECK(dx.holds(wanted.dx, columns));
        }
}

TEST_CASE("cross-entropy's gradient may take the place of the logits", "[unit][loss]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets) {
    CrossEntropyCase apart(5, 70, 0.1f, 4), in_place(5, 70, 0.1f, 4);
    in_place.args.dlogits = plain_target(in_place.x, 70);
    apart.run(*target.kernels);
    in_place.run(*target.kernels);
    CHECK(same_bits(apart.dx, in_place.x));
  }
}

TEST_CASE("cross-entropy of infinities and NaN", "[unit][loss]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets) {
    CrossEntropyCase c(4, 40, 0, 4);
    c.x[3] = -infinity;       // not the label: a probability of zero
    c.x[40 + 5] = -infinity;  // the label
    c.x[80 + 1] = std::numeric_limits<float>::quiet_NaN();
    c.x[120 + 1] = infinity;
    c.run(*target.kernels);
    CHECK(std::isfinite(c.loss[0]));
    CHECK(c.dx[3] == 0);
    CHECK(c.loss[1] == infinity);
    CHECK(std::isnan(c.loss[2]));
    CHECK(c.loss[3] == infinity);
    CHECK(c.dx[120 + 1] == 0.25f);
    CHECK(c.dx[120 + 15] == -0.25f);
    CHECK(c.dx[120 + 2] == 0);
  }
}

TEST_CASE("a logit of infinity at the label is a certain answer", "[unit][loss]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets) {
    CrossEntropyCase c(2, 40, 0, 4), smooth(1, 40, 0.1f, 4);
    c.x[0] = infinity;
    std::fill_n(c.x.begin() + 40, 40, -infinity);  // no answer at all
    smooth.x[0] = infinity;
    c.run(*target.kernels);
    smooth.run(*target.kernels);
    CHECK(c.loss[0] == 0);
    for (std::size_t i = 0; i < 40; ++i) CHECK(c.dx[i] == 0);
    CHECK(std::isnan(c.loss[1]));
    CHECK(smooth.loss[0] == infinity);  // the share of the others
  }
}

TEST_CASE("losses of nothing write nothing", "[unit][loss]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets) {
    CrossEntropyCase c(1, 3, 0, 4);
    c.args.rows = 0;
    c.run(*target.kernels);
    CHECK(c.loss[0] == -7);
    CHECK(c.dx[0] == -7);
  }
}
