// The memory that a recording keeps, and the time at which the recording frees it.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/tensors.hpp"

#include <cstddef>
#include <string>
#include <vector>

using namespace soma;
using soma_test::random_parameter;

namespace {

constexpr std::size_t side = 512, bytes = side * side * sizeof(float);  // of one tensor: 1 MiB
constexpr std::size_t small = bytes / 8;  // more than all that is not a tensor of that size

// Notes how much is in use before each operator.
class Watch final : public Device {
 public:
  explicit Watch(Context& context) : context_(context) { context.set_device(this); }
  ~Watch() override { context_.set_device(nullptr); }
  void run(const Operator& op, const OperatorCall& call) override {
    in_use.push_back(context_.heap().bytes_in_use());
    op.host(call);
  }
  std::vector<std::size_t> in_use;

 private:
  Context& context_;
};

}  // namespace

TEST_CASE("a value that nobody needs is freed as soon as nobody holds it", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var w = random_parameter(context, Shape{side, side}, "w");
  const std::size_t before = context.heap().bytes_in_use();
  context.heap().reset_peak();
  Tape tape(context);
  Var y = w;
  for (int i = 0; i < 20; ++i) y = add(tape, y, w);  // its gradient reads nothing
  CHECK(tape.size() == 20);
  CHECK(context.heap().bytes_in_use() < before + bytes + small);
  CHECK(context.heap().peak_bytes() < before + 2 * bytes + small);
}

TEST_CASE("a value that backward reads is kept once", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var w = random_parameter(context, Shape{side, side}, "w");
  const std::size_t before = context.heap().bytes_in_use();
  Tape tape(context);
  Var y = w;
  for (int i = 0; i < 5; ++i) y = sin(tape, y);  // each keeps its input; the first is w
  CHECK(context.heap().bytes_in_use() > before + 5 * bytes);
  CHECK(context.heap().bytes_in_use() < before + 5 * bytes + small);
  y = {};
  CHECK(context.heap().bytes_in_use() < before + 4 * bytes + small);
  tape.reset();
  CHECK(context.heap().bytes_in_use() < before + small);
}

TEST_CASE("views keep their storage and nothing of their own", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var w = random_parameter(context, Shape{side, side}, "w");
  const std::size_t before = context.heap().bytes_in_use();
  Tape tape(context);
  const Var y = slice(tape, transpose(tape, w, 0, 1), 0, 0, 10);
  CHECK(context.heap().bytes_in_use() < before + small);
}

TEST_CASE("backward gives back node by node", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var w = random_parameter(context, Shape{side, side}, "w");
  const std::size_t before = context.heap().bytes_in_use();
  Tape tape(context);
  {
    Var y = w;
    for (int i = 0; i < 8; ++i) y = sin(tape, y);
    const Var loss = sum(tape, y);
    y = {};
    CHECK(context.heap().bytes_in_use() > before + 7 * bytes);
    const Watch watch(context);
    tape.backward(loss);
    // The first of the eight sees the gradient of the sum; from there on each has one value less.
    REQUIRE(watch.in_use.size() == 8);
    for (std::size_t i = 1; i < 8; ++i)
      CHECK(watch.in_use[i - 1] - watch.in_use[i] > bytes - small);
  }
  CHECK(tape.size() == 0);
  // Only the gradient is left.
  CHECK(context.heap().bytes_in_use() < before + bytes + small);
  w.clear_gradient();
  CHECK(context.heap().bytes_in_use() < before + small);
}

TEST_CASE("a gradient that is not wanted is not computed", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var w = random_parameter(context, Shape{8, 8}, "w");
  Tape tape(context);
  const Var x = tape.constant(soma_test::random_tensor(context, Shape{8, 8}, "x"));
  const Var loss = sum(tape, matmul(tape, x, w));
  const Watch watch(context);
  tape.backward(loss);
  CHECK(watch.in_use.size() == 1);  // the product for w, and none for x
}
