// A device sees every operator: forward, backward and optimizer steps.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace soma;
using soma_test::random_parameter;

namespace {

using Names = std::vector<std::string>;

class Recorder final : public Device {
 public:
  explicit Recorder(Context& context) : context_(context) { context.set_device(this); }
  ~Recorder() override { context_.set_device(nullptr); }
  void run(const Operator& op, const OperatorCall& call) override {
    names.emplace_back(op.name);
    for (const Tensor& output : call.outputs) allocated &= output.defined() != op.makes_views;
    op.host(call);
  }
  Names take() { return std::exchange(names, {}); }

  Names names;
  bool allocated = true;

 private:
  Context& context_;
};

}  // namespace

TEST_CASE("a device sees a training step by name and in order", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var table = random_parameter(context, Shape{7, 4}, "table");
  const Var weight = random_parameter(context, Shape{3, 4}, "weight");
  const Var bias = random_parameter(context, Shape{3}, "bias");
  Tape tape(context);
  Recorder device(context);
  CHECK(context.device() == &device);

  const Var x = embedding(tape, table, tape.constant(soma_test::ints(context, {1, 5, 1})));
  const Var h = linear(tape, x, weight, bias, {.activation = Activation::gelu});
  const Var loss = cross_entropy(tape, reshape(tape, h, Shape{3, 3}),
                                 tape.constant(soma_test::ints(context, {0, 2, 1})));
  CHECK(device.take() == Names{"embedding", "linear", "reshape", "cross_entropy"});

  tape.backward(loss);
  // Through the activation, then for x, the weight and the bias, then the rows of the table; a
  // reshape is arranged by the tape.
  CHECK(device.take() == Names{"cross_entropy backward", "gelu backward", "matmul", "matmul",
                               "reduce", "embedding backward"});

  const Parameters parameters{{"table", table}, {"weight", weight}, {"bias", bias}};
  optim::AdamW(context, parameters).step({.rate = 1e-3});
  CHECK(device.take() == Names(3, "adam step"));
  optim::Sgd(context, parameters).step({.rate = 1e-3});
  CHECK(device.take() == Names(3, "sgd step"));
  optim::Lamb(context, {{.parameters = parameters}}).step({.rate = 1e-3});
  CHECK(device.take() == Names(3, "lamb step"));
  CHECK(device.allocated);
}

TEST_CASE("a device sees gradients being added up", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var table = random_parameter(context, Shape{7, 4}, "table");
  Tape tape(context);
  Recorder device(context);
  const auto lookup = [&](std::initializer_list<std::int32_t> ids, bool dense = false) {
    return sum(tape, embedding(tape, table, tape.constant(soma_test::ints(context, ids)),
                               {.dense_gradient = dense}));
  };
  const auto seen = [&] {
    const Names all = device.take();
    return std::vector<std::string>(std::find(all.begin(), all.end(), "embedding backward"),
                                    all.end());
  };
  tape.backward(lookup({1, 5}));
  CHECK(seen() == Names{"embedding backward"});
  tape.backward(lookup({5, 2}));  // the union of the rows: both are added to zeros
  CHECK(seen() == Names{"embedding backward", "accumulate rows", "accumulate rows"});
  tape.backward(lookup({3}, true));  // all rows: of zeros, then of the total
  CHECK(seen() == Names{"embedding backward", "accumulate rows", "accumulate rows"});
  tape.backward(lookup({3}, true));
  CHECK(seen() == Names{"embedding backward", "accumulate rows", "accumulate"});
}

TEST_CASE("recompute() is seen twice, but for what gave its result", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var w = random_parameter(context, Shape{4}, "w");
  Tape tape(context);
  Recorder device(context);
  const Var loss = sum(tape, recompute(tape, std::span<const Var>(&w, 1),
                                       [](Tape& inner, std::span<const Var> inputs) {
                                         return exp(inner, sin(inner, inputs[0]));
                                       }));
  CHECK(device.take() == Names{"sine", "exponential", "reduce"});
  tape.backward(loss);
  CHECK(device.take() == Names{"sine", "exponential backward", "sine backward"});
}

TEST_CASE("what a device writes is what the tape goes on with", "[unit][tape]") {
  // Runs everything on the host, but doubles the results of square.
  class Doubling final : public Device {
   public:
    void run(const Operator& op, const OperatorCall& call) override {
      op.host(call);
      if (op.name == "square")
        for (float& value : call.outputs[0].mutable_span<float>()) value *= 2;
    }
  } device;
  auto context = make_context({.threads = 1});
  const Var w = Var::parameter(context, soma_test::floats(context, {1, 3}));
  context.set_device(&device);
  Tape tape(context);
  CHECK(sum(tape, square(tape, w)).value().item<float>() == 20);
}
