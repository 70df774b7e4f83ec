// RunOptions::stop_at_non_finite: the operator and the instruction that made the first number that
// is not finite are named, and results are those of the first run.

#include <soma/ops/built_in.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/on_device.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <limits>
#include <span>
#include <string>

using namespace soma;
using namespace soma_test;
namespace nc = neuroncore;

namespace {

constexpr RunOptions stops{.stop_at_non_finite = true};
constexpr float huge = 3e38f;

void same_shape(const ShapeCall& call) {
  call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}
constexpr Operator operator_of(const Program& program) {
  return {.name = "test::program",
          .shape = &same_shape,
          .host = [](const OperatorCall&) {},
          .program = &program};
}

struct Tiles {
  Tiles(nc::Core& core, const OperatorCall& call)
      : x(core.sbuf.tile(DType::fp32, 1, call.inputs[0].elements())), y(x) {
    core.dma.load(x, nc::hbm(call.inputs[0]));
    y = core.sbuf.tile(DType::fp32, 1, call.inputs[0].elements());
  }
  nc::Tile x, y;
};

// exp(x) overflows; what follows makes NaN of it. A maximum that begins at -infinity is none of
// its business.
constexpr int exp_line = __LINE__ + 5;
constexpr Program overflows{[](nc::Core& core, const OperatorCall& call) {
  Tiles tiles(core, call);
  const auto region = core.region("exponentials");
  core.vector.memset(tiles.y, -std::numeric_limits<float>::infinity());
  core.scalar.activation(tiles.y, tiles.x, nc::Function::exp);
  core.vector.tensor_tensor(tiles.y, tiles.y, tiles.y, nc::Alu::subtract);
  core.dma.store(nc::hbm_target(call.outputs[0]), tiles.y);
}};
// The rounding of a transfer to bf16 makes infinity of the largest numbers of fp32.
constexpr int store_line = __LINE__ + 3;
constexpr Program narrows{[](nc::Core& core, const OperatorCall& call) {
  Tiles tiles(core, call);
  core.dma.store(nc::hbm_target(call.outputs[0]), tiles.x);
}};
constexpr int read_line = __LINE__ + 3;
constexpr Program reads_unwritten{[](nc::Core& core, const OperatorCall& call) {
  Tiles tiles(core, call);
  core.vector.tensor_tensor(tiles.x, tiles.x, tiles.y, nc::Alu::add);
  core.dma.store(nc::hbm_target(call.outputs[0]), tiles.x);
}};
// Infinity that a memset wrote goes through an activation that reads out its sums, which is two
// instructions.
constexpr Program spreads{[](nc::Core& core, const OperatorCall& call) {
  Tiles tiles(core, call);
  const nc::Tile sum = core.sbuf.tile(DType::fp32, 1, 1);
  core.vector.memset(tiles.y, std::numeric_limits<float>::infinity());
  core.scalar.activation(tiles.y, tiles.y, nc::Function::copy,
                         {.reduce = nc::Reduce::reset_reduce, .reduce_result = &sum});
  core.dma.store(nc::hbm_target(call.outputs[0]), tiles.y);
}};
// Sums of products that overflow, and are added to.
constexpr int matmul_line = __LINE__ + 7;
constexpr Program multiplies{[](nc::Core& core, const OperatorCall& call) {
  Tiles tiles(core, call);
  const nc::Tile sums = core.psum.tile(1, 1);
  const nc::Tile one = tiles.x.columns(0, 1), small = tiles.y.columns(0, 1);
  core.vector.memset(tiles.y, 1);
  core.tensor.matmul(sums, small, small);
  core.tensor.matmul(sums, one, one, nc::Accumulate::yes);
  core.tensor.matmul(sums, small, small, nc::Accumulate::yes);
  core.vector.copy(one, sums);
  core.dma.store(nc::hbm_target(call.outputs[0]), tiles.x);
}};
constexpr Operator overflowing = operator_of(overflows), unwritten = operator_of(reads_unwritten),
                   multiplying = operator_of(multiplies), spreading = operator_of(spreads);
constexpr Operator narrowing{.name = "test::narrow",
                             .shape =
                                 [](const ShapeCall& call) {
                                   call.outputs[0] = {call.inputs[0].shape(), DType::bf16};
                                 },
                             .host = [](const OperatorCall&) {},
                             .program = &narrows};
constexpr Operator on_host{
    .name = "test::on_host", .shape = &same_shape, .host = [](const OperatorCall& call) {
      for (float& y : call.outputs[0].mutable_span<float>())
        y = std::numeric_limits<float>::quiet_NaN();
    }};

auto has(const std::string& text) { return contains(text.c_str()); }
std::string line_of(int line) { return "finite_check_test.cpp:" + std::to_string(line); }

}  // namespace

