// Tensors that a tape keeps for some of the gradients: each gradient alone has the bits that it has
// beside the others.

#include <soma/nn.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/tensors.hpp"

#include <cstddef>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

using Function = Var (*)(Tape&, const std::vector<Var>&);

struct Kept {
  const char* name;
  std::vector<Shape> shapes;
  Function function;
};

const Kept functions[] = {
    {"linear",
     {{5, 6}, {4, 6}, {4}, {5, 4}},
     [](Tape& tape, const std::vector<Var>& x) {
       return linear(tape, x[0], x[1], x[2], {.activation = Activation::gelu}, x[3]);
     }},
    {"matmul",
     {{5, 6}, {6, 4}},
     [](Tape& tape, const std::vector<Var>& x) { return matmul(tape, x[0], x[1]); }},
    {"multiply",
     {{5, 6}, {5, 6}},
     [](Tape& tape, const std::vector<Var>& x) { return mul(tape, x[0], x[1]); }},
    {"divide",
     {{5, 6}, {1, 6}},
     [](Tape& tape, const std::vector<Var>& x) { return div(tape, x[0], x[1]); }},
    {"maximum",
     {{5, 6}, {5, 6}},
     [](Tape& tape, const std::vector<Var>& x) { return maximum(tape, x[0], x[1]); }},
    {"add",
     {{5, 6}, {5, 6}},
     [](Tape& tape, const std::vector<Var>& x) { return add(tape, x[0], x[1]); }},
    {"convolution_transpose",
     {{2, 3, 4, 4}, {3, 2, 2, 2}},
     [](Tape& tape, const std::vector<Var>& x) {
       return tape.apply(*tape.operators().convolution_transpose,
                         TransposedSetting{.steps = {.stride_height = 2, .stride_width = 2}},
                         {x[0], x[1]});
     }},
};

}  // namespace

TEST_CASE("a gradient alone has the bits that it has beside the others", "[unit]") {
  auto context = make_context({.threads = 1});
  for (const Kept& each : functions) {
    std::vector<Tensor> values;
    for (std::size_t i = 0; i < each.shapes.size(); ++i)
      values.push_back(random_tensor(context, each.shapes[i], each.name + std::to_string(i)));
    const std::size_t count = values.size();
    const auto gradients = [&](std::size_t wanted) {
      Tape tape(context, {});
      std::vector<Var> inputs;
      for (std::size_t i = 0; i < count; ++i)
        inputs.push_back((wanted >> i & 1) != 0 ? Var::parameter(context, values[i])
                                                : tape.constant(values[i]));
      tape.backward(sum(tape, square(tape, each.function(tape, inputs))));
      std::vector<std::vector<std::byte>> found;
      for (std::size_t i = 0; i < count; ++i)
        found.push_back((wanted >> i & 1) != 0 ? bits(context, dense_gradient(context, inputs[i]))
                                               : std::vector<std::byte>());
      return found;
    };
    const std::size_t everything = (std::size_t{1} << count) - 1;
    const auto all = gradients(everything);
    for (std::size_t wanted = 1; wanted < everything; ++wanted) {
      INFO(each.name << ", gradients " << wanted);
      const auto some = gradients(wanted);
      for (std::size_t i = 0; i < count; ++i)
        if ((wanted >> i & 1) != 0) CHECK(some[i] == all[i]);
    }
  }
}

TEST_CASE("operators keep no more for some gradients than for all", "[unit]") {
  auto context = make_context({.threads = 1});
  const BuiltInOperators& operators = context.built_in();
  for (const Operator* op :
       {operators.linear, operators.quantized_linear, operators.matmul,
        operators.convolution_transpose, operators.norm, operators.attention}) {
    INFO(op->name);
    const KeptTensors all = op->kept_for(~std::uint32_t{0});
    CHECK(all.inputs == op->keeps_inputs);
    CHECK(all.outputs == op->keeps_outputs);
  }
  // Linear keeps no input for the residual; x for the weight, the weight for x.
  CHECK(operators.linear->kept_for(8).inputs == 0);
  CHECK(operators.linear->kept_for(4).inputs == 0);
  CHECK(operators.linear->kept_for(1).inputs == 2);
  CHECK(operators.linear->kept_for(2).inputs == 1);
  CHECK(operators.quantized_linear->kept_for(1).outputs == 2);
}
