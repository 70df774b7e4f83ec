// Optimizer steps: against PyTorch's formulas in double, bit by bit against their defined order of
// rounding, and with states of every type, on every target.

#include <soma/kernels/reference/optimizer.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/every_target.hpp"
#include "support/samples.hpp"
#include "support/stored_run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace soma;
using soma_test::floating_dtypes;
using soma_test::on_every_target;
using soma_test::same_bits;
using soma_test::stored;
using soma_test::values_of;

namespace {

constexpr double epsilon32 = 0x1p-24;  // half a unit in the last place of 1
using Floats = std::vector<float>;

// Draws of a normal distribution, times `size`.
Floats normal(std::size_t count, std::uint64_t seed, float size = 1) {
  auto context = make_context({.threads = 1});
  Floats values(count);
  fill_normal(context, values, {.seed = seed});
  for (float& value : values) value *= size;
  return values;
}

Floats magnitudes(Floats values) {
  for (float& value : values) value = std::fabs(value);
  return values;
}

// Parameter, gradient and states of a run, in fp32.
struct Run {
  Floats w, g, m, v;
};

Run some_run(std::size_t count) {
  return {normal(count, 1), normal(count, 2, 0.1f), normal(count, 3, 0.05f),
          magnitudes(normal(count, 4, 0.01f))};
}

// As run_chunk of the kernels, and not: whole groups of 16, parts of them, several chunks.
constexpr std::size_t counts[] = {0, 1, 15, 16, 17, 33, 511, 512, 513, 1300};

// ---- the defined order of rounding, one element at a time

float zero_below(float smallest, float x) { return std::fabs(x) < smallest ? 0.0f : x; }

void sgd_in_order(const SgdArgs& a, float& w, float& b, float g) {
  g = std::fma(a.weight_decay, w, g * a.gradient.factor);
  float step = g;
  if (a.momentum_state.data != nullptr) {
    const float share = (1.0f - a.dampening) * g;
    b = a.first_step ? g : std::fma(a.momentum, b, share);
    b = zero_below(smallest_first_moment, b);
    step = a.nesterov ? std::fma(a.momentum, b, g) : b;
  }
  w = std::fma(-a.rate, step, w);
}

template <class Args>
void moments_in_order(const Args& a, float& m, float& v, float g) {
  g *= a.gradient.factor;
  const float share1 = a.one_minus_beta1 * g, share2 = a.one_minus_beta2 * g;
  m = zero_below(smallest_first_moment, std::fma(a.beta1, m, share1));
  v = std::fma(a.beta2, v, share2 * g);
  if (m == 0) v = zero_below(smallest_second_moment, v);
}

void adam_in_order(const AdamArgs& a, float& w, float& m, float& v, float g) {
  moments_in_order(a, m, v, g);
  const float divisor = std::fma(std::sqrt(v), a.inverse_root_correction2, a.epsilon);
  w = std::fma(a.decay_factor, w, -(a.step_size * m / divisor));
}

float lamb_in_order(const LambArgs& a, float w, float& m, float& v, float g) {
  moments_in_order(a, m, v, g);
  const float divisor = std::fma(std::sqrt(v), a.inverse_root_correction2, a.epsilon);
  return std::fma(a.weight_decay, w, m * a.inverse_correction1 / divisor);
}

double squares_in_lanes(const Floats& x) {
  std::array<double, 16> lane{};
  for (std::size_t i = 0; i < x.size(); ++i)
    lane[i % 16] += static_cast<double>(x[i]) * static_cast<double>(x[i]);  // exact product
  for (std::size_t half = 8; half != 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

// ---- arguments for step `t`

SgdArgs sgd_args(Run& run) {
  return {.rows = {1, run.w.size()},
          .weight = {.data = run.w.data()},
          .momentum_state = {.data = run.m.data()},
          .gradient = {.data = run.g.data(), .factor = 0.7f},
          .rate = 0.05f,
          .momentum = 0.9f,
          .dampening = 0.1f,
          .weight_decay = 0.01f};
}

constexpr double rate = 0.01, beta1 = 0.9, beta2 = 0.999, decay = 0.1;

template <class Args>
Args moment_args(Run& run) {
  Args args{};
  if constexpr (requires { args.rows; })
    args.rows.columns = run.w.size();
  else
    args.count = run.w.size();
  args.weight.data = run.w.data();
  args.m.data = run.m.data();
  args.v.data = run.v.data();
  args.gradient = {.data = run.g.data(), .factor = 0.7f};
  args.beta1 = static_cast<float>(beta1);
  args.beta2 = static_cast<float>(beta2);
  args.one_minus_beta1 = static_cast<float>(1 - beta1);
  args.one_minus_beta2 = static_cast<float>(1 - beta2);
  return args;
}

AdamArgs adam_args(Run& run, int t) {
  auto args = moment_args<AdamArgs>(run);
  args.decay_factor = static_cast<float>(1 - rate * decay);
  args.step_size = static_cast<float>(rate / (1 - std::pow(beta1, t)));
  args.inverse_root_correction2 = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, t)));
  return args;
}

