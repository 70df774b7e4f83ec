// The same bits from every instruction set, with fused multiply-add or without, on any number of
// threads.

#include "neuroncore/test_core.hpp"

#include "support/samples.hpp"

#include <string>
#include <vector>

using namespace soma_test;
using nc::Alu;
using nc::Function;
using nc::Tile;
using soma::DType;

namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t rows = 128, columns = 203;

void add(Bytes& all, const Bytes& more) { all.insert(all.end(), more.begin(), more.end()); }

// Whatever each engine does without fusing a product with a sum.
Bytes plain(TestCore& test) {
  nc::Core& core = test.core;
  std::vector<float> x = finite_floats(rows * columns, 1), y = finite_floats(rows * columns, 2);
  for (std::size_t i = 0; i < x.size(); i += 5) x[i] = y[i];
  const Tile a = test.tile(DType::fp32, rows, x), b = test.tile(DType::fp32, rows, y);
  const Tile out = core.sbuf.tile(DType::fp32, rows, columns);
  const Tile column = core.sbuf.tile(DType::fp32, rows, 1),
             six = core.sbuf.tile(DType::fp32, rows, 6);
  Bytes all;
  for (auto op = Alu::add; op <= Alu::logical_xor;
       op = static_cast<Alu>(static_cast<int>(op) + 1)) {
    core.vector.tensor_tensor(out, a, b, op);
    add(all, test.codes(out));
  }
  for (const Alu op : {Alu::absolute, Alu::logical_not}) {
    core.vector.tensor_scalar(out, a, op, 0);
    add(all, test.codes(out));
  }
  for (const Alu op : {Alu::add, Alu::maximum, Alu::minimum}) {
    core.vector.tensor_reduce(column, b, op);
    add(all, test.codes(column));
  }
  core.vector.bn_stats(six, b);
  add(all, test.codes(six));
  core.vector.tensor_tensor_scan(out, a, b, 0.5f, Alu::minimum, Alu::add);
  add(all, test.codes(out));
  core.gpsimd.partition_reduce(out.rows(0, 1), b, Alu::add);
  add(all, test.codes(out));
  const nc::DrawPosition position{.draw = {.seed = 4}, .partition_step = columns};
  for (const DType dtype : tile_floats) {
    nc::Core::Scope scope(core);
    const Tile narrow = core.sbuf.tile(dtype, rows, columns);
    core.vector.copy(narrow, a);
    add(all, test.codes(narrow));
    core.scalar.copy(narrow, a, {soma::Rounding::stochastic, position});
    add(all, test.codes(narrow));
    core.vector.dropout(out, narrow, 1u << 30, position);
    add(all, test.codes(out));
  }
  // NaN: 0 or 1 from every comparison, so that no NaN's own bits matter.
  const std::vector<float> special = hard_floats(rows * columns, 3);
  test.put(b, special);
  for (auto op = Alu::equal; op <= Alu::logical_xor;
       op = static_cast<Alu>(static_cast<int>(op) + 1)) {
    core.vector.tensor_tensor(out, a, b, op);
    add(all, test.codes(out));
    core.vector.tensor_tensor(out, b, b, op);
    add(all, test.codes(out));
  }
  return all;
}

// Products and functions.
Bytes fused(TestCore& test) {
  nc::Core& core = test.core;
  Bytes all;
  const std::vector<float> w = steps(rows * 100, 2, 0x1p-20f, 1),
                           x = steps(rows * columns, 2, 0x1p-20f, 2);
  const Tile out = core.sbuf.tile(DType::fp32, 128, columns),
             sum = core.sbuf.tile(DType::fp32, 128, 1);
  for (const DType dtype : tile_floats) {
    nc::Core::Scope scope(core);
    const Tile stationary = test.tile(dtype, rows, w), moving = test.tile(dtype, rows, x);
    const Tile sums = core.psum.tile(100, columns);
    core.tensor.matmul(sums, stationary, moving);
    core.tensor.matmul(sums, stationary, moving, nc::Accumulate::yes);
    core.vector.memset(out, 0).copy(out.rows(0, 100), sums);
    add(all, test.codes(out));
  }
  std::vector<float> inside = steps(rows * columns, 1.5f, 0x1p-20f, 3);
  for (float& value : inside) value = value == 0 ? 1 : value;
  const Tile data = test.tile(DType::fp32, rows, inside);
  for (auto function = Function::copy; function <= Function::reciprocal;
       function = static_cast<Function>(static_cast<int>(function) + 1)) {
    const bool positive = info(function).low > 0 && function != Function::reciprocal;
    const Tile argument = core.sbuf.tile(DType::fp32, rows, columns);
    nc::Core::Scope scope(core);
    core.scalar.activation(argument, data, positive ? Function::absolute : Function::copy);
    core.scalar.activation_reduce(out, argument, function, sum, {.scale = 1.25f});
    add(all, test.codes(out));
    add(all, test.codes(sum));
  }
  return all;
}

}  // namespace

TEST_CASE("every target gives the same bits", "[unit][neuroncore][invariance]") {
  auto any = soma::make_context();
  Bytes plain_expected, fused_expected;
  std::size_t compared = 0;
  for (const soma::Target& target : any.targets().targets) {
    INFO(std::string(target.name));
    TestCore test({}, 1, target.name);
    const Bytes found = plain(test);
    if (plain_expected.empty()) plain_expected = found;
    CHECK((found == plain_expected));
    const Bytes also = fused(test);
    if (fused_expected.empty()) fused_expected = also;
    CHECK((also == fused_expected));
    ++compared;
  }
  CHECK(plain_expected.size() > 1000000);
  if (compared < 2) WARN("only " << compared << " targets to compare");
}

TEST_CASE("any number of threads gives the same bits", "[unit][neuroncore][invariance]") {
  Bytes plain_expected, fused_expected;
  for (const int threads : {1, 2, 7}) {
    INFO(threads << " threads");
    TestCore test({}, threads);
    const Bytes found = plain(test), also = fused(test);
    if (threads == 1) {
      plain_expected = found;
      fused_expected = also;
    }
    CHECK((found == plain_expected));
    CHECK((also == fused_expected));
  }
}
