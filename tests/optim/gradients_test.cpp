// Operations on all gradients together: norm, clipping, the test that they are finite, loss
// scaling.

#include <soma/parallel/row_partition.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

using namespace soma;
using soma_test::random_tensor;
using soma_test::values;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

Parameters with_gradients(Context& context) {
  Parameters parameters;
  for (const Shape& shape : {Shape{301, 400}, Shape{}, Shape{65536}, Shape{65537}, Shape{0, 3}}) {
    const Var var = Var::parameter(context, Tensor::zeros(context, shape));
    var.set_gradient({random_tensor(context, shape, to_string(shape), 3), {}});
    parameters.push_back({to_string(shape), var});
  }
  parameters.push_back({"none", Var::parameter(context, Tensor::zeros(context, Shape{3}))});
  return parameters;
}

}  // namespace

TEST_CASE("the norm of all gradients is that of a sum in double", "[unit][optim]") {
  auto context = make_context({.threads = 1});
  const Parameters parameters = with_gradients(context);
  double squares = 0, count = 0;
  for (const Parameter& parameter : parameters) {
    if (!parameter.gradient().defined()) continue;
    for (const float g : values(context, parameter.gradient().values)) {
      squares += static_cast<double>(g) * static_cast<double>(g);
      count += 1;
    }
  }
  const double norm = optim::gradient_norm(context, parameters);
  // All terms are positive, so each order is good to count units, and so is this one.
  CHECK(std::fabs(norm - std::sqrt(squares)) <= count * 0x1p-53 * norm);
  for (const int threads : {2, 3, 7}) {
    auto other = make_context({.threads = threads});
    CHECK(optim::gradient_norm(other, with_gradients(other)) == norm);
  }
  for (const Target& target : context.targets().targets) {
    auto other = make_context({.target = target.name});
    CHECK(optim::gradient_norm(other, with_gradients(other)) == norm);
  }
  CHECK(optim::gradient_norm(context, {}) == 0);
}

TEST_CASE("norms of sparse, sliced, strided and narrow gradients", "[unit][optim]") {
  auto context = make_context({.threads = 1});
  const Tensor g = Tensor::from<float>(context, {3, 0, 0, 4}, Shape{2, 2});
  const Var w = Var::parameter(context, Tensor::zeros(context, Shape{7, 2}));
  w.set_gradient({g, Tensor::from<std::int64_t>(context, {1, 5}, Shape{2})});
  CHECK(optim::gradient_norm(context, {{"w", w}}) == 5);
  const Var v = Var::parameter(context, Tensor::zeros(context, Shape{2, 2}));
  v.set_gradient({g.transpose(0, 1), {}});
  CHECK(optim::gradient_norm(context, {{"v", v}}) == 5);
  CHECK(optim::gradient_norm(context, {{"v", v, 0, 1}}) == 3);
  Tape tape(context);
  v.set_gradient({cast(tape, tape.constant(g), DType::bf16).value(), {}});
  CHECK(optim::gradient_norm(context, {{"v", v}}) == 5);
  // The largest floats do not overflow in double.
  v.set_gradient({Tensor::full(context, Shape{2, 2}, 3e38f), {}});
  CHECK(std::isfinite(optim::gradient_norm(context, {{"v", v}})));
}

TEST_CASE("clipping", "[unit][optim]") {
  CHECK(optim::clipping_factor(0, 1) == 1);
  CHECK(optim::clipping_factor(0.5, 1) == 1);
  CHECK(optim::clipping_factor(1, 1) == 1);
  CHECK(optim::clipping_factor(4, 1) == static_cast<float>(1 / (4 + 1e-6)));
  CHECK(optim::clipping_factor(4, 0) == 0);
  CHECK(optim::clipping_factor(0, 0) == 1);
  CHECK(optim::clipping_factor(1e300, infinity) == 1);
  // A gradient that is not finite must not become a step that looks correct.
  CHECK(optim::clipping_factor(infinity, 1) == 0);
  CHECK(std::isnan(optim::clipping_factor(not_a_number, 1)));
  CHECK(soma_test::id_of([&] { optim::clipping_factor(1, not_a_number); }) == "operator.value");
}

TEST_CASE("a step with clipped gradients sees the limit as their norm", "[unit][optim]") {
  auto context = make_context({.threads = 1});
  const Var w = Var::parameter(context, Tensor::zeros(context, Shape{1000}));
  w.set_gradient({random_tensor(context, Shape{1000}, "g", 50), {}});
  const Parameters parameters{{"w", w}};
  const double norm = optim::gradient_norm(context, parameters);
  REQUIRE(norm > 100);
  optim::Sgd(context, parameters)
      .step({.rate = 1, .gradient_factor = optim::clipping_factor(norm, 2)});
  double squares = 0;
  for (const float x : values(context, w.value()))
    squares += static_cast<double>(x) * static_cast<double>(x);
  CHECK(std::fabs(std::sqrt(squares) - 2) < 2 * (2 * 0x1p-24 + 1e-6 / norm));
}

TEST_CASE("gradients are finite or not", "[unit][optim]") {
  auto context = make_context();
  const Parameters parameters = with_gradients(context);
  CHECK(optim::gradients_finite(context, parameters));
  CHECK(optim::gradients_finite(context, {}));
  const Tensor& last = parameters[3].var.gradient().values;
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    last.mutable_span<float>()[65536] = bad;
    CHECK_FALSE(optim::gradients_finite(context, parameters));
    CHECK_FALSE(std::isfinite(optim::gradient_norm(context, parameters)));
  }
}

