// The device: who runs where, what it says about it, and that an error leaves it usable.

#include <soma/neuroncore_clock.hpp>

#include "catch.hpp"
#include "support/at_once.hpp"
#include "support/errors.hpp"

#include <string>
#include <string_view>
#include <vector>

using namespace soma;
using neuroncore::hbm;
using neuroncore::hbm_target;

namespace {

void same_shape(const ShapeCall& call) {
  call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}
// Twice x on the host, three times x on the device: results tell who ran.
void twice(const OperatorCall& call) {
  for (std::size_t i = 0; i < call.inputs[0].elements(); ++i)
    call.outputs[0].mutable_data<float>()[i] = 2 * call.inputs[0].data<float>()[i];
}
void thrice(neuroncore::Core& core, const OperatorCall& call) {
  const std::size_t count = call.inputs[0].elements();
  const neuroncore::Tile x = core.sbuf.tile(DType::fp32, 1, count);
  core.dma.load(x, hbm(call.inputs[0]));
  core.vector.tensor_scalar(x, x, neuroncore::Alu::multiply, 3);
  core.dma.store(hbm_target(call.outputs[0]), x);
}
// Loads what it never reads, then breaks a rule.
void broken(neuroncore::Core& core, const OperatorCall& call) {
  const neuroncore::Tile x = core.sbuf.tile(DType::fp32, 1, call.inputs[0].elements());
  core.dma.load(x, hbm(call.inputs[0]));
  core.psum.tile(128, 5000);
}

constexpr Program three{&thrice}, breaks{&broken};
constexpr Operator no_program{.name = "test::twice", .shape = &same_shape, .host = &twice};
constexpr Operator own_program{
    .name = "test::thrice", .shape = &same_shape, .host = &twice, .program = &three};
constexpr Operator broken_program{
    .name = "test::broken", .shape = &same_shape, .host = &twice, .program = &breaks};

struct Messages {
  std::vector<std::string> texts;
  static void write(void* self, LogLevel, std::string_view message) {
    static_cast<Messages*>(self)->texts.emplace_back(message);
  }
};

float result_of(Context& context, const Operator& op) {
  return run(context, op, {}, {Tensor::full(context, {4}, 1.0f)})[0].data<float>()[3];
}

}  // namespace

TEST_CASE("an operator without a program runs on the host, and the device says so once", "[unit]") {
  Messages messages;
  auto context = make_context({.log = {&messages, &Messages::write}, .threads = 1});
  auto core = neuroncore::make_core(context);
  auto device = neuroncore::make_device(core);
  context.set_device(&device);
  CHECK(result_of(context, no_program) == 2);
  CHECK(result_of(context, no_program) == 2);
  CHECK(result_of(context, own_program) == 3);
  REQUIRE(messages.texts.size() == 1);
  CHECK(messages.texts[0].find("test::twice") == 0);
  REQUIRE(device.counts().size() == 2);
  CHECK(device.counts()[0].host == 2);
  CHECK(device.counts()[0].programs == 0);
  CHECK(device.counts()[1].host == 0);
  CHECK(device.counts()[1].programs == 1);
  CHECK(device.counts()[1].hbm_bytes == 2 * 4 * sizeof(float));
  CHECK(device.counts()[1].instructions[static_cast<std::size_t>(neuroncore::Engine::dma)] == 2);
  context.set_device(nullptr);
  CHECK(result_of(context, own_program) == 2);
}

TEST_CASE("a program that ends in an error leaves nothing behind", "[unit]") {
  for (const std::uint64_t seed : {0u, 5u}) {  // with transfers under way, and without
    auto context = make_context({.threads = 1});
    auto core = neuroncore::make_core(context, neuroncore::trn1(), {.dma_stress_seed = seed});
    auto device = neuroncore::make_device(core);
    context.set_device(&device);
    CHECK(soma_test::id_of([&] { result_of(context, broken_program); }) ==
          "neuroncore.rule_broken");
    CHECK(core.sbuf.used() == 0);
    CHECK(core.psum.used() == 0);
    CHECK(result_of(context, own_program) == 3);
    context.set_device(nullptr);
  }
}

TEST_CASE("views cost no program", "[unit]") {
  auto context = make_context({.threads = 1});
  auto core = neuroncore::make_core(context);
  auto device = neuroncore::make_device(core);
  context.set_device(&device);
  Tape tape(context);
  const Var x = tape.constant(Tensor::full(context, {2, 3}, 1.0f));
  CHECK(transpose(tape, x, 0, 1).shape() == Shape{3, 2});
  CHECK(device.counts().empty());
  context.set_device(nullptr);
}

TEST_CASE("a device's step is reported operator by operator", "[unit][neuroncore]") {
  Context context = make_context({.threads = 1});
  auto core = neuroncore::make_core(context, soma_test::at_once(), {.record = true});
  auto device = neuroncore::make_device(core);
  context.set_device(&device);
  const Tensor x = Tensor::full(context, {128, 2048}, 1.0f);
  const auto step = [&](int products) {
    Tape tape(context, {.record = false});
    const Var a = tape.constant(x);
    for (int i = 0; i < products; ++i) matmul(tape, a, transpose(tape, a, 0, 1));
    relu(tape, a);
    result_of(context, own_program);
  };
  step(2);
  const neuroncore::StepReport first(device);
  step(1);
  const neuroncore::StepReport second(device);
  context.set_device(nullptr);

  const auto use = [](const neuroncore::StepReport& report, std::string_view name) {
    for (const auto& entry : report.report().summary().operators)
      if (entry.name == name) return entry;
    return neuroncore::OperatorUse{};
  };
  CHECK(use(first, "matmul").calls == 2);
  CHECK(use(second, "matmul").calls == 1);
  CHECK(use(second, "relu").calls == 1);
  CHECK(use(second, "test::thrice").calls == 1);
  // Calls run one after the other and nothing else runs: their times are the step's, but for the
  // start of transfers between them.
  for (const neuroncore::StepReport* report : {&first, &second}) {
    double sum = 0;
    for (const auto& entry : report->report().summary().operators) {
      CHECK(entry.ns > 0);
      CHECK(!entry.bound.empty());
      sum += entry.ns;
    }
    CHECK(sum <= report->report().ns());
    CHECK(sum > 0.7 * report->report().ns());
  }
  // The same instructions take as long whenever they run.
  CHECK_THAT(use(first, "matmul").ns / 2,
             Catch::Matchers::WithinRel(use(second, "matmul").ns, 1e-9));
  CHECK(core.recorded().empty());
}
