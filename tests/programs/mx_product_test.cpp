// Products of MX numbers on a machine that has them: quantised by the Vector engine, multiplied by
// matmul_mx, and close to the host's products of the same numbers.

#include "programs/device_run.hpp"

#include <soma/numeric/precision.hpp>

using namespace soma;
using soma_test::random_of;

namespace {

std::uint64_t issued(NeuronCoreDevice& device, neuroncore::Opcode opcode) {
  return device.core().statistics().instructions[static_cast<std::size_t>(opcode)];
}

// A matrix [rows, columns] as the accelerator's MX numbers, groups along rows or down columns.
Tensor microscaled(Context& context, const Tensor& x, bool down) {
  QuantizeSetting setting{.quantizer = {.format = formats::fp8_e4m3fn,
                                        .scaling = {.policy = ScalePolicy::current,
                                                    .granularity = Granularity::group_32,
                                                    .format = ScaleFormat::mx,
                                                    .rule = ScaleRule::trn3}},
                          .along_rows = down,
                          .parameter = true};
  return run(context, ops::quantize, setting, {x})[0];
}

}  // namespace

TEST_CASE("products of MX numbers use the machine's own", "[unit][programs]") {
  struct Size {
    std::size_t m, n, k;
  };
  for (const bool transpose_b : {false, true})
    for (const Size size : {Size{1, 1, 32}, Size{3, 5, 7}, Size{130, 515, 520}, Size{64, 33, 128},
                            Size{20, 40, 9000}}) {
      auto context = make_context({.threads = 2});
      INFO(size.m << " x " << size.n << " x " << size.k << " " << transpose_b);
      const auto [m, n, k] = size;
      const Tensor a = microscaled(context, random_of(context, {m, k}, DType::fp32, "a"), false);
      const Tensor b = microscaled(
          context, random_of(context, transpose_b ? Shape{n, k} : Shape{k, n}, DType::fp32, "b"),
          !transpose_b);
      REQUIRE(a.dtype() == DType::bf16);
      const MatmulSetting plain{.transpose_b = transpose_b, .output = DType::fp32};
      MatmulSetting setting = plain;
      setting.microscaled = true;
      const Outputs host = run(context, ops::matmul, setting, {a, b});
      CHECK(soma_test::difference(context, run(context, ops::matmul, plain, {a, b})[0], host[0],
                                  0) == "");
      for (const neuroncore::Machine& machine : neuroncore::machines) {
        soma_test::OnDevice on(context, soma_test::stressed(7), {}, machine);
        const Outputs device = run(context, ops::matmul, setting, {a, b});
        // Besides the order of sums, the lost bits of numbers below 2^-14 of a group's largest.
        const double bound = static_cast<double>(k + 16) * (0x1p-23 + 0x1p-17);
        CHECK(soma_test::difference(context, device[0], host[0], bound) == "");
        const bool own = machine.has(neuroncore::Feature::matmul_mx);
        CHECK((issued(on.device(), neuroncore::Opcode::matmul_mx) != 0) == own);
        CHECK((issued(on.device(), neuroncore::Opcode::quantize_mx) != 0) == own);
        CHECK((issued(on.device(), neuroncore::Opcode::matmul) != 0) != own);
      }
    }
}

// Forward, the gradient of x, and that of the weight, whose groups begin anew at each shard of a
// batch and which stays a product of bf16.
TEST_CASE("a layer in the accelerator's precision multiplies MX numbers on trn3 alone",
          "[unit][programs]") {
  for (const Precision& precision : {Precision::mxfp8_trn3(), Precision::mxfp8()})
    for (const neuroncore::Machine& machine : {neuroncore::trn2(), neuroncore::trn3()}) {
      INFO(precision.name << " on " << std::string(machine.name));
      const auto step = [&](Context& context) {
        LinearFormats formats;
        formats.x.quantizer = precision.gemm_activations;
        formats.weight.quantizer = precision.gemm_weights;
        formats.gradient.quantizer = precision.gemm_gradients;
        Tape tape(context, {.step = 3});
        const Var x = tape.input(random_of(context, {40, 70}, DType::fp32, "x")),
                  weight = Var::parameter(context, random_of(context, {150, 70}, DType::fp32, "w"));
        const Var y =
            tape.apply(ops::quantized_linear,
                       QuantizedLinearSetting{
                           .formats = &formats, .step = 3, .training = true, .record = true},
                       {x, weight});
        const Tensor value = y.value();
        tape.backward(y, random_of(context, {40, 150}, DType::fp32, "dy"));
        return Outputs{value, x.gradient().values, weight.gradient().values};
      };
      auto context = make_context({.threads = 1});
      const Outputs host = step(context);
      auto core = neuroncore::make_core(context, machine);
      auto device = neuroncore::make_device(core);
      context.set_device(&device);
      const Outputs given = step(context);
      context.set_device(nullptr);
      for (std::size_t i = 0; i < 3; ++i)
        CHECK(soma_test::difference(context, given[i], host[i], 170 * (0x1p-23 + 0x1p-17)) == "");
      const bool own =
          precision.name == "mxfp8_trn3" && machine.has(neuroncore::Feature::matmul_mx);
      CHECK((issued(device, neuroncore::Opcode::matmul_mx) != 0) == own);
      CHECK(issued(device, neuroncore::Opcode::matmul) != 0);  // dW
    }
}
