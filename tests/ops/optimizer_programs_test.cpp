// The programs of optimizer steps against the host's kernels: every kind of storage, rounding and
// gradient, within rounding; bit for bit where both compute the same numbers before they are
// stored; and whatever must not change the bits.

#include <soma/neuroncore.hpp>
#include <soma/ops/operators.hpp>
#include <soma/testing.hpp>

#include "catch.hpp"
#include "support/on_device.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

using namespace soma;
namespace check = soma::testing::detail;

namespace {

enum class Kind { sgd, adam, lamb };
constexpr Kind kinds[] = {Kind::sgd, Kind::adam, Kind::lamb};
const char* name_of(Kind kind) {
  return kind == Kind::sgd ? "sgd" : kind == Kind::adam ? "adam" : "lamb";
}

// What numbers a step starts from.
enum class Numbers {
  ordinary,
  exact,    // nothing is rounded before it is stored: the root of v is a power of two
  moments,  // the same of m and v only, with any v
};

struct StepCase {
  Kind kind = Kind::adam;
  Shape shape{5};
  DType weight = DType::fp32, state = DType::fp32, gradient = DType::fp32;
  Rounding weight_rounding{}, state_rounding{};
  bool sparse = false;
  Numbers numbers = Numbers::ordinary;
};

std::string describe(const StepCase& c) {
  return std::string(name_of(c.kind)) + " " + to_string(c.shape) + " weight " +
         std::string(to_string(c.weight)) + " " + std::string(to_string(c.weight_rounding.mode)) +
         ", states " + std::string(to_string(c.state)) + " " +
         std::string(to_string(c.state_rounding.mode)) + ", gradient " +
         std::string(to_string(c.gradient)) + (c.sparse ? " sparse" : "");
}

// -1 to 1, the same for the same element.
double number(std::size_t array, std::size_t i) {
  const PhiloxCounter words =
      philox4x32_10({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(array), 0, 0}, {});
  return static_cast<double>(words[0]) * 0x1p-31 - 1;
}
double sign(double value) { return value < 0 ? -1 : 1; }

// Elements of weight (0), gradient (1), m or momentum (2), v (3).
double element(const StepCase& c, std::size_t array, std::size_t i) {
  const double x = number(array, i);
  const double gradient = sign(number(1, i)) * (i % 3 == 0 ? 2 : 1);
  if (c.numbers == Numbers::ordinary) return array == 3 ? x * x * 0.01 : array == 1 ? x * 0.1 : x;
  switch (array) {
    case 1:
      return gradient;
    case 3:
      return c.numbers == Numbers::exact ? gradient * gradient
                                         : std::round(std::fabs(x) * 2047) / 1024;
    case 0:
      if (c.kind == Kind::lamb) return 0;  // the trust ratio is then 1
      [[fallthrough]];
    default:
      return std::round(x * 2047) / 1024;
  }
}

Tensor tensor(Context& context, const Shape& shape, DType dtype,
              const std::vector<double>& values) {
  const Tensor result = Tensor::empty(context, shape, dtype);
  for (std::size_t i = 0; i < values.size(); ++i)
    check::store(result.mutable_raw() + i * size_of(dtype), dtype, values[i]);
  return result;
}

// Rows 1, 4, 5, 9 ... of a table.
bool touched(std::size_t row) { return row % 5 == 4 || row % 7 == 1; }

struct Problem {
  std::vector<Tensor> inputs;
  std::vector<double> dense_gradient;
};
Problem make_problem(Context& context, const StepCase& c, bool sparse) {
  const std::size_t elements = c.shape.elements(), rows = c.shape[0];
  const std::size_t columns = rows == 0 ? 0 : elements / rows;
  const auto values = [&](std::size_t array) {
    std::vector<double> result(elements);
    for (std::size_t i = 0; i < elements; ++i) result[i] = element(c, array, i);
    return result;
  };
  Problem problem;
  problem.dense_gradient = values(1);
  std::vector<double> kept;
  std::vector<std::int64_t> numbers;
  for (std::size_t row = 0; c.sparse && row < rows; ++row) {
    const auto begin = problem.dense_gradient.begin() + static_cast<std::ptrdiff_t>(row * columns);
    const auto end = begin + static_cast<std::ptrdiff_t>(columns);
    if (touched(row)) {
      numbers.push_back(static_cast<std::int64_t>(row));
      kept.insert(kept.end(), begin, end);
    } else {
      std::fill(begin, end, 0.0);
    }
  }
  Tensor gradient, which;
  if (sparse) {
    gradient = tensor(context, c.shape.with(0, numbers.size()), c.gradient, kept);
    which = Tensor::from(context, std::span<const std::int64_t>(numbers), Shape{numbers.size()});
  } else {
    gradient = tensor(context, c.shape, c.gradient, problem.dense_gradient);
  }
  for (double& value : problem.dense_gradient) value = check::stored(c.gradient, value);
  problem.inputs = {tensor(context, c.shape, c.weight, values(0)), gradient, which,
                    tensor(context, c.shape, c.state, values(2))};
  if (c.kind != Kind::sgd) problem.inputs.push_back(tensor(context, c.shape, c.state, values(3)));
  return problem;
}

constexpr std::uint64_t seed = 0x123456789ABCDEFu;

SgdSetting sgd_setting(const StepCase& c) {
  SgdSetting setting{.rate = 0.1f,
                     .momentum = 0.9f,
                     .dampening = 0.1f,
                     .weight_decay = 0.01f,
                     .gradient_factor = 0.7f,
                     .nesterov = true};
  if (c.numbers != Numbers::ordinary)
    setting = {.rate = 0.125f, .momentum = 0.5f, .weight_decay = 0.5f};
  setting.weight = c.weight_rounding;
  setting.state = c.state_rounding;
  setting.seed = seed;
  setting.stream = 40;
  setting.step = 3;
  return setting;
}
AdamSetting adam_setting(const StepCase& c) {
  AdamSetting setting{.decay_factor = 0.999f,
                      .step_size = 0.02f,
                      .inverse_root_correction2 = 20,
                      .gradient_factor = 0.7f};
  if (c.numbers != Numbers::ordinary)
    setting = {.beta1 = 0.5f,
               .beta2 = 0.5f,
               .epsilon = 0,
               .one_minus_beta1 = 0.5f,
               .one_minus_beta2 = 0.5f,
               .decay_factor = 0.5f,
               .step_size = 0.125f};
  setting.weight = c.weight_rounding;
  setting.state = c.state_rounding;
  setting.seed = seed;
  setting.stream = 40;
  setting.step = 3;
  return setting;
}
LambSetting lamb_setting(const StepCase& c) {
  LambSetting setting{.rate = 0.05f,
                      .weight_decay = 0.1f,
                      .inverse_correction1 = 3,
                      .inverse_root_correction2 = 20,
                      .gradient_factor = 0.7f};
  if (c.numbers != Numbers::ordinary)
    setting = {.rate = 0.125f,
               .beta1 = 0.5f,
               .beta2 = 0.5f,
               .epsilon = 0,
               .weight_decay = 0.5f,
               .one_minus_beta1 = 0.5f,
               .one_minus_beta2 = 0.5f};
  setting.weight = c.weight_rounding;
  setting.state = c.state_rounding;
  setting.seed = seed;
  setting.stream = 40;
  setting.step = 3;
  return setting;
}

void run_step(Context& context, const StepCase& c, const Problem& problem) {
  switch (c.kind) {
    case Kind::sgd:
      run(context, ops::sgd_step, sgd_setting(c), problem.inputs);
      break;
    case Kind::adam:
      run(context, ops::adam_step, adam_setting(c), problem.inputs);
      break;
    case Kind::lamb:
      run(context, ops::lamb_step, lamb_setting(c), problem.inputs);
      break;
  }
}

// Weight and states after a step.
using State = std::vector<std::vector<double>>;
State state_of(const Problem& problem) {
  State state;
  for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
    if (i == 1 || i == 2) continue;
    std::vector<double> values;
    for (std::size_t e = 0; e < problem.inputs[i].elements(); ++e)
      values.push_back(check::element_of(problem.inputs[i], e));
    state.push_back(values);
  }
  return state;
}

