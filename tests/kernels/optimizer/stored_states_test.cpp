// These tests check optimizer steps on every target whose weights and states are stored in every
// type, rounded with draws of their own, in rows, and with sparse gradients.

#include <soma/kernels/table.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "kernels/optimizer/optimizer_call.hpp"
#include "support/every_target.hpp"
#include "support/floating_dtypes.hpp"
#include "support/stored_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

// A run in storage of some type: what a StateRun points to.
struct StoredAs {
  DType dtype;
  Rounding rounding;
  Draw draw;
  std::vector<std::byte> bytes;

  StoredAs(DType type, const Rounding& how, std::uint32_t stream, const Floats& values,
           std::uint64_t index = 1001)
      : dtype(type),
        rounding(how),
        draw{.seed = 3, .stream = stream, .step = 5, .index = index},
        bytes(stored(type, values)) {}
  StateRun run() { return {bytes.data(), dtype, rounding, draw}; }
  Floats values() const { return values_of(dtype, bytes); }
  std::vector<std::byte> rounded(const Floats& values) const {
    return stored(dtype, values, rounding, draw);
  }
};

constexpr Rounding drawn_by_ars{.mode = RoundingMode::stochastic, .draws = DrawMapping::ars};

// An unsigned type holds magnitudes.
Floats fit(DType dtype, const Floats& values) {
  return format_of(dtype).is_signed ? values : magnitudes(values);
}

}  // namespace

TEST_CASE("states are rounded in their own types with their own draws", "[unit][optimizer]") {
  on_every_target([](Context& context) {
    for (const DType dtype : floating_dtypes)
      for (const Rounding& rounding : {Rounding::nearest_even, Rounding::stochastic, drawn_by_ars})
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

TEST_CASE("bf16 that draws between steps has the bits of bf16 that draws first",
          "[unit][optimizer]") {
  on_every_target([](Context& context) {
    const OptimizerKernels& kernels = context.kernels().optimizer;
    // Whole blocks or not, whole pairs of vectors or not, alike in all draws or not.
    for (const std::size_t count : std::vector<std::size_t>{16, 32, 48, 512, 1024, 1056, 1100})
      for (const std::uint64_t index : {std::uint64_t{1000}, std::uint64_t{1001}})
        for (const bool alike : {true, false}) {
          Run run = some_run(count);
          // Also what rounding must leave alone, and what makes a weight NaN.
          const float odd[] = {0.0f,  -0.0f,   INFINITY, -INFINITY, 1e-40f,
                               3e38f, -1e-38f, NAN,      0x1p-101f};
          for (std::size_t i = 0; i < count; i += 7) {
            Floats& array = i % 3 == 0 ? run.w : i % 3 == 1 ? run.m : run.g;
            array[i] = odd[i / 7 % std::size(odd)];
            if (i % 5 == 0) run.v[i] = std::fabs(odd[i / 5 % std::size(odd)]);
          }
          const auto stored_as = [&](std::uint32_t stream, const Floats& values,
                                     std::uint64_t first) {
            return StoredAs(DType::bf16, drawn_by_ars, stream, values, first);
          };
          StoredAs w = stored_as(1, run.w, index), m = stored_as(2, run.m, index),
                   v = stored_as(3, run.v, alike ? index : index + 8);
          INFO(count << " elements, index " << index << ", alike " << alike);
          // A bf16 gradient is read where it lies.
          const StoredAs narrow(DType::bf16, {}, 0, run.g);
          const bool is_narrow = count % 32 == 0;
          Run now{w.values(), is_narrow ? narrow.values() : run.g, m.values(), v.values()};
          AdamArgs args = adam_args(run, 4);
          if (is_narrow)
            args.gradient = {
                .data = narrow.bytes.data(), .dtype = DType::bf16, .factor = args.gradient.factor};
          args.weight = w.run(), args.m = m.run(), args.v = v.run();
          kernels.adam(args);
          for (std::size_t i = 0; i < count; ++i)
            adam_in_order(args, now.w[i], now.m[i], now.v[i], now.g[i]);
          // Which NaN an operation makes is the machine's choice.
          const auto same = [](const StoredAs& given, const Floats& wanted) {
            return same_bits(given.values(), values_of(DType::bf16, given.rounded(wanted)));
          };
          CHECK(same(w, now.w));
          CHECK(same(m, now.m));
          CHECK(same(v, now.v));
        }
  });
}
