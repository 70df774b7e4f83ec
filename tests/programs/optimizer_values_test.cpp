// These tests compare the programs of optimizer steps with the host's kernels, within rounding, for
// every kind of storage, rounding and gradient. They also check what both refuse.

#include <soma/neuroncore.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "programs/optimizer_steps.hpp"
#include "support/table.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

// ---- what rounding may change, element by element: 2^-24 times the number of roundings that host
// and program do differently, times the magnitudes that are added.

struct Bounds {
  std::vector<double> first, second;  // states
  std::vector<double> weight;
};

// m' and v' without cancellation, and 1 / (root + epsilon).
struct Terms {
  double m, v, inverse;
};
template <class Setting>
Terms terms_of(const Setting& s, double gradient, double m, double v) {
  const double g = gradient * static_cast<double>(s.gradient_factor);
  const double v_next =
      static_cast<double>(s.beta2) * v + static_cast<double>(s.one_minus_beta2) * g * g;
  return {std::fabs(static_cast<double>(s.beta1) * m) +
              std::fabs(static_cast<double>(s.one_minus_beta1) * g),
          v_next,
          1 / (std::sqrt(v_next) * static_cast<double>(s.inverse_root_correction2) +
               static_cast<double>(s.epsilon))};
}

Bounds bounds_of(const StepCase& c, const Problem& problem, const State& before) {
  constexpr double u = 0x1p-24;
  const std::vector<double>&w = before[0], &g = problem.dense_gradient;
  Bounds bounds;
  if (c.kind == Kind::sgd) {
    const SgdSetting s = sgd_setting(c);
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double decayed =
          std::fabs(static_cast<double>(s.weight_decay) * w[i]) + std::fabs(g[i]);
      const double b = std::fabs(static_cast<double>(s.momentum) * before[1][i]) + decayed;
      bounds.first.push_back(8 * u * b);  // 4 on each side
      bounds.weight.push_back(16 * u *
                              (std::fabs(w[i]) + static_cast<double>(s.rate) * (b + decayed)));
    }
    return bounds;
  }
  const AdamSetting adam = adam_setting(c);
  const LambSetting lamb = lamb_setting(c);
  double weights = 0, updates = 0, magnitudes = 0;  // sums of squares
  std::vector<double> update, magnitude;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const Terms t = c.kind == Kind::adam ? terms_of(adam, g[i], before[1][i], before[2][i])
                                         : terms_of(lamb, g[i], before[1][i], before[2][i]);
    bounds.first.push_back(6 * u * t.m);
    bounds.second.push_back(8 * u * t.v);
    if (c.kind == Kind::adam) {
      bounds.weight.push_back(4 * u * std::fabs(w[i]) +
                              24 * u * static_cast<double>(adam.step_size) * t.m * t.inverse);
      continue;
    }
    // u and its magnitude; the sign of m does not matter for a bound.
    const double decayed = static_cast<double>(lamb.weight_decay) * w[i];
    const double gradient = g[i] * static_cast<double>(lamb.gradient_factor);
    const double m = static_cast<double>(lamb.beta1) * before[1][i] +
                     static_cast<double>(lamb.one_minus_beta1) * gradient;
    const double correction = static_cast<double>(lamb.inverse_correction1) * t.inverse;
    update.push_back(decayed + m * correction);
    magnitude.push_back(std::fabs(decayed) + t.m * correction);
    weights += w[i] * w[i];
    updates += update[i] * update[i];
    magnitudes += magnitude[i] * magnitude[i];
  }
  if (c.kind == Kind::lamb) {
    // The norms: 128 partitions, up to 2048 / 16 additions a lane and 5 to join them, a sum of as
    // many parts as there are; half of that in a root, of two norms.
    const double parts = static_cast<double>(w.size()) / 128 + 3;
    const double sums = (128 + 128 + 5 + parts + 8) * u;
    const double ratio = weights > 0 && updates > 0 ? std::sqrt(weights / updates) : 1;
    const double off = sums + (updates > 0 ? 24 * u * std::sqrt(magnitudes / updates) : 0);
    const double rate = static_cast<double>(lamb.rate) * ratio;
    for (std::size_t i = 0; i < w.size(); ++i)
      bounds.weight.push_back(4 * u * std::fabs(w[i]) + 24 * u * rate * magnitude[i] +
                              off * rate * std::fabs(update[i]));
  }
  return bounds;
}

