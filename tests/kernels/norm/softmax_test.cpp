// Softmax and log softmax, forward and backward: against the scalar reference in double, every type
// and layout against plain fp32, infinities and NaN.

#include <soma/kernels/reference/norm.hpp>
#include <soma/kernels/table.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/floating_dtypes.hpp"
#include "support/matrices.hpp"
#include "support/row_sums.hpp"

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
constexpr std::size_t lengths[] = {1, 2, 15, 16, 17, 31, 33, 511, 512, 513, 1009, 2049, 4099};

std::vector<double> widen(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

struct Result {
  std::vector<float> y, dx;
};

Result run(const Kernels& kernels, const std::vector<float>& x, const std::vector<float>& dy,
           std::size_t columns, bool logarithm) {
  Result result{std::vector<float>(x.size()), std::vector<float>(x.size())};
  SoftmaxArgs args;
  args.rows = x.size() / columns;
  args.columns = columns;
  args.logarithm = logarithm;
  args.x = plain(x, columns);
  args.y = plain_target(result.y, columns);
  kernels.norm.softmax(args);
  args.y_in = plain(result.y, columns);
  args.dy = plain(dy, columns);
  args.dx = plain_target(result.dx, columns);
  kernels.norm.softmax_backward(args);
  return result;
}

// The additions of a sum, and the last step of use.
double sum_steps(std::size_t columns) { return row_sum_steps(columns) + 1; }

double forward_excess(const std::vector<float>& values, const std::vector<float>& y,
                      bool logarithm) {
  const std::vector<double> x = widen(values);
  std::vector<double> wanted(x.size());
  reference::softmax<double>(x, logarithm, wanted);
  const double largest = *std::max_element(x.begin(), x.end());
  const double rest = reference::log_sum_exp<double>(x);
  // x - largest errs by u of itself, which exp turns into as much relative error; exp has 0.9 ulp
  // more, 1.8 u. In the sum such errors meet weighted by softmax.
  double weighted = 0;
  for (const double value : x) weighted += std::exp(value - rest) * (largest - value);
  const double sum_error = (weighted + 2 + sum_steps(x.size())) * u;
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double distance = largest - x[i];
    // Logarithm: 0.9 ulp of it and two subtractions. Otherwise the inverse, the product, and the
    // rounding of subnormal results, before the product too.
    const double allowed =
        logarithm ? sum_error + u * (distance + 2 * (rest - largest) + std::fabs(wanted[i]))
                  : wanted[i] * ((distance + 2 + 3) * u + sum_error) + 0x1p-148;
    worst = (std::max)(worst, std::fabs(y[i] - wanted[i]) / allowed);
  }
  return worst;
}

double backward_excess(const std::vector<float>& y, const std::vector<float>& dy,
                       const std::vector<float>& dx, bool logarithm) {
  std::vector<double> wanted(y.size());
  const std::vector<double> p = widen(y), g = widen(dy);
  reference::softmax_backward<double>(p, g, logarithm, wanted);
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += std::fabs(logarithm ? g[i] : p[i] * g[i]);
  double worst = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    // The sum; then exp (1.8 u) and one rounding, or a difference and a product.
    const double steps = sum_steps(y.size());
    const double allowed =
        logarithm ? u * (std::exp(p[i]) * sum * (steps + 2) + std::fabs(wanted[i])) + 0x1p-148
                  : p[i] * u * (sum * steps + 2 * (std::fabs(g[i]) + sum)) + 0x1p-149;
    worst = (std::max)(worst, std::fabs(dx[i] - wanted[i]) / allowed);
  }
  return worst;
}

}  // namespace

TEST_CASE("softmax agrees with the reference", "[unit][norm][softmax]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets)
    for (const std::size_t columns : lengths)
      for (const bool logarithm : {false, true})
        for (const float range : {0.1f, 4.0f, 60.0f, 1000.0f}) {
          RandomFloats random(41, range), slopes(42);
          const std::vector<float> x = random.many(columns), dy = slopes.many(columns);
          const Result result = run(*target.kernels, x, dy, columns, logarithm);
          INFO(std::string(target.name)
               << ": " << columns << " columns, log " << logarithm << ", range " << range);
          CHECK(forward_excess(x, result.y, logarithm) <= 1);
          CHECK(backward_excess(result.y, dy, result.dx, logarithm) <= 1);
        }
}

TEST_CASE("softmax of a long row keeps its bounds", "[unit][norm][softmax]") {
  auto any = make_context();
  constexpr std::size_t columns = 300'001;
  for (const Target& target : any.targets().targets)
    for (const bool logarithm : {false, true}) {
      // Equal numbers are the hardest: the roundings of their sum all go the same way.
      const std::vector<float> x(columns, 0.3f), dy(columns, 0.1f);
      const Result result = run(*target.kernels, x, dy, columns, logarithm);
      INFO(std::string(target.name) << ": log " << logarithm);
      CHECK(forward_excess(x, result.y, logarithm) <= 1);
      CHECK(backward_excess(result.y, dy, result.dx, logarithm) <= 1);
    }
}

