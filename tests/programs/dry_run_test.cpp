// A training step in a dry run: the record is that of a computed one, operator by operator.

#include <soma/data/token_source.hpp>
#include <soma/neuroncore.hpp>
#include <soma/neuroncore/clock/timeline.hpp>
#include <soma/train/trainer.hpp>

#include "catch.hpp"
#include "support/at_once.hpp"
#include "support/errors.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

using namespace soma;
using neuroncore::Instruction;

namespace {

struct Step {
  std::vector<Instruction> instructions;
  std::vector<std::string> calls, regions;  // names for each instruction
  std::uint64_t bytes = 0, buffers = 0, host_reads = 0;
  float loss = 0;
  std::string name;
};

Step bert_step(bool compute) {
  auto context = make_context({.threads = 1});
  models::BertConfig config = models::BertConfig::tiny();
  config.vocabulary = 100;
  const models::BertClassifier model({context}, config, 2);
  const Parameters parameters = nn::parameters(model);
  optim::AdamW optimizer(context, parameters);
  auto core = neuroncore::make_core(
      context, neuroncore::trn1(),
      {.uninitialised = neuroncore::Uninitialised::error, .record = true, .compute = compute});
  auto device = neuroncore::make_device(core);
  std::vector<std::string> called;
  Step step;
  // Taken after each program, as in a long run.
  device.after_program([&](std::string_view name) {
    called.emplace_back(name);
    const neuroncore::Record record = core.take_recorded();
    for (const Instruction& instruction : record.instructions) {
      REQUIRE(instruction.call == 1);
      step.instructions.push_back(instruction);
      step.calls.push_back(record.names.calls[0].name);
      step.regions.push_back(record.names.path(instruction.region));
    }
    CHECK(record.names.calls.size() == 1);
    CHECK((record.instructions.empty() || step.calls.back() == name));
  });
  context.set_device(&device);
  Tape tape(context);
  const auto tokens = make_ragged<std::int64_t>(
      context, std::vector<std::vector<std::int64_t>>{{1, 2, 3, 4, 5}, {6, 7, 8}, {9, 10, 1, 2}});
  const Var loss =
      cross_entropy(tape, model(tape, tape.constant(tokens)),
                    tape.constant(Tensor::from<std::int64_t>(context, {0, 1, 1}, {3})));
  step.loss = loss.value().item<float>();
  tape.backward(loss);
  optimizer.step({.rate = 1e-3});
  context.set_device(nullptr);
  device.after_program(nullptr);
  std::uint64_t programs = 0;
  for (const auto& count : device.counts()) {
    programs += count.programs;
    step.buffers += count.dma_buffers;
  }
  CHECK(called.size() == programs);
  CHECK(step.buffers == core.statistics().dma_buffers);
  step.bytes = core.statistics().hbm_bytes_read + core.statistics().hbm_bytes_written;
  step.host_reads = device.host_reads();
  step.name = device.name();
  return step;
}

void triple(const OperatorCall& call) {
  for (std::size_t i = 0; i < call.inputs[0].elements(); ++i)
    call.outputs[0].mutable_data<float>()[i] = 3 * call.inputs[0].data<float>()[i] + 1;
}
void same_shape(const ShapeCall& call) {
  call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}
constexpr Operator on_host{.name = "test::triple", .shape = &same_shape, .host = &triple};

}  // namespace

TEST_CASE("the record of a training step is the same in a dry run", "[unit][bert]") {
  const Step computed = bert_step(true), dry = bert_step(false);
  REQUIRE(computed.instructions.size() > 1000);
  REQUIRE(dry.instructions.size() == computed.instructions.size());
  std::size_t different = 0;
  for (std::size_t i = 0; i < dry.instructions.size(); ++i)
    different += dry.instructions[i] == computed.instructions[i] ? 0u : 1u;
  CHECK(different == 0);
  CHECK(dry.calls == computed.calls);
  CHECK(dry.regions == computed.regions);
  CHECK(dry.bytes == computed.bytes);
  CHECK(dry.buffers == computed.buffers);
  CHECK(computed.loss > 0);
  CHECK(dry.loss == 0);  // zeros
  CHECK(computed.host_reads == 0);
  CHECK(computed.name == "trn1");
  CHECK(dry.name == "trn1 compute=0");  // no checkpoint of one goes on in the other
}

TEST_CASE("what runs on the host in a dry run reads zeros, and is counted", "[unit]") {
  auto context = make_context({.threads = 1});
  auto core = neuroncore::make_core(context, neuroncore::trn1(), {.compute = false});
  auto device = neuroncore::make_device(core);
  context.set_device(&device);
  Tape tape(context);
  const Var sum = add(tape, tape.constant(Tensor::full(context, {4}, 1.0f)),
                      tape.constant(Tensor::full(context, {4}, 2.0f)));
  CHECK(sum.value().data<float>()[3] == 0);
  CHECK(device.host_reads() == 0);
  CHECK(run(context, on_host, {}, {sum.value()})[0].data<float>()[3] == 1);
  CHECK(device.host_reads() == 1);
  context.set_device(nullptr);
}

// Each program alone, as the device runs them.
TEST_CASE("a training step of BERT-base takes less than 70 ms by the clock", "[slow][bert]") {
  auto context = make_context({.threads = 1});
  const models::BertConfig config = models::BertConfig::base();
  const models::BertClassifier model({context, 7}, config, 2);
  nn::ClassificationTask<models::BertClassifier> task(model, 2);
  auto core =
      neuroncore::make_core(context, soma_test::at_once(), {.record = true, .compute = false});
  auto device = neuroncore::make_device(core);
  double ns = 0;
  device.after_program([&](std::string_view) {
    const neuroncore::Record record = core.take_recorded();
    ns += timeline({record.instructions.data(), record.instructions.size()}, core.machine()).ns;
  });
  context.set_device(&device);
  constexpr std::size_t sequences = 16, length = 128;
  data::TokenLists lists;
  for (std::size_t i = 0; i < sequences; ++i) {
    std::vector<std::int32_t> ids(length);
    for (std::size_t j = 0; j < length; ++j)
      ids[j] = static_cast<std::int32_t>(1 + (i * 131 + j * 7) % (config.vocabulary - 1));
    lists.add(ids, 1);
  }
  data::TokenSource source(context, lists, {.batch_sequences = sequences});
  train::Trainer trainer(context, task, {.max_steps = 1, .precision = Precision::bf16()});
  trainer.fit(source);
  context.set_device(nullptr);
  INFO(ns / 1e6 << " ms");
  CHECK(ns < 70e6);
  CHECK(ns > 50e6);
}