TEST_CASE("the operator with the first result that is not finite is named", "[unit]") {
  auto context = make_context({.threads = 1});
  const BuiltInOperators& built_in = context.built_in();
  const OnDevice on(context, strict, stops);
  const auto add = [&](const Tensor& a, const Tensor& b) {
    return run(context, built_in.of(Binary::add), {}, {a, b})[0];
  };
  const Tensor x = Tensor::from<float>(context, {1, 2, 3, huge, 5, 6}, {2, 3});
  CHECK(add(x, Tensor::scalar(context, 1.0f)).span<float>()[5] == 7);
  const std::uint64_t launches = on.device().runs().launches;
  const std::string message = message_of([&] { add(x, x); });
  CHECK_THAT(message, contains("add: output 0 is inf at [1, 0], wanted finite numbers: vector "
                               "tensor_tensor at ") &&
                          contains(" wrote inf to element [") &&
                          contains("[neuroncore.not_finite]"));
  // The run that looks for the instruction is no launch.
  CHECK(on.device().runs().launches == launches + 1);

  // Where an input was so already, no instruction is at fault.
  const Tensor nan = floats(context, {0, 1, std::nanf(""), 3});
  CHECK_THAT(message_of([&] { add(nan, nan); }), contains("add: output 0 is nan at [2]") &&
                                                     contains("input 0 was given with nan at [2]"));
}

TEST_CASE("what is written in place is looked at, and written once", "[unit]") {
  auto context = make_context({.threads = 1});
  const OnDevice on(context, strict, stops);
  // Which inputs a step writes its record does not say; a constant is none of them.
  constexpr float steps[] = {1, huge};
  const Tensor weight = floats(context, {1, -huge}),
               gradient = Tensor::adopt(context, std::span<const float>(steps), Shape{2});
  const std::uint64_t version = weight.version();
  const std::string message = message_of([&] {
    run(context, *context.built_in().sgd_step, SgdSetting{.rate = 1}, {weight, gradient});
  });
  CHECK_THAT(message, contains("input 0, which it may write, is -inf at [1]") &&
                          contains(" wrote -inf to element ["));
  CHECK(weight.data<float>()[0] == 0);  // 1 - 1, and not that twice
  CHECK(weight.version() > version);
}

TEST_CASE("the first instruction that makes infinity of finite numbers is named", "[unit]") {
  for (const std::uint64_t late : {0u, 5u}) {
    auto context = make_context({.threads = 1});
    nc::CoreOptions options{.dma_stress_seed = late};
    const OnDevice on(context, options, stops);
    const auto says = [&](const Operator& op, const Tensor& x) {
      return message_of([&] { run(context, op, {}, {x}); });
    };
    CHECK_THAT(says(overflowing, floats(context, {1, 100, 2})),
               contains("test::program: output 0 is nan at [1]") &&
                   has("scalar activation at " + line_of(exp_line) +
                       " wrote inf to element [0, 1] of fp32 SBUF [1, 3] in exponentials"));
    CHECK_THAT(says(narrowing, floats(context, {1, std::numeric_limits<float>::max()})),
               has("dma dma_copy at " + line_of(store_line) + " wrote inf to element [0, 1]"));
    CHECK_THAT(says(multiplying, floats(context, {huge})),
               has("tensor matmul at " + line_of(matmul_line)));
    CHECK_THAT(says(unwritten, floats(context, {1, 2})),
               has("vector tensor_tensor at " + line_of(read_line) +
                   " read fp32 SBUF [1, 2], which nobody wrote"));
    CHECK_THAT(says(spreading, floats(context, {1, 2})),
               contains("output 0 is inf at [0]") &&
                   contains("no single instruction made it of finite numbers"));
    CHECK(says(overflowing, floats(context, {1, 2, 3})) == "no error");
  }
}

TEST_CASE("an operator that runs on the host is named without an instruction", "[unit]") {
  auto context = make_context({.threads = 1});
  auto core = nc::make_core(context);
  auto device = nc::make_device(core, stops);
  context.set_device(&device);
  CHECK_THAT(
      message_of([&] {
        run(context, on_host, {}, {floats(context, {1, 2})});
      }),
      contains("test::on_host: output 0 is nan at [0]") && contains("no program of instructions"));
  context.set_device(nullptr);
}

TEST_CASE("numbers are not looked for where calls are recorded, or there are none", "[unit]") {
  auto context = make_context({.threads = 1});
  auto core = nc::make_core(context), dry = nc::make_core(context, nc::trn1(), {.compute = false});
  for (const RunMode mode : {RunMode::jit, RunMode::lazy})
    CHECK(message_of([&] { nc::make_device(core, {.mode = mode, .stop_at_non_finite = true}); }) ==
          "NeuronCoreDevice: stop_at_non_finite is true, and calls are recorded, wanted "
          "RunMode::eager on a core that computes [neuroncore.run_options]");
  CHECK(id_of([&] { nc::make_device(dry, stops); }) == "neuroncore.run_options");
}