TEST_CASE("softmax over one column has the gradient 0", "[unit][norm][softmax]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets)
    for (const bool logarithm : {false, true}) {
      RandomFloats random(44, 30);
      const std::vector<float> x = random.many(50), dy = random.many(50);
      const Result result = run(*target.kernels, x, dy, 1, logarithm);
      CHECK(result.dx == std::vector<float>(50, 0));
    }
}

TEST_CASE("softmax has the same bits on every target", "[unit][norm][softmax][invariance]") {
  auto any = make_context();
  for (const std::size_t columns : lengths)
    for (const bool logarithm : {false, true}) {
      RandomFloats random(43, 30);
      const std::vector<float> x = random.many(2 * columns), dy = random.many(2 * columns);
      const Result best = run(*any.targets().targets[0].kernels, x, dy, columns, logarithm);
      for (const Target& target : any.targets().targets) {
        const Result here = run(*target.kernels, x, dy, columns, logarithm);
        INFO(std::string(target.name) << ": " << columns << " columns, log " << logarithm);
        CHECK(same_bits(best.y, here.y));
        CHECK(same_bits(best.dx, here.dx));
      }
    }
}

TEST_CASE("softmax takes operands and targets of every type and layout", "[unit][norm][softmax]") {
  auto any = make_context();
  const std::size_t rows = 3;
  for (const Target& target : any.targets().targets)
    for (const std::size_t columns : {std::size_t{33}, std::size_t{517}, std::size_t{2051}})
      for (const DType dtype : floating_dtypes)
        for (const bool logarithm : {false, true})
          for (const Layout layout : {Layout::contiguous, Layout::transposed}) {
            RandomFloats random(44);
            const StoredMatrix x = store_matrix(rows, columns, dtype, layout, random);
            const StoredMatrix y_in = store_matrix(rows, columns, dtype, layout, random);
            const StoredMatrix dy = store_matrix(rows, columns, dtype, layout, random);
            std::vector<float> plain_y(x.values.size()), plain_dx(x.values.size());
            SoftmaxArgs args;
            args.rows = rows;
            args.columns = columns;
            args.logarithm = logarithm;
            args.x = plain(x.values, columns);
            args.y_in = plain(y_in.values, columns);
            args.dy = plain(dy.values, columns);
            args.y = plain_target(plain_y, columns);
            args.dx = plain_target(plain_dx, columns);
            target.kernels->norm.softmax(args);
            target.kernels->norm.softmax_backward(args);
            args.x = x.operand;
            args.y_in = y_in.operand;
            args.dy = dy.operand;
            TargetMatrix y(rows, columns, dtype, Rounding::stochastic);
            TargetMatrix dx(rows, columns, dtype, Rounding::nearest_even);
            args.y = y.target;
            args.dx = dx.target;
            target.kernels->norm.softmax(args);
            target.kernels->norm.softmax_backward(args);
            INFO(std::string(target.name)
                 << ": " << columns << " columns, " << std::string(to_string(dtype)) << ", layout "
                 << static_cast<int>(layout) << ", log " << logarithm);
            CHECK(y.holds(plain_y, columns));
            CHECK(dx.holds(plain_dx, columns));
          }
}

TEST_CASE("softmax in place", "[unit][norm][softmax]") {
  auto any = make_context();
  RandomFloats random(45);
  const std::vector<float> x = random.many(1037), dy = random.many(1037);
  for (const Target& target : any.targets().targets)
    for (const bool logarithm : {false, true}) {
      const Result apart = run(*target.kernels, x, dy, 61, logarithm);
      std::vector<float> in_place = x;
      SoftmaxArgs args;
      args.rows = 17;
      args.columns = 61;
      args.logarithm = logarithm;
      args.x = plain(in_place, 61);
      args.y = plain_target(in_place, 61);
      target.kernels->norm.softmax(args);
      CHECK(same_bits(apart.y, in_place));
    }
}

TEST_CASE("softmax of infinities and NaN is what the formula gives", "[unit][norm][softmax]") {
  auto any = make_context();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Target& target : any.targets().targets)
    for (const std::size_t columns : {std::size_t{1}, std::size_t{5}, std::size_t{40}})
      for (const bool logarithm : {false, true}) {
        const std::vector<float> dy(columns, 1);
        INFO(std::string(target.name) << ": " << columns << " columns, log " << logarithm);
        const auto all_nan = [&](const std::vector<float>& x) {
          const std::vector<float> y = run(*target.kernels, x, dy, columns, logarithm).y;
          return std::all_of(y.begin(), y.end(), [](float value) { return std::isnan(value); });
        };
        std::vector<float> x(columns, 1);
        for (const float bad : {nan, infinity}) {
          x.back() = bad;
          CHECK(all_nan(x));
        }
        CHECK(all_nan(std::vector<float>(columns, -infinity)));
        if (columns == 1) continue;
        x.back() = -infinity;
        const std::vector<float> y = run(*target.kernels, x, dy, columns, logarithm).y;
        CHECK(y.back() == (logarithm ? -infinity : 0));
        CHECK(std::isfinite(y.front()));
      }
}