// A value off by the bound may be rounded to the other neighbour.
std::string compare(const std::vector<double>& given, const std::vector<double>& wanted,
                    const std::vector<double>& bounds, DType dtype) {
  const FloatFormat format = format_of(dtype);
  const double smallest = std::ldexp(1.0, 1 - format.bias - format.mantissa_bits);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const double spacing =
        dtype == DType::fp32
            ? 0
            : (std::max)(smallest, std::ldexp(std::fabs(wanted[i]), -format.mantissa_bits));
    // Equal: both may have become infinite.
    if (given[i] != wanted[i] && !(std::fabs(given[i] - wanted[i]) <= bounds[i] + spacing))
      return "element " + std::to_string(i) + " is " + std::to_string(given[i]) + ", wanted " +
             std::to_string(wanted[i]) + ", off by " +
             std::to_string(std::fabs(given[i] - wanted[i]) / (bounds[i] + spacing)) + " bounds";
  }
  return {};
}

void check_close(const StepCase& c) {
  INFO(describe(c));
  auto context = make_context({.threads = 1});
  const Problem problem = make_problem(context, c, c.sparse);
  const Bounds bounds = bounds_of(c, problem, state_of(problem));
  run_step(context, c, problem);
  const State host = state_of(problem), device = on_device(c);
  REQUIRE(host.size() == device.size());
  CHECK(compare(device[0], host[0], bounds.weight, c.weight) == "");
  CHECK(compare(device[1], host[1], bounds.first, c.state) == "");
  if (device.size() > 2) CHECK(compare(device[2], host[2], bounds.second, c.state) == "");
}

// Flat and by row; less than a transfer, a partition, a tile; more; not divisible.
const Shape shapes[] = {Shape{1},
                        Shape{300},
                        Shape{3, 5},
                        Shape{129, 33},
                        Shape{2, 2100},
                        Shape{2, 3, 7},
                        Shape{128 * 2048 + 777}};

}  // namespace

static void values_of_steps(Table table) {
  const Shape rows = table == Table::whole ? Shape{131, 2057} : Shape{131, 57};
  for (const Kind kind : kinds) {
    for (const Shape& shape : shapes)
      for (const bool sparse : {false, true}) {
        if (shape.elements() > 100000 && (sparse || (table == Table::part && kind != kinds[0])))
          continue;
        check_close({.kind = kind, .shape = shape, .sparse = sparse});
      }
    for (const DType dtype : {DType::bf16, DType::fp16})
      for (const Rounding& rounding : {Rounding::nearest_even, Rounding::stochastic}) {
        for (const bool sparse : {false, true})
          check_close({.kind = kind,
                       .shape = rows,
                       .weight = dtype,
                       .state = dtype,
                       .gradient = dtype,
                       .weight_rounding = rounding,
                       .state_rounding = rounding,
                       .sparse = sparse});
        check_close(
            {.kind = kind, .shape = Shape{41, 13}, .state = dtype, .state_rounding = rounding});
        check_close(
            {.kind = kind, .shape = Shape{41, 13}, .weight = dtype, .weight_rounding = rounding});
      }
  }
}

TEST_CASE("an optimizer step's program computes what the host does", "[unit]") {
  values_of_steps(Table::part);
}
TEST_CASE("an optimizer step's program computes what the host does: all", "[slow]") {
  values_of_steps(Table::whole);
}

TEST_CASE("an optimizer step's program refuses what the host refuses", "[unit]") {
  auto context = make_context({.threads = 1});
  auto core = neuroncore::make_core(context, neuroncore::trn1());
  auto device = neuroncore::make_device(core);
  for (const bool on_core : {false, true})
    for (const Kind kind : kinds) {
      const StepCase c{.kind = kind, .shape = Shape{5, 3}, .sparse = true};
      Problem problem = make_problem(context, c, true);
      problem.inputs[2].mutable_data<std::int64_t>()[1] = 5;
      const State before = state_of(problem);
      context.set_device(on_core ? &device : nullptr);
      CHECK_THROWS_WITH(run_step(context, c, problem), Catch::Contains("rows of the weight"));
      context.set_device(nullptr);
      CHECK(state_of(problem) == before);
    }
  // Nothing to step, and a gradient of no rows.
  for (const Kind kind : kinds) {
    context.set_device(&device);
    const Problem nothing =
        make_problem(context, {.kind = kind, .shape = Shape{0, 3}, .sparse = true}, true);
    CHECK_NOTHROW(run_step(context, {.kind = kind}, nothing));
    context.set_device(nullptr);
    check_close({.kind = kind, .shape = Shape{1, 3}, .sparse = true});
  }
}
