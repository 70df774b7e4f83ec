// Optimizers of touched rows: their formulas, the rows that they leave alone, their states, and
// that neither threads nor the accelerator's core change what they do.

#include <soma/sparse.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/on_device.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

using namespace soma;
using soma_test::bits;
using soma_test::id_of;
using soma_test::random_tensor;
using soma_test::values;

namespace {

constexpr std::size_t rows = 300, columns = 21;

using Make = std::function<std::unique_ptr<optim::Optimizer>(Context&, const Parameters&)>;
struct Kind {
  const char* name;
  Make make;
};
const Kind kinds[] = {
    {"row_sgd",
     [](Context& context, const Parameters& all) -> std::unique_ptr<optim::Optimizer> {
       return std::make_unique<optim::RowSgd>(context, all);
     }},
    {"row_adagrad",
     [](Context& context, const Parameters& all) -> std::unique_ptr<optim::Optimizer> {
       return std::make_unique<optim::RowAdagrad>(context, all);
     }},
    {"row_adam",
     [](Context& context, const Parameters& all) -> std::unique_ptr<optim::Optimizer> {
       return std::make_unique<optim::RowAdam>(context, all);
     }},
};

// Rows that step number `step` touches: every third, from another one on.
std::vector<std::int64_t> touched(std::size_t step) {
  std::vector<std::int64_t> numbers;
  for (std::size_t row = step % 3; row < rows; row += 3 + step % 2)
    if (row % 50 != 7) numbers.push_back(static_cast<std::int64_t>(row));
  return numbers;
}
Gradient gradient(Context& context, std::size_t step) {
  const std::vector<std::int64_t> numbers = touched(step);
  return {random_tensor(context, Shape{numbers.size(), columns}, "g" + std::to_string(step)),
          Tensor::from(context, std::span<const std::int64_t>(numbers), Shape{numbers.size()})};
}
Gradient dense(Context& context, const Gradient& sparse) {
  return {context.built_in().to_dense(context, sparse, Shape{rows, columns}), {}};
}

struct Run {
  std::vector<float> weight;
  std::vector<std::byte> all;  // weight and states
};

Run run_steps(Context& context, const Kind& kind, std::size_t steps, bool sparse = true) {
  const Var weight = soma_test::random_parameter(context, Shape{rows, columns}, "weight");
  const Parameters parameters{{"table", weight}};
  const auto optimizer = kind.make(context, parameters);
  for (std::size_t step = 0; step < steps; ++step) {
    clear_gradients(parameters);
    const Gradient some = gradient(context, step);
    weight.set_gradient(sparse ? some : dense(context, some));
    optimizer->step({.rate = 0.1, .gradient_factor = 0.5f});
  }
  Run run{values(context, weight.value()), bits(context, weight.value())};
  for (const auto& [name, tensor] : optimizer->state()) {
    const std::vector<std::byte> own = bits(context, tensor);
    run.all.insert(run.all.end(), own.begin(), own.end());
  }
  return run;
}

// The same in double, plainly.
std::vector<double> plain_steps(Context& context, const std::string& kind, std::size_t steps) {
  const Tensor start = random_tensor(context, Shape{rows, columns}, "weight");
  std::vector<double> w;
  for (const float value : values(context, start)) w.push_back(static_cast<double>(value));
  std::vector<double> squares(rows), m(w.size()), v(w.size());
  for (std::size_t step = 0; step < steps; ++step) {
    const Gradient some = gradient(context, step);
    const std::vector<float> g = values(context, some.values);
    const double c1 = 1 - std::pow(0.9, static_cast<double>(step + 1));
    const double c2 = 1 - std::pow(0.999, static_cast<double>(step + 1));
    for (std::size_t i = 0; i < some.rows.elements(); ++i) {
      const auto row = static_cast<std::size_t>(some.rows.data<std::int64_t>()[i]);
      double sum = 0;
      for (std::size_t c = 0; c < columns; ++c) {
        const double x = static_cast<double>(g[i * columns + c]) * 0.5;
        sum += x * x;
      }
      squares[row] += sum / columns;
      for (std::size_t c = 0; c < columns; ++c) {
        const double x = static_cast<double>(g[i * columns + c]) * 0.5;
        const std::size_t at = row * columns + c;
        m[at] = 0.9 * m[at] + 0.1 * x;
        v[at] = 0.999 * v[at] + 0.001 * x * x;
        if (kind == "row_sgd") w[at] -= 0.1 * x;
        if (kind == "row_adagrad") w[at] -= 0.1 / (std::sqrt(squares[row]) + 1e-10) * x;
        if (kind == "row_adam") w[at] -= 0.1 * (m[at] / c1) / (std::sqrt(v[at] / c2) + 1e-8);
      }
    }
  }
  return w;
}

}  // namespace

TEST_CASE("steps of touched rows follow their formulas", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  for (const Kind& kind : kinds) {
    const Run run = run_steps(context, kind, 7);
    const std::vector<double> wanted = plain_steps(context, kind.name, 7);
    double worst = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      worst = (std::max)(worst, std::abs(static_cast<double>(run.weight[i]) - wanted[i]));
    INFO(kind.name);
    // Some ten roundings a step of numbers below 2, and of ratios of moments that are alike.
    CHECK(worst < 7 * 16 * 0x1p-24);
  }
}