TEST_CASE("a loss scale halves on overflow and doubles after a while without", "[unit][optim]") {
  optim::LossScaler scaler({.initial = 8, .smallest = 2, .largest = 32, .growth_interval = 3});
  CHECK(scaler.scale() == 8);
  CHECK(scaler.inverse() == 0.125f);
  CHECK(scaler.update(true));
  CHECK(scaler.update(true));
  CHECK(scaler.scale() == 8);
  CHECK(scaler.update(true));
  CHECK(scaler.scale() == 16);
  CHECK(scaler.update(true));
  CHECK(scaler.update(true));
  CHECK_FALSE(scaler.update(false));  // and counts anew
  CHECK(scaler.scale() == 8);
  for (int i = 0; i < 2; ++i) scaler.update(true);
  CHECK(scaler.scale() == 8);
  for (int i = 0; i < 10; ++i) scaler.update(true);
  CHECK(scaler.scale() == 32);  // the largest
  for (int i = 0; i < 10; ++i) CHECK_FALSE(scaler.update(false));
  CHECK(scaler.scale() == 2);  // the smallest
  CHECK(scaler.inverse() == 0.5f);
  scaler.restore(4, 5);  // from a run with a longer interval
  CHECK(scaler.update(true));
  CHECK(scaler.scale() == 8);
}

TEST_CASE("a scaled loss gives the same step as a plain one", "[unit][optim]") {
  // Powers of two change exponents only.
  auto context = make_context({.threads = 1});
  std::vector<std::byte> results[2];
  for (const std::size_t scaled : {0u, 1u}) {
    const Var w = soma_test::random_parameter(context, Shape{40}, "w");
    const Parameters parameters{{"w", w}};
    const optim::LossScaler scaler;
    Tape tape(context);
    const Var loss = mean(tape, square(tape, sin(tape, w)));
    tape.backward(loss, scaled != 0 ? scaler.scale() : 1);
    optim::AdamW(context, parameters)
        .step({.rate = 0.1, .gradient_factor = scaled != 0 ? scaler.inverse() : 1});
    results[scaled] = soma_test::bits(context, w.value());
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("the norm of parts that ranks keep is that of the whole", "[unit][optim]") {
  auto context = make_context({.threads = 1});
  Parameters all = with_gradients(context);
  // Rows of one variable under two names, and a sparse gradient.
  const Var both = Var::parameter(context, Tensor::zeros(context, Shape{300, 40}));
  both.set_gradient({random_tensor(context, Shape{300, 40}, "both", 3), {}});
  all.push_back({"first", both, 0, 100});
  all.push_back({"second", both, 100, 300});
  const Var table = Var::parameter(context, Tensor::zeros(context, Shape{2000, 8}));
  std::vector<std::int64_t> numbers;
  for (std::int64_t row = 3; row < 2000; row += 7) numbers.push_back(row);
  table.set_gradient(
      {random_tensor(context, Shape{numbers.size(), 8}, "table", 3),
       Tensor::from(context, std::span<const std::int64_t>(numbers), Shape{numbers.size()})});
  all.push_back({"table", table});
  std::vector<double> wanted;
  const double norm = optim::gradient_norm(
      context, all, [&](std::span<double> sums) { wanted.assign(sums.begin(), sums.end()); });
  CHECK(norm == optim::gradient_norm(context, all));

  for (const int ranks : {2, 4, 8, 32}) {
    std::vector<std::vector<double>> sums;
    for (int rank = 0; rank < ranks; ++rank) {
      std::map<const std::byte*, Var> parts;
      Parameters own;
      for (const Parameter& parameter : all) {
        const Var& var = parameter.var;
        const auto [place, is_new] =
            parts.try_emplace(var.value().raw(), Var::parameter(context, var.value()));
        own.push_back({parameter.name, place->second, parameter.first_row, parameter.last_row});
        const Gradient& gradient = var.gradient();
        if (!is_new || !gradient.defined()) continue;
        const Part rows = RowPartition(var.shape()).part(rank, ranks);
        Gradient part;
        part.first_row = rows.begin;
        if (gradient.sparse()) {
          const Part present = RowPartition(var.shape()).only(numbers).part(rank, ranks);
          part.values = gradient.values.slice(0, present.begin, present.end());
          part.rows = Tensor::empty(context, Shape{present.count}, DType::int64);
          for (std::size_t i = 0; i < present.count; ++i)
            part.rows.mutable_data<std::int64_t>()[i] =
                numbers[present.begin + i] - static_cast<std::int64_t>(rows.begin);
        } else {
          const Tensor values =
              gradient.values.rank() == 0 ? gradient.values.reshape(Shape{1}) : gradient.values;
          part.values = values.slice(0, rows.begin, rows.end());
        }
        place->second.set_gradient(part);
      }
      optim::gradient_norm(context, own, [&](std::span<double> part) {
        sums.emplace_back(part.begin(), part.end());
      });
    }
    // all_reduce_parts(): those that own neighbours first.
    for (std::size_t distance = sums.size() / 2; distance > 0; distance /= 2)
      for (std::size_t rank = 0; rank < distance; ++rank)
        for (std::size_t i = 0; i < wanted.size(); ++i) sums[rank][i] += sums[rank + distance][i];
    CHECK(sums.front() == wanted);
  }
}
