// Sparse gradients: only the rows of a table that were used, however they meet.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace soma;
using soma_test::floats;
using soma_test::gradient_values;
using soma_test::ints;
using soma_test::values;

namespace {

// A table of whole numbers, 4 x 2, so that every sum is exact.
struct Fixture {
  Context context{{.threads = 1}, make_context().targets()};
  Var table =
      Var::parameter(context, Tensor::from<float>(context, {1, 2, 3, 4, 5, 6, 7, 8}, Shape{4, 2}));
  Tape tape{context};

  // The rows of a lookup, each multiplied by one of the factors.
  Var lookup(std::initializer_list<std::int32_t> ids, std::initializer_list<float> factors) {
    const Var rows = embedding(tape, table, tape.constant(ints(context, ids)));
    const Tensor column = floats(context, factors).reshape(Shape{factors.size(), 1});
    return sum(tape, mul(tape, rows, tape.constant(column)));
  }
  std::vector<std::int64_t> rows() const {
    const auto all = table.gradient().rows.span<std::int64_t>();
    return {all.begin(), all.end()};
  }
};

using Floats = std::vector<float>;
using RowIds = std::vector<std::int64_t>;

// An operator of this test's own: one row of a tensor of any rank, whose gradient is that row.
void row_host(const OperatorCall& call) {
  const auto row = call.attributes.as<std::size_t>();
  call.outputs[0] = clone(call.context, call.inputs[0].select(0, row));
}
void row_gradient(const GradientCall& call) {
  const auto row = static_cast<std::int64_t>(call.attributes.as<std::size_t>());
  const Shape shape = call.inputs[0].shape().with(0, 1);
  call.input_gradients[0] = {contiguous(call.context, call.output_gradients[0]).reshape(shape),
                             Tensor::full(call.context, Shape{1}, row)};
}
constexpr Operator one_row{
    .name = "one row", .allocates_outputs = true, .host = &row_host, .gradient = &row_gradient};

}  // namespace

TEST_CASE("a lookup gives a gradient of the rows that were used", "[unit][tape]") {
  Fixture f;
  f.tape.backward(f.lookup({3, 1, 3, 3}, {1, 10, 100, 1000}));
  REQUIRE(f.table.gradient().sparse());
  CHECK(f.rows() == RowIds{1, 3});
  CHECK(values(f.context, f.table.gradient().values) == Floats{10, 10, 1101, 1101});
  CHECK(gradient_values(f.context, f.table) == Floats{0, 0, 10, 10, 0, 0, 1101, 1101});
}

TEST_CASE("a table that is used twice gets the union of the rows", "[unit][tape]") {
  Fixture f;
  f.tape.backward(add(f.tape, f.lookup({2, 0}, {1, 2}), f.lookup({3, 2}, {4, 8})));
  REQUIRE(f.table.gradient().sparse());
  CHECK(f.rows() == RowIds{0, 2, 3});
  CHECK(values(f.context, f.table.gradient().values) == Floats{2, 2, 9, 9, 4, 4});
  // Another pass adds to it, and leaves whoever holds the first result alone.
  const Tensor held = f.table.gradient().values;
  f.tape.backward(f.lookup({1, 2}, {16, 32}));
  CHECK(f.rows() == RowIds{0, 1, 2, 3});
  CHECK(values(f.context, f.table.gradient().values) == Floats{2, 2, 16, 16, 41, 41, 4, 4});
  CHECK(values(f.context, held) == Floats{2, 2, 9, 9, 4, 4});
}

TEST_CASE("sparse gradients of any rank add up", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  for (const Shape& shape : {Shape{5}, Shape{5, 3}, Shape{5, 2, 3}}) {
    const Var x = Var::parameter(context, Tensor::zeros(context, shape));
    Tape tape(context);
    Var total = tape.constant(Tensor::scalar(context, 0.0f));
    for (const std::size_t row : {3u, 1u, 3u})
      total = add(tape, total, sum(tape, tape.apply(one_row, row, {x})));
    tape.backward(total);
    REQUIRE(x.gradient().sparse());
    CHECK(x.gradient().values.shape() == shape.with(0, 2));
    const std::size_t width = shape.elements() / 5;
    Floats wanted(shape.elements(), 0);
    std::fill_n(wanted.begin() + static_cast<std::ptrdiff_t>(width), width, 1.0f);
    std::fill_n(wanted.begin() + static_cast<std::ptrdiff_t>(3 * width), width, 2.0f);
    CHECK(gradient_values(context, x) == wanted);
  }
}