TEST_CASE("rows without a gradient keep their bits", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  const std::vector<float> before =
      values(context, random_tensor(context, Shape{rows, columns}, "weight"));
  for (const Kind& kind : kinds) {
    const Run run = run_steps(context, kind, 5);
    INFO(kind.name);
    for (const std::size_t row : {7u, 57u, 257u})  // which no step touches
      for (std::size_t c = 0; c < columns; ++c)
        CHECK(run.weight[row * columns + c] == before[row * columns + c]);
  }
}

TEST_CASE("a dense gradient steps all rows as a sparse one of all rows", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  // Adam moves rows with a gradient of zero; the other two do not.
  CHECK(run_steps(context, kinds[0], 4, false).all == run_steps(context, kinds[0], 4).all);
  CHECK(run_steps(context, kinds[1], 4, false).all == run_steps(context, kinds[1], 4).all);
}

TEST_CASE("threads change no bit of a row step", "[unit][invariance]") {
  for (const Kind& kind : kinds) {
    std::vector<std::byte> first;
    for (const int threads : {1, 2, 8}) {
      auto context = make_context({.threads = threads});
      add_sparse(context);
      const Run run = run_steps(context, kind, 5);
      if (threads == 1) first = run.all;
      INFO(kind.name << ", " << threads << " threads");
      CHECK(run.all == first);
    }
  }
}

TEST_CASE("states of row optimizers go on where they were", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  for (const Kind& kind : kinds) {
    INFO(kind.name);
    const Run whole = run_steps(context, kind, 6);
    const Var weight = soma_test::random_parameter(context, Shape{rows, columns}, "weight");
    const Parameters parameters{{"table", weight}};
    auto optimizer = kind.make(context, parameters);
    for (std::size_t step = 0; step < 6; ++step) {
      if (step == 3) {  // a new one with the states of the old
        const StateDict state = optimizer->state();
        auto next = kind.make(context, parameters);
        next->load_state(state);
        optimizer = std::move(next);
      }
      clear_gradients(parameters);
      weight.set_gradient(gradient(context, step));
      optimizer->step({.rate = 0.1, .gradient_factor = 0.5f});
    }
    CHECK(values(context, weight.value()) == whole.weight);

    StateDict wrong = optimizer->state();
    wrong.set("other.steps", Tensor::scalar(context, std::int64_t{1}));
    CHECK(id_of([&] { optimizer->load_state(wrong); }) == "state.extra_name");
    StateDict zero = optimizer->state();
    StateDict changed;
    for (const auto& [name, tensor] : zero)
      changed.set(name,
                  name.ends_with(".steps") ? Tensor::scalar(context, std::int64_t{0}) : tensor);
    CHECK(id_of([&] { optimizer->load_state(changed); }) == "operator.value");
    if (zero.size() == 1) continue;
    StateDict missing;
    missing.set("table.steps", *zero.find("table.steps"));
    CHECK(id_of([&] { optimizer->load_state(missing); }) == "state.missing_name");
  }
}

TEST_CASE("the core steps touched rows as the host does", "[unit]") {
  for (const Kind& kind : kinds) {
    auto host = make_context({.threads = 1});
    add_sparse(host);
    const Run wanted = run_steps(host, kind, 3);
    auto context = make_context({.threads = 1});
    add_sparse(context);
    Run given;
    {
      const soma_test::OnDevice on(context);
      given = run_steps(context, kind, 3);
    }
    double worst = 0;
    for (std::size_t i = 0; i < wanted.weight.size(); ++i)
      worst = (std::max)(worst, std::abs(static_cast<double>(given.weight[i]) -
                                         static_cast<double>(wanted.weight[i])));
    INFO(kind.name);
    // The engine's root and reciprocal are off by some units more than the host's.
    CHECK(worst < 3 * 64 * 0x1p-24);
  }
}

TEST_CASE("what row optimizers cannot do is refused", "[unit]") {
  auto context = make_context({.threads = 1});
  const Var weight = soma_test::random_parameter(context, Shape{4, 3}, "weight");
  const Parameters parameters{{"table", weight}};
  CHECK(id_of([&] { optim::RowSgd(context, parameters); }) == "context.no_sparse");
  add_sparse(context);
  CHECK(id_of([&] {
          optim::RowAdam(context, {optim::Group{.parameters = parameters, .weight_decay = 0.1f}});
        }) == "operator.value");
  CHECK(id_of([&] { optim::RowAdagrad(context, parameters, {.epsilon = -1}); }) ==
        "operator.value");
  const Var half = Var::parameter(context, Tensor::zeros(context, Shape{4, 3}, DType::bf16));
  CHECK(id_of([&] { optim::RowSgd(context, Parameters{{"half", half}}); }) == "tensor.dtype");
  optim::RowAdagrad optimizer(context, parameters);
  CHECK(!optimizer.steps_rows_alone());
  const Tensor beyond = Tensor::full(context, Shape{1}, std::int64_t{4});
  CHECK(id_of([&] {
          run(context, *context.sparse()->operators->row_sgd_step, RowStepSetting{},
              {weight.value(), Tensor::zeros(context, Shape{1, 3}), beyond});
        }) == "operator.value");
}
