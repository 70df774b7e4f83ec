// These tests compare the optimizer steps on every target with PyTorch's formulas in double, and
// their bits with the defined order of rounding.

#include <soma/kernels/reference/optimizer.hpp>
#include <soma/kernels/table.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "kernels/optimizer/optimizer_call.hpp"
#include "support/every_target.hpp"
#include "support/stored_run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

constexpr double epsilon32 = 0x1p-24;  // half a unit in the last place of 1

// As run_chunk of the kernels, and not: whole groups of 16, parts of them, several chunks.
constexpr std::size_t counts[] = {0, 1, 15, 16, 17, 33, 511, 512, 513, 1300};

double squares_in_lanes(const Floats& x) {
  std::array<double, 16> lane{};
  for (std::size_t i = 0; i < x.size(); ++i)
    lane[i % 16] += static_cast<double>(x[i]) * static_cast<double>(x[i]);  // exact product
  for (std::size_t half = 8; half != 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

template <class Args>
reference::Adam<double> adam_reference(const Args& args) {
  return {rate, beta1, beta2, static_cast<double>(args.epsilon), decay};
}

// The gradient as both sides see it, in double.
double scaled(float g, float factor) {
  return static_cast<double>(g) * static_cast<double>(factor);
}

// Bounds on the error of the moments. Each constant (beta, factor) is within half a unit of the
// number meant; g, the share's product and the fused sum round once each: fewer than 6 half units
// of the terms' magnitudes, for v (two more products, all terms positive) fewer than 10 of v.
double m_bound(double m, double g) {
  return 6 * epsilon32 * (beta1 * std::fabs(m) + (1 - beta1) * std::fabs(g));
}

// The error of m / (sqrt(v) c + epsilon) times a constant: half v's relative error, the root, the
// constants, the sum, the product and the quotient add fewer than 14 half units to m's own error.
double ratio_bound(double m_error, double m, double divisor, double factor) {
  return factor * (m_error + 14 * epsilon32 * std::fabs(m)) / divisor;
}

}  // namespace

TEST_CASE("SGD follows its formula and order", "[unit][optimizer]") {
  on_every_target([](Context& context) {
    for (const std::size_t count : counts)
      for (int variant = 0; variant < 8; ++variant) {
        Run run = some_run(count);
        const Run before = run;
        SgdArgs args = sgd_args(run);
        args.nesterov = (variant & 1) != 0;
        args.first_step = (variant & 2) != 0;
        if ((variant & 4) != 0) args.momentum_state.data = nullptr;
        if (args.first_step) std::fill(run.m.begin(), run.m.end(), std::nanf(""));  // not read
        context.kernels().optimizer.sgd(args);

        Run expected = before;
        const auto wide = [](float x) { return static_cast<double>(x); };
        const reference::Sgd<double> formula{
            wide(args.rate), args.momentum_state.data != nullptr ? wide(args.momentum) : 0,
            wide(args.dampening), wide(args.weight_decay), args.nesterov};
        bool close = true;
        for (std::size_t i = 0; i < count; ++i) {
          double w = wide(before.w[i]), b = wide(before.m[i]);
          const double g = scaled(before.g[i], args.gradient.factor);
          formula.step(w, b, g, args.first_step);
          // Fewer than 8 roundings, each at most half a unit of the largest magnitude that the
          // terms could reach together; the constants are the same numbers on both sides.
          const double most = std::fabs(wide(before.w[i])) + 2 * (std::fabs(g) + std::fabs(b)) +
                              std::fabs(wide(before.m[i]));
          close = close && std::fabs(wide(run.w[i]) - w) <= 8 * epsilon32 * most;
          sgd_in_order(args, expected.w[i], expected.m[i], before.g[i]);
        }
        INFO(count << " elements, variant " << variant);
        CHECK(close);
        CHECK(same_bits(run.w, expected.w));
        if (args.momentum_state.data != nullptr) CHECK(same_bits(run.m, expected.m));
      }
  });
}

TEST_CASE("AdamW follows its formula and order", "[unit][optimizer]") {
  on_every_target([](Context& context) {
    for (const std::size_t count : counts)
      for (const int t : {1, 7, 1000}) {
        Run run = some_run(count);
        if (t == 1) {
          std::fill(run.m.begin(), run.m.end(), 0.0f);
          std::fill(run.v.begin(), run.v.end(), 0.0f);
        }
        const Run before = run;
        const AdamArgs args = adam_args(run, t);
        context.kernels().optimizer.adam(args);

        Run expected = before;
        const auto formula = adam_reference(args);
        bool close = true;
        for (std::size_t i = 0; i < count; ++i) {
          double w = static_cast<double>(before.w[i]), m = static_cast<double>(before.m[i]);
          double v = static_cast<double>(before.v[i]);
          const double g = scaled(before.g[i], args.gradient.factor);
          const double m_error = m_bound(m, g);
          formula.step(w, m, v, g, t);
          const double divisor = std::sqrt(v) / std::sqrt(formula.correction2(t)) + formula.epsilon;
          const double w_error =
              ratio_bound(m_error, m, divisor, rate / formula.correction1(t)) +
              2 * epsilon32 * (std::fabs(static_cast<double>(before.w[i])) + std::fabs(w));
          close = close && std::fabs(static_cast<double>(run.m[i]) - m) <= m_error;
          close = close && std::fabs(static_cast<double>(run.v[i]) - v) <= 10 * epsilon32 * v;
          close = close && std::fabs(static_cast<double>(run.w[i]) - w) <= w_error;
          adam_in_order(args, expected.w[i], expected.m[i], expected.v[i], before.g[i]);
        }
        INFO(count << " elements, step " << t);
        CHECK(close);
        CHECK(same_bits(run.w, expected.w));
        CHECK(same_bits(run.m, expected.m));
        CHECK(same_bits(run.v, expected.v));
      }
  });
}

TEST_CASE("LAMB follows its formula and order", "[unit][optimizer]") {
  on_every_target([](Context& context) {
    for (const std::size_t count : counts) {
      const int t = 3;
      Run run = some_run(count);
      const Run before = run;
      Floats update(count + 1, 9.0f);
      LambArgs args = lamb_args(run, t, update);
      context.kernels().optimizer.lamb_update(args);
      CHECK(update.back() == 9.0f);
      update.pop_back();

      Run expected = before;
      Floats expected_update(count);
      const auto formula = adam_reference(args);
      bool close = true;
      for (std::size_t i = 0; i < count; ++i) {
        const auto w = static_cast<double>(before.w[i]);
        double m = static_cast<double>(before.m[i]), v = static_cast<double>(before.v[i]);
        const double g = scaled(before.g[i], args.gradient.factor);
        const double m_error = m_bound(m, g);
        const double u = formula.lamb_update(w, m, v, g, t);
        const double divisor = std::sqrt(v / formula.correction2(t)) + formula.epsilon;
        const double u_error = ratio_bound(m_error, m, divisor, 1 / formula.correction1(t)) +
                               2 * epsilon32 * (decay * std::fabs(w) + std::fabs(u));
        close = close && std::fabs(static_cast<double>(update[i]) - u) <= u_error;
        expected_update[i] =
            lamb_in_order(args, before.w[i], expected.m[i], expected.v[i], before.g[i]);
      }
      INFO(count << " elements");
      CHECK(close);
      CHECK(same_bits(update, expected_update));
      CHECK(same_bits(run.m, expected.m));
      CHECK(same_bits(run.v, expected.v));
      CHECK(same_bits(run.w, before.w));
      CHECK(args.weight_squares == squares_in_lanes(before.w));
      CHECK(args.update_squares == squares_in_lanes(update));

      args.rate_times_trust = 0.013f;
      context.kernels().optimizer.lamb_apply(args);
      for (std::size_t i = 0; i < count; ++i)
        expected.w[i] = std::fma(-args.rate_times_trust, update[i], before.w[i]);
      CHECK(same_bits(run.w, expected.w));
    }
  });
}

TEST_CASE("LAMB without epsilon counts only what is there", "[unit][optimizer]") {
  on_every_target([](Context& context) {
    Run run = some_run(21);
    Floats update(21);
    LambArgs args = lamb_args(run, 2, update);
    args.epsilon = 0;
    context.kernels().optimizer.lamb_update(args);
    CHECK(args.update_squares == squares_in_lanes(update));
  });
}

TEST_CASE("moments that have faded are zero", "[unit][optimizer]") {
  on_every_target([](Context& context) {
    Run run = some_run(64);
    for (std::size_t i = 0; i < 64; ++i) {
      run.g[i] = 0;
      const int powers = static_cast<int>(i) - 32;  // below and above
      run.m[i] = std::ldexp(i % 2 == 0 ? 1.2f : -1.2f, -100 + powers);
      run.v[i] = std::ldexp(1.3f, (std::max)(-126 + powers, -149));
    }
    const Run before = run;
    Run expected = before;
    const AdamArgs adam = adam_args(run, 1000);
    context.kernels().optimizer.adam(adam);
    for (std::size_t i = 0; i < 64; ++i)
      adam_in_order(adam, expected.w[i], expected.m[i], expected.v[i], 0);
    CHECK(same_bits(run.w, expected.w));
    CHECK(same_bits(run.m, expected.m));
    CHECK(same_bits(run.v, expected.v));
    // 0.9 * 1.2 is above 1, 0.999 * 1.3 too: those of a power below the smallest are gone.
    CHECK(std::count(run.m.begin(), run.m.end(), 0.0f) == 32);
    CHECK(std::count(run.v.begin(), run.v.end(), 0.0f) == 32);

    run = expected = before;
    SgdArgs sgd = sgd_args(run);
    sgd.weight_decay = 0;
    context.kernels().optimizer.sgd(sgd);
    for (std::size_t i = 0; i < 64; ++i) sgd_in_order(sgd, expected.w[i], expected.m[i], 0);
    CHECK(same_bits(run.w, expected.w));
    CHECK(same_bits(run.m, expected.m));
    CHECK(std::count(run.m.begin(), run.m.end(), 0.0f) == 32);

    run = before;
    Floats update(64);
    LambArgs lamb = lamb_args(run, 1000, update);
    context.kernels().optimizer.lamb_update(lamb);
    CHECK(std::count(run.m.begin(), run.m.end(), 0.0f) == 32);
    CHECK(std::count(run.v.begin(), run.v.end(), 0.0f) == 32);
  });
}

TEST_CASE("a gradient that is not finite goes where the formulas take it", "[unit][optimizer]") {
  on_every_target([](Context& context) {
    const float infinity = std::numeric_limits<float>::infinity();
    Run run = some_run(40);
    const Run before = run;
    run.g[3] = std::nanf("");
    run.g[39] = infinity;
    context.kernels().optimizer.adam(adam_args(run, 2));
    for (const std::size_t i : std::vector<std::size_t>{3, 39})
      CHECK(std::isnan(run.w[i]));  // infinity over infinity
    CHECK(std::isnan(run.m[3]));
    CHECK(run.m[39] == infinity);
    CHECK(run.v[39] == infinity);
    CHECK(std::isfinite(run.w[2]));
    CHECK(std::isfinite(run.w[38]));

    run = before;
    run.g[3] = std::nanf("");
    run.g[39] = infinity;
    context.kernels().optimizer.sgd(sgd_args(run));
    CHECK(std::isnan(run.w[3]));
    CHECK(run.w[39] == -infinity);
    CHECK(run.m[39] == infinity);

    run = before;
    run.g[39] = infinity;
    Floats update(40);
    LambArgs args = lamb_args(run, 2, update);
    context.kernels().optimizer.lamb_update(args);
    CHECK(std::isnan(update[39]));
    CHECK(std::isnan(args.update_squares));
    CHECK(std::isfinite(args.weight_squares));
  });
}