TEST_CASE("sparse and dense gradients meet in a dense one", "[unit][tape]") {
  for (const bool dense_first : {false, true}) {
    Fixture f;
    // d(sum(table^2)) = 2 table. Backward goes from the last to the first.
    const Var dense = dense_first ? Var() : sum(f.tape, square(f.tape, f.table));
    const Var sparse = f.lookup({2, 2, 0}, {1, 10, 100});
    const Var other = dense_first ? sum(f.tape, square(f.tape, f.table)) : dense;
    f.tape.backward(add(f.tape, other, sparse));
    CHECK_FALSE(f.table.gradient().sparse());
    CHECK(gradient_values(f.context, f.table) == Floats{102, 104, 6, 8, 21, 23, 14, 16});
    // And in a later pass.
    f.tape.backward(f.lookup({1}, {1000}));
    CHECK(gradient_values(f.context, f.table) == Floats{102, 104, 1006, 1008, 21, 23, 14, 16});
  }
}

TEST_CASE("a dense gradient that others share is not added into", "[unit][tape]") {
  Fixture f;
  const Var other = Var::parameter(f.context, Tensor::zeros(f.context, Shape{4, 2}));
  const Var lookup = f.lookup({0}, {5});
  f.tape.backward(add(f.tape, lookup, sum(f.tape, add(f.tape, f.table, other))));
  CHECK(gradient_values(f.context, f.table) == Floats{6, 6, 1, 1, 1, 1, 1, 1});
  CHECK(gradient_values(f.context, other) == Floats(8, 1));
}

TEST_CASE("a table may be the result of another operator", "[unit][tape]") {
  Fixture f;
  const Var squares = square(f.tape, f.table);
  const Var rows = embedding(f.tape, squares, f.tape.constant(ints(f.context, {3, 0, 3})));
  const Var more = embedding(f.tape, squares, f.tape.constant(ints(f.context, {1})));
  f.tape.backward(sum(f.tape, concatenate(f.tape, {rows, more}, 0)));
  CHECK(gradient_values(f.context, f.table) == Floats{2, 4, 6, 8, 0, 0, 28, 32});
}

TEST_CASE("a dense gradient can be asked for, and is the same", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var table = soma_test::random_parameter(context, Shape{30, 17}, "table");
  const Tensor ids = Tensor::empty(context, Shape{100}, DType::int64);
  for (std::size_t i = 0; i < 100; ++i)
    ids.mutable_data<std::int64_t>()[i] = static_cast<std::int64_t>(i * i % 23);
  Tape tape(context);
  std::vector<std::byte> bits[2];
  for (const bool dense : {false, true}) {
    const Var rows = embedding(tape, table, tape.constant(ids), {.dense_gradient = dense});
    tape.backward(sum(tape, sin(tape, rows)));
    CHECK(table.gradient().sparse() != dense);
    bits[dense ? 1 : 0] = soma_test::bits(context, soma_test::dense_gradient(context, table));
    table.clear_gradient();
  }
  CHECK(bits[0] == bits[1]);
}

TEST_CASE("no ids give a gradient without rows", "[unit][tape]") {
  Fixture f;
  const Var rows = embedding(f.tape, f.table, f.tape.constant(ints(f.context, {})));
  f.tape.backward(sum(f.tape, rows));
  CHECK(f.rows().empty());
  CHECK(gradient_values(f.context, f.table) == Floats(8, 0));
  f.tape.backward(f.lookup({1}, {3}));
  CHECK(f.rows() == RowIds{1});
  optim::Sgd(f.context, Parameters{{"table", f.table}}).step({.rate = 1});
  CHECK(values(f.context, f.table.value()) == Floats{1, 2, 0, 1, 5, 6, 7, 8});
}
