// Kernels of processors in training: pairs with gradients, on the host and on a core, and how long
// the modelled hardware takes beside published runs.

#include <soma/neuroncore.hpp>
#include <soma/processors.hpp>
#include <soma/soma.hpp>
#include <soma/testing.hpp>

#include "catch.hpp"
#include "plugin/kernels.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>

using namespace soma;
namespace nc = soma::neuroncore;
using soma_test::gradient_values;
using soma_test::id_of;
using soma_test::message_of;
using soma_test::plugins;
using soma_test::values;

namespace {

bool is_loaded(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}
// True if a value differs from another value by at most the given share.
bool is_near(double value, double wanted, double share) {
  return value >= wanted * (1 - share) && value <= wanted * (1 + share);
}
// As many positive numbers as others.
Tensor half_positive(Context& context, const Shape& shape) {
  const Tensor result = Tensor::empty(context, shape);
  float sign = 1;
  for (float& value : result.mutable_span<float>()) value = sign = -sign;
  return result;
}
double milliseconds(Context& context, std::string_view name, std::vector<Tensor> inputs) {
  const Operator& op = context.operators().at(name);
  run(context, op, {}, inputs);
  return processor_report(op).nanoseconds / 1e6;
}

}  // namespace

TEST_CASE("a kernel and the kernel of its gradient are one operator", "[unit][processors]") {
  for (const bool many : {false, true}) {
    auto context = make_context({.threads = 2});
    load_operators(context, plugins + (many ? "libmany.so" : "libsingle.so"));
    const std::string forward = many ? "many::relu" : "single::relu_elements";
    const auto relu =
        register_differentiable(context.operators(), "my::relu", forward, {forward + "_back"});
    Tape tape(context);
    const Var x = Var::parameter(context, Tensor::from<float>(context, {-1, 2, 0, 4}, {2, 2}));
    const Var y = relu(tape, x);
    CHECK(values(context, y.value()) == std::vector<float>{0, 2, 0, 4});
    tape.backward(sum(tape, square(tape, y)));
    CHECK(gradient_values(context, x) == std::vector<float>{0, 4, 0, 8});

    OperatorSamples samples;
    samples.samples = {
        {.name = "[3, 5]", .inputs = {{.shape = {3, 5}}}},
        {.name = "[1, 1025]", .inputs = {{.shape = {1, 1025}, .low = 0.5, .high = 2}}}};
    samples.reference = [](const Sample&, const std::vector<ReferenceTensor>& inputs) {
      ReferenceTensor result = inputs[0];
      for (double& value : result.values) value = value > 0 ? value : 0;
      return std::vector{result};
    };
    const testing::Report report =
        testing::check_operator(context, context.operators().at("my::relu"), samples);
    INFO(to_string(report));
    CHECK(report.passed());
  }
}

TEST_CASE("numbers of a call reach both kernels of a pair", "[unit][processors]") {
  auto context = make_context({.threads = 1});
  load_operators(context, plugins + "libmany.so");
  const auto scaled = register_differentiable<soma_test::Which>(
      context.operators(), "my::scaled", "many::scaled", {"many::scaled_back"});
  Tape tape(context);
  const Var x = Var::parameter(context, Tensor::from<float>(context, {1, -2, 3}, {3}));
  const Var y = scaled(tape, x, {2.5});
  CHECK(values(context, y.value()) == std::vector<float>{2.5f, -5, 7.5f});
  tape.backward(sum(tape, y));
  CHECK(gradient_values(context, x) == std::vector<float>{2.5f, 2.5f, 2.5f});
}

TEST_CASE("pairs that cannot be right are refused", "[unit][processors]") {
  auto context = make_context({.threads = 1});
  load_operators(context, plugins + "libsingle.so");
  OperatorRegistry& registry = context.operators();
  const auto refused = [&](std::string_view forward,
                           std::initializer_list<std::string_view> backward) {
    return message_of([&] { register_differentiable(registry, "my::pair", forward, backward); });
  };
  CHECK(refused("single::none", {}).find("[operator.unknown]") != std::string::npos);
  CHECK(refused("single::relu_elements", {"single::none"}).find("[operator.unknown]") !=
        std::string::npos);
  CHECK(refused("single::relu_elements", {"single::negate_tcm"}) ==
        "register_differentiable: \"single::negate_tcm\" is of 1 inputs and 1 outputs, wanted the "
        "output's gradient and the inputs of \"single::relu_elements\", and one output "
        "[operator.inputs]");
  CHECK(refused("single::relu_elements", {"", ""}) ==
        "register_differentiable: backward is 2 operators, wanted at most one for each of 1 inputs "
        "[operator.inputs]");
  // Without an operator for it an input gets no gradient.
  const auto negate = register_differentiable(registry, "my::negate", "single::negate_tcm", {""});
  Tape tape(context);
  const Var x = Var::parameter(context, Tensor::from<float>(context, {1, 2}, {2}));
  tape.backward(sum(tape, add(tape, negate(tape, x), x)));
  CHECK(gradient_values(context, x) == std::vector<float>{1, 1});
  // A gradient of another shape than its input is seen.
  const auto wrong =
      register_differentiable(registry, "my::wrong", "single::negate_tcm", {"single::add_streams"});
  const Var matrix = Var::parameter(context, Tensor::zeros(context, {2, 2}));
  CHECK(message_of([&] {
          Tape other(context);
          other.backward(sum(other, wrong(other, matrix)));
        }) ==
        "single::add_streams: gradient of input 0 is [4] fp32, wanted [2, 2] fp32 [tensor.shape]");
}