struct How {
  int threads = 1;
  std::uint64_t stress = 0;
  bool sparse_as_dense = false;
};
State on_device(const StepCase& c, const How& how = {}) {
  auto context = make_context({.threads = how.threads});
  const Problem problem = make_problem(context, c, c.sparse && !how.sparse_as_dense);
  const soma_test::OnDevice on(context, soma_test::stressed(how.stress));
  run_step(context, c, problem);
  CHECK(on.device().counts().size() == 1);
  CHECK(on.device().counts()[0].programs == 1);
  return state_of(problem);
}

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

State on_host(const StepCase& c, Bounds* bounds = nullptr) {
  auto context = make_context({.threads = 1});
  const Problem problem = make_problem(context, c, c.sparse);
  const State before = state_of(problem);
  if (bounds != nullptr) *bounds = bounds_of(c, problem, before);
  run_step(context, c, problem);
  return state_of(problem);
}

void check_close(const StepCase& c) {
  INFO(describe(c));
  Bounds bounds;
  const State host = on_host(c, &bounds), device = on_device(c);
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

TEST_CASE("an optimizer step's program computes what the host does", "[unit]") {
  for (const Kind kind : kinds) {
    for (const Shape& shape : shapes)
      for (const bool sparse : {false, true}) {
        if (shape.elements() > 100000 && sparse) continue;
        check_close({.kind = kind, .shape = shape, .sparse = sparse});
      }
    for (const DType dtype : {DType::bf16, DType::fp16})
      for (const Rounding& rounding : {Rounding::nearest_even, Rounding::stochastic}) {
        for (const bool sparse : {false, true})
          check_close({.kind = kind,
                       .shape = Shape{131, 2057},
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

TEST_CASE("what a step stores is rounded to the host's bits", "[unit]") {
  for (const Kind kind : kinds)
    for (const DType dtype : {DType::bf16, DType::fp16, DType::fp8_e4m3})
      for (const Rounding& rounding :
           {Rounding::nearest_even, Rounding::stochastic, Rounding{RoundingMode::stochastic, 32}})
        for (const Shape& shape : {Shape{300}, Shape{131, 2057}, Shape{3, 4, 5}})
          for (const bool sparse : {false, true}) {
            StepCase c{.kind = kind,
                       .shape = shape,
                       .weight = dtype,
                       .state = dtype,
                       .weight_rounding = rounding,
                       .state_rounding = rounding,
                       .sparse = sparse,
                       .numbers = Numbers::exact};
            INFO(describe(c));
            // Without a gradient the root is not a power of two.
            const State host = on_host(c), device = on_device(c);
            if (!sparse || kind == Kind::sgd) CHECK((device[0] == host[0]));
            CHECK((device[1] == host[1]));
            if (kind == Kind::sgd) continue;
            c.numbers = Numbers::moments;
            const State other = on_device(c);
            const State wanted = on_host(c);
            CHECK((other[1] == wanted[1]));
            CHECK((other[2] == wanted[2]));
          }
}

TEST_CASE("nothing that must not changes the bits of an optimizer step", "[unit][invariance]") {
  for (const Kind kind : kinds)
    for (const Rounding& rounding : {Rounding::nearest_even, Rounding::stochastic})
      for (const Shape& shape : {Shape{700, 400}, Shape{3, 2100}}) {
        const StepCase c{.kind = kind,
                         .shape = shape,
                         .weight = DType::bf16,
                         .state = DType::bf16,
                         .weight_rounding = rounding,
                         .state_rounding = rounding,
                         .sparse = true};
        INFO(describe(c));
        const State plain = on_device(c);
        for (const int threads : {2, 7}) CHECK((plain == on_device(c, {.threads = threads})));
        for (std::uint64_t stress = 1; stress <= 3; ++stress)
          CHECK((plain == on_device(c, {.stress = stress})));
        // LAMB adds its squares in the order of its tiles, which rows change.
        if (kind != Kind::lamb || rounding.mode == RoundingMode::stochastic)
          CHECK((plain == on_device(c, {.sparse_as_dense = true})));
      }
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