LambArgs lamb_args(Run& run, int t, Floats& update) {
  auto args = moment_args<LambArgs>(run);
  args.weight_decay = static_cast<float>(decay);
  args.inverse_correction1 = static_cast<float>(1 / (1 - std::pow(beta1, t)));
  args.inverse_root_correction2 = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, t)));
  args.update = update.data();
  return args;
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

// ---- states of every type

namespace {

// A run in storage of some type: what a StateRun points to.
struct StoredAs {
  DType dtype;
  Rounding rounding;
  Draw draw;
  std::vector<std::byte> bytes;

  StoredAs(DType type, const Rounding& how, std::uint32_t stream, const Floats& values)
      : dtype(type),
        rounding(how),
        draw{.seed = 3, .stream = stream, .step = 5, .index = 1001},
        bytes(stored(type, values)) {}
  StateRun run() { return {bytes.data(), dtype, rounding, draw}; }
  Floats values() const { return values_of(dtype, bytes); }
  std::vector<std::byte> rounded(const Floats& values) const {
    return stored(dtype, values, rounding, draw);
  }
};

// An unsigned type holds magnitudes.
Floats fit(DType dtype, const Floats& values) {
  return format_of(dtype).is_signed ? values : magnitudes(values);
}

}  // namespace

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

TEST_CASE("states are rounded in their own types with their own draws", "[unit][optimizer]") {
  on_every_target([](Context& context) {
    for (const DType dtype : floating_dtypes)
      for (const Rounding& rounding : {Rounding::nearest_even, Rounding::stochastic})
        for (const auto& [count, weight_dtype] :
             std::vector<std::pair<std::size_t, DType>>{{1, dtype},
                                                        {16, dtype},
                                                        {16, DType::fp32},
                                                        {37, dtype},
                                                        {1024, DType::fp32},
                                                        {1100, dtype},
                                                        {1100, DType::fp32}}) {
          Run run = some_run(count);
          StoredAs w(weight_dtype, rounding, 1, fit(weight_dtype, run.w));
          StoredAs m(dtype, rounding, 2, fit(dtype, run.m)), v(dtype, rounding, 3, run.v);
          const StoredAs g(DType::bf16, {}, 0, run.g);
          Run now{w.values(), g.values(), m.values(), v.values()};
          INFO(std::string(to_string(dtype))
               << ", " << count << " elements, weight " << std::string(to_string(weight_dtype)));
          const auto with_storage = [&](auto& args) {
            args.weight = w.run();
            args.m = m.run();
            args.v = v.run();
            args.gradient = {.data = g.bytes.data(), .dtype = DType::bf16, .factor = 0.7f};
          };
          AdamArgs adam = adam_args(run, 4);
          with_storage(adam);
          context.kernels().optimizer.adam(adam);
          for (std::size_t i = 0; i < count; ++i)
            adam_in_order(adam, now.w[i], now.m[i], now.v[i], now.g[i]);
          CHECK(w.bytes == w.rounded(now.w));
          CHECK(m.bytes == m.rounded(now.m));
          CHECK(v.bytes == v.rounded(now.v));

          now = {w.values(), g.values(), m.values(), v.values()};
          Floats update(count), expected(count);
          LambArgs lamb = lamb_args(run, 4, update);
          with_storage(lamb);
          context.kernels().optimizer.lamb_update(lamb);
          for (std::size_t i = 0; i < count; ++i)
            expected[i] = lamb_in_order(lamb, now.w[i], now.m[i], now.v[i], now.g[i]);
          CHECK(same_bits(update, expected));
          CHECK(m.bytes == m.rounded(now.m));
          CHECK(v.bytes == v.rounded(now.v));
          lamb.rate_times_trust = 0.02f;
          context.kernels().optimizer.lamb_apply(lamb);
          for (std::size_t i = 0; i < count; ++i)
            now.w[i] = std::fma(-lamb.rate_times_trust, update[i], now.w[i]);
          CHECK(w.bytes == w.rounded(now.w));

          now = {w.values(), g.values(), m.values(), {}};
          SgdArgs sgd = sgd_args(run);
          sgd.weight = w.run();
          sgd.momentum_state = m.run();
          sgd.gradient = adam.gradient;
          context.kernels().optimizer.sgd(sgd);
          for (std::size_t i = 0; i < count; ++i) sgd_in_order(sgd, now.w[i], now.m[i], now.g[i]);
          CHECK(w.bytes == w.rounded(now.w));
          CHECK(m.bytes == m.rounded(now.m));
        }
  });
}

