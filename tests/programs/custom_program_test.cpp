// An operator of one's own with a program: it runs on the accelerator's core, and on the host
// without one.

#include <soma/neuroncore.hpp>

#include "catch.hpp"
#include "support/tensors.hpp"

#include <vector>

using namespace soma;
using soma_test::values;

namespace {

// Twice x on the host; on the core, three times: results tell who ran.
void thrice(neuroncore::Core& core, const OperatorCall& call) {
  const neuroncore::Tile x = core.sbuf.tile(DType::fp32, 1, call.inputs[0].elements());
  core.dma.load(x, neuroncore::hbm(call.inputs[0]));
  core.vector.tensor_scalar(x, x, neuroncore::Alu::multiply, 3);
  core.dma.store(neuroncore::hbm_target(call.outputs[0]), x);
}
constexpr Program program{&thrice};

constexpr CustomOperator<> twice{
    .shape =
        [](const ShapeCall& call) {
          call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
        },
    .host =
        [](const OperatorCall& call) {
          const auto x = call.inputs[0].span<float>();
          const auto y = call.outputs[0].mutable_span<float>();
          for (std::size_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
        },
    .gradient =
        [](const GradientCall& call) { call.input_gradients[0].values = call.output_gradients[0]; },
    .program = &program};

}  // namespace

TEST_CASE("a device runs the program of an operator of one's own", "[unit]") {
  auto context = make_context({.threads = 1});
  const auto op = register_operator(context.operators(), "test::twice", twice);
  const auto double_it = register_elementwise(
      context.operators(), "test::double", [](float x) { return 2 * x; },
      [](float, float dy) { return 2 * dy; });
  Tape tape(context);
  const Var x = Var::parameter(context, soma_test::floats(context, {1, 2}));
  CHECK(values(context, op(tape, x).value()) == std::vector<float>{2, 4});
  auto core = neuroncore::make_core(context);
  auto device = neuroncore::make_device(core);
  context.set_device(&device);
  const Var y = double_it(tape, op(tape, x));
  CHECK(values(context, y.value()) == std::vector<float>{6, 12});
  tape.backward(y, soma_test::floats(context, {1, 1}));
  // The device has seen the derivative of the element-wise one as an operator, too.
  REQUIRE(device.counts().size() == 3);
  CHECK(device.counts()[0].name == "test::twice");
  CHECK(device.counts()[0].programs == 1);
  CHECK(device.counts()[1].name == "test::double");
  CHECK(device.counts()[1].host == 1);
  CHECK(device.counts()[2].name == "test::double backward");
  context.set_device(nullptr);
}
