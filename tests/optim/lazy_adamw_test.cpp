// LazyAdamW: rows that catch up when they are read have the weights of dense AdamW, wherever the
// run was settled, saved and loaded in between.

#include <soma/sparse.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

using namespace soma;
using soma_test::id_of;
using soma_test::random_tensor;
using soma_test::values;

namespace {

constexpr std::size_t rows = 40, columns = 19, steps = 900;

// Row 0 often, others ever more rarely; from step 300 on rows 30 and up rest until the end.
std::vector<std::int64_t> touched(std::size_t step) {
  std::vector<std::int64_t> numbers;
  for (std::size_t row = 0; row < rows; ++row)
    if (step % (row + 1) == 0 && (row < 30 || step < 60 || step + 1 == steps))
      numbers.push_back(static_cast<std::int64_t>(row));
  return numbers;
}

struct Run {
  std::vector<float> weight;
  std::vector<std::byte> bits;
};

// A gradient that depends on the weights that are read: rows left behind would show.
Run lazy(int threads, float decay, std::size_t settle_at, std::size_t reload_at) {
  auto context = make_context({.threads = threads});
  add_sparse(context);
  const Var weight = soma_test::random_parameter(context, Shape{rows, columns}, "weight");
  const Parameters parameters{{"table", weight}};
  auto optimizer = std::make_unique<optim::LazyAdamW>(context, parameters, decay);
  for (std::size_t step = 0; step < steps; ++step) {
    const std::vector<std::int64_t> numbers = touched(step);
    const Tensor which =
        Tensor::from(context, std::span<const std::int64_t>(numbers), Shape{numbers.size()});
    optimizer->catch_up(weight, which);
    const Tensor g =
        random_tensor(context, Shape{numbers.size(), columns}, "g" + std::to_string(step % 7));
    for (std::size_t i = 0; i < numbers.size(); ++i)
      for (std::size_t c = 0; c < columns; ++c)
        g.mutable_data<float>()[i * columns + c] +=
            weight.value().data<float>()[static_cast<std::size_t>(numbers[i]) * columns + c];
    weight.set_gradient({g, which});
    optimizer->step({.rate = 0.01 / (1 + static_cast<double>(step) / 100)});
    if (step == settle_at) optimizer->settle();
    if (step == reload_at) {
      optimizer->settle();
      const StateDict state = optimizer->state();
      auto next = std::make_unique<optim::LazyAdamW>(context, parameters, decay);
      next->load_state(state);
      optimizer = std::move(next);
    }
  }
  optimizer->settle();
  return {values(context, weight.value()), soma_test::bits(context, weight.value())};
}

std::vector<float> dense(float decay) {
  auto context = make_context({.threads = 1});
  const Var weight = soma_test::random_parameter(context, Shape{rows, columns}, "weight");
  optim::AdamW optimizer(context, Parameters{{"table", weight}}, decay);
  for (std::size_t step = 0; step < steps; ++step) {
    const std::vector<std::int64_t> numbers = touched(step);
    const Tensor g =
        random_tensor(context, Shape{numbers.size(), columns}, "g" + std::to_string(step % 7));
    const Tensor all = Tensor::zeros(context, Shape{rows, columns});
    for (std::size_t i = 0; i < numbers.size(); ++i)
      for (std::size_t c = 0; c < columns; ++c) {
        const std::size_t at = static_cast<std::size_t>(numbers[i]) * columns + c;
        all.mutable_data<float>()[at] =
            g.data<float>()[i * columns + c] + weight.value().data<float>()[at];
      }
    weight.set_gradient({all, {}});
    optimizer.step({.rate = 0.01 / (1 + static_cast<double>(step) / 100)});
  }
  return values(context, weight.value());
}

}  // namespace

TEST_CASE("rows that catch up have the weights of dense AdamW", "[unit]") {
  for (const float decay : {0.0f, 0.1f}) {
    const std::vector<float> wanted = dense(decay);
    const Run run = lazy(1, decay, steps, steps);
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      worst = (std::max)(
          worst, std::abs(static_cast<double>(run.weight[i]) - static_cast<double>(wanted[i])));
      largest = (std::max)(largest, std::abs(static_cast<double>(wanted[i])));
    }
    INFO("decay " << decay);
    CHECK(worst < 1e-6 * (std::max)(1.0, largest));
  }
}

TEST_CASE("threads, settling and loading change no bit of LazyAdamW", "[unit][invariance]") {
  for (const float decay : {0.0f, 0.1f}) {
    const std::vector<std::byte> whole = lazy(1, decay, steps, steps).bits;
    CHECK(lazy(8, decay, steps, steps).bits == whole);
    CHECK(lazy(1, decay, 117, steps).bits == whole);
    CHECK(lazy(2, decay, 700, 410).bits == whole);
  }
}

TEST_CASE("states of LazyAdamW that cannot be are refused", "[unit]") {
  auto context = make_context({.threads = 1});
  const Var weight = soma_test::random_parameter(context, Shape{3, 2}, "weight");
  CHECK(id_of([&] {
          optim::LazyAdamW(context, Parameters{{"t", weight}});
        }) == "context.no_sparse");
  add_sparse(context);
  optim::LazyAdamW optimizer(context, Parameters{{"t", weight}});
  weight.set_gradient({Tensor::full(context, Shape{3, 2}, 1.0f), {}});
  optimizer.step({.rate = 0.1});
  optimizer.settle();
  StateDict state = optimizer.state();
  CHECK(id_of([&] { optimizer.load_state(state); }) == "no error");
  state.find("t.row_steps")->mutable_data<std::int64_t>()[1] = 0;
  CHECK(id_of([&] { optimizer.load_state(state); }) == "operator.value");
  const Var other = soma_test::random_parameter(context, Shape{3, 2}, "other");
  CHECK(id_of([&] { optimizer.catch_up(other, Tensor::zeros(context, Shape{1}, DType::int64)); }) ==
        "operator.value");
}