TEST_CASE("rows of one call are the calls of each row", "[unit][optimizer]") {
  constexpr std::size_t rows = 5;
  constexpr std::uint64_t stride = std::uint64_t{1} << 32;
  on_every_target([&](Context& context) {
    const OptimizerKernels& kernels = context.kernels().optimizer;
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp8_e4m3})
      for (const std::size_t columns : std::vector<std::size_t>{1, 16, 37, 600})
        for (const bool gradient : {true, false}) {
          INFO(std::string(to_string(dtype))
               << ", " << columns << " columns, gradient " << gradient);
          Run run = some_run(rows * columns);
          const Floats zeros(rows * columns);
          const auto stored_as = [&](std::uint32_t stream, const Floats& values) {
            return StoredAs(dtype, Rounding::stochastic, stream, values);
          };
          StoredAs w = stored_as(1, run.w), m = stored_as(2, run.m), v = stored_as(3, run.v);
          StoredAs w2 = w, m2 = m, v2 = v;
          const auto from = [&](const StateRun& whole, std::size_t row) {
            StateRun part = whole;
            part.data = static_cast<std::byte*>(part.data) + row * columns * size_of(dtype);
            part.draw.index += row * stride;
            return part;
          };

          AdamArgs args = adam_args(run, 4);
          args.rows = {rows, columns, stride};
          args.weight = w.run(), args.m = m.run(), args.v = v.run();
          if (!gradient) args.gradient = {.factor = args.gradient.factor, .sparse = true};
          kernels.adam(args);
          SgdArgs sgd = sgd_args(run);
          sgd.rows = args.rows;
          sgd.weight = args.weight, sgd.momentum_state = args.m, sgd.gradient = args.gradient;
          kernels.sgd(sgd);

          for (std::size_t row = 0; row < rows; ++row) {
            args.rows = sgd.rows = {1, columns};
            args.gradient = {.data = (gradient ? run.g : zeros).data() + row * columns,
                             .factor = args.gradient.factor};
            args.weight = from(w2.run(), row), args.m = from(m2.run(), row);
            args.v = from(v2.run(), row);
            kernels.adam(args);
          }
          for (std::size_t row = 0; row < rows; ++row) {
            sgd.gradient = {.data = (gradient ? run.g : zeros).data() + row * columns,
                            .factor = args.gradient.factor};
            sgd.weight = from(w2.run(), row), sgd.momentum_state = from(m2.run(), row);
            kernels.sgd(sgd);
          }
          CHECK(w.bytes == w2.bytes);
          CHECK(m.bytes == m2.bytes);
          CHECK(v.bytes == v2.bytes);
        }
  });
}

TEST_CASE("a sparse gradient, with rows marked or not, is a dense one with zeros",
          "[unit][optimizer]") {
  constexpr std::size_t rows = 9;
  constexpr std::int64_t first_row = 100;
  const std::vector<std::int64_t> touched{first_row + 1, first_row + 4, first_row + 5,
                                          first_row + 8};
  const std::uint8_t live[rows] = {1, 1, 0, 0, 1, 0, 1, 0, 0};  // in touched rows it says nothing
  on_every_target([&](Context& context) {
    const OptimizerKernels& kernels = context.kernels().optimizer;
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp8_e4m3})
      for (const std::size_t columns : std::vector<std::size_t>{1, 16, 37, 600})
        for (const std::uint64_t stride : {std::uint64_t{columns}, std::uint64_t{1} << 32})
          for (const float decay_factor : {1.0f, 0.999f}) {
            INFO(std::string(to_string(dtype))
                 << ", " << columns << " columns " << stride << " apart, decay " << decay_factor);
            Run run = some_run(rows * columns);
            for (std::size_t i = 0; i < run.w.size(); i += 5) run.w[i] = i % 2 == 0 ? -0.0f : 0.0f;
            Floats dense(rows * columns);
            for (std::size_t k = 0; k < touched.size(); ++k)
              std::copy_n(
                  run.g.begin() + static_cast<std::ptrdiff_t>(k * columns), columns,
                  dense.begin() + (touched[k] - first_row) * static_cast<std::ptrdiff_t>(columns));
            for (std::size_t row = 0; row < rows; ++row)
              if (live[row] == 0)
                for (std::size_t i = row * columns; i < (row + 1) * columns; ++i)
                  run.m[i] = run.v[i] = 0;
            const auto stored_as = [&](std::uint32_t stream, const Floats& values) {
              return StoredAs(dtype, Rounding::stochastic, stream, values);
            };
            StoredAs w = stored_as(1, run.w), m = stored_as(2, run.m), v = stored_as(3, run.v);
            StoredAs w2 = w, m2 = m, v2 = v;
            AdamArgs args = adam_args(run, 4);
            args.rows = {rows, columns, stride};
            args.decay_factor = decay_factor;
            args.weight = w.run(), args.m = m.run(), args.v = v.run();
            args.gradient.data = dense.data();
            SgdArgs sgd = sgd_args(run);
            sgd.rows = args.rows;
            sgd.gradient = args.gradient;
            kernels.adam(args);
            sgd.weight = args.weight, sgd.momentum_state = args.m;
            kernels.sgd(sgd);

            args.weight = w2.run(), args.m = m2.run(), args.v = v2.run();
            args.gradient = sgd.gradient = {.data = run.g.data(),
                                            .factor = args.gradient.factor,
                                            .sparse = true,
                                            .rows = touched,
                                            .first_row = first_row};
            args.live = live;
            kernels.adam(args);
            sgd.weight = args.weight, sgd.momentum_state = args.m;
            kernels.sgd(sgd);
            CHECK(w.bytes == w2.bytes);
            CHECK(m.bytes == m2.bytes);
            CHECK(v.bytes == v2.bytes);
          }
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