TEST_CASE("on a core a kernel is an instruction, and gives the same bits", "[unit][processors]") {
  for (const std::uint64_t stress : {std::uint64_t{0}, std::uint64_t{5}}) {
    auto context = make_context({.threads = 2});
    load_operators(context, plugins + "libmany.so");
    const auto relu =
        register_differentiable(context.operators(), "my::relu", "many::relu", {"many::relu_back"});
    const auto train = [&](std::vector<float>* gradient) {
      Tape tape(context);
      const Var x = Var::parameter(context, half_positive(context, {9, 131}));
      const Var y = relu(tape, add(tape, x, x));
      tape.backward(sum(tape, square(tape, y)));
      *gradient = gradient_values(context, x);
      return values(context, y.value());
    };
    std::vector<float> host_gradient, core_gradient;
    const std::vector<float> on_host = train(&host_gradient);
    auto core = nc::make_core(context, nc::trn1(), {.dma_stress_seed = stress, .record = true});
    auto device = nc::make_device(core);
    context.set_device(&device);
    CHECK(train(&core_gradient) == on_host);
    context.set_device(nullptr);
    CHECK(core_gradient == host_gradient);
    std::size_t kernels = 0;
    for (const nc::Instruction& instruction : core.recorded()) {
      if (instruction.opcode != nc::Opcode::custom_operator) continue;
      ++kernels;
      CHECK(instruction.position.lane == nc::lane_of(nc::Engine::gpsimd));
      CHECK(instruction.cost.nanoseconds > 0);
    }
    CHECK(kernels == 2);
    for (const NeuronCoreDevice::Count& count : device.counts())
      if (count.name.starts_with("many::")) {
        CHECK(count.programs == 1);
        CHECK(count.host == 0);
        CHECK(count.hbm_bytes == (count.name == "many::relu" ? 2u : 3u) * 4 * 9 * 131);
      }
  }
}

// The published runs: neuron-customops/tutorials, performance and training of the MLP. Inputs are
// positive in half of their elements, so each element is touched 2.5 times.
TEST_CASE("modelled times are near the published ones", "[unit][processors]") {
  auto single = make_context({.threads = 1});
  load_operators(single, plugins + "libsingle.so");
  const auto of = [](Context& context, std::string_view name) {
    return milliseconds(context, name, {half_positive(context, {32, 4096})}) +
           milliseconds(context, name, {half_positive(context, {32, 2048})});
  };
  const double elements = of(single, "single::relu_elements");
  CAPTURE(elements);
  CHECK(is_near(elements, 1e3 / 8.0986, 0.15));
  const double local = of(single, "single::negate_tcm");
  CAPTURE(local);
  CHECK(local <= 1e3 / 220.738);
  CHECK(local <= elements / 27);
  auto many = make_context({.threads = 1});
  load_operators(many, plugins + "libmany.so");
  CHECK(of(many, "many::relu") <= 1e3 / 269.936);

  double both_ways = 0;
  for (const std::size_t width : {std::size_t{120}, std::size_t{84}}) {
    const Tensor x = half_positive(single, {32, width});
    both_ways += milliseconds(single, "single::relu_elements", {x}) +
                 milliseconds(single, "single::relu_elements_back", {x, x});
  }
  CAPTURE(both_ways);
  CHECK(is_near(both_ways, 1e3 / 117.4715, 0.25));

  // Each parameter has its share, and counts are exact.
  run(single, single.operators().at("single::negate_tcm"), {}, {half_positive(single, {1025})});
  const nc::ProcessorReport report = processor_report(single.operators().at("single::negate_tcm"));
  const nc::ProcessorCounts& counts = report.counts[0];
  CHECK(counts.copies == 4);
  CHECK(counts.staged_elements == 2050);
  CHECK(counts.bulk_blocks == 4);  // the result, returned, is read and written: 4096 + 4 bytes
  CHECK(counts.element_accesses == 0);
  const double transfers = 8 * 1300 + 4 * 4096 / 17.0 + 4 * 142;
  CHECK(is_near(report.nanoseconds, (150 + 5 * 2050) / 1.4 + transfers, 1e-12));
}

TEST_CASE("kernels run from several threads, and libraries are unloaded", "[unit][processors]") {
  {
    // Two contexts share a library each. (Loading is the loader's affair, whose locks tools for
    // threads do not see.)
    std::vector<std::unique_ptr<Context>> contexts;
    for (int i = 0; i < 4; ++i) {
      contexts.emplace_back(new Context(make_context({.threads = 1})));
      load_operators(*contexts.back(), plugins + (i % 2 == 0 ? "libmany.so" : "libsingle.so"));
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&context = *contexts[static_cast<std::size_t>(i)], i] {
        const Operator& op =
            context.operators().at(i % 2 == 0 ? "many::relu" : "single::relu_elements");
        for (int times = 0; times < 20; ++times)
          run(context, op, {}, {half_positive(context, {3, 17})});
      });
    for (std::thread& thread : threads) thread.join();
  }
  for (const char* name : {"libmany.so", "libsingle.so", "libwrong.so", "libcpu_style.so"})
    CHECK_FALSE(is_loaded(plugins + name));
}
