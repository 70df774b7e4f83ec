// How long a training step takes on the accelerator in its run modes, by the clock's rules: exact,
// so that modes are compared without measuring.

#include <soma/models/bert.hpp>
#include <soma/neuroncore_clock.hpp>

#include "catch.hpp"
#include "support/at_once.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

using namespace soma;
namespace nc = soma::neuroncore;

namespace {

// A dry run's instructions, and where each launch of them ends.
struct Step {
  std::vector<nc::Instruction> record;
  std::vector<std::size_t> ends;
  std::uint64_t operators = 0, removed = 0;

  // One launch behind the other, each at `launch_ns`.
  double ns(double launch_ns) const {
    nc::Machine machine = nc::trn1();
    machine.launch_ns = launch_ns;
    double sum = 0;
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      sum += nc::timeline(std::span(record).subspan(begin, end - begin), machine).ns;
      begin = end;
    }
    return sum;
  }
};

struct Sizes {
  models::BertConfig config;
  std::size_t batch = 0, length = 0;
};

// Forward, backward and AdamW of a classifier, in bf16.
Step record_step(RunMode mode, const Sizes& sizes) {
  auto context = make_context({.threads = 1});
  const models::BertClassifier model({context}, sizes.config, 2);
  const Parameters parameters = nn::parameters(model);
  optim::AdamW optimizer(context, parameters);
  const std::vector<std::vector<std::int64_t>> lists(sizes.batch,
                                                     std::vector<std::int64_t>(sizes.length, 7));
  const std::vector<std::int64_t> classes(sizes.batch, 1);
  auto core = nc::make_core(context, nc::trn1(), {.record = true, .compute = false});
  auto device = nc::make_device(core, {.mode = mode});
  Step step;
  device.after_program([&](std::string_view) { step.ends.push_back(core.recorded().size()); });
  context.set_device(&device);
  {
    Tape tape(context);
    const Var tokens = tape.constant(make_ragged<std::int64_t>(context, lists));
    const Var labels =
        tape.constant(Tensor::from<std::int64_t>(context, classes, Shape{classes.size()}));
    const Var loss = cross_entropy(tape, model(tape, tokens), labels);
    tape.backward(loss);
    optimizer.step({.rate = 1e-4});
    clear_gradients(parameters);
    device.mark_step();
  }
  context.set_device(nullptr);
  step.record.assign(core.recorded().begin(), core.recorded().end());
  for (const NeuronCoreDevice::Count& count : device.counts()) {
    CHECK(count.host == 0);
    step.operators += count.programs;
  }
  step.removed = device.runs().removed;
  return step;
}

// The same instructions, but none waits for one of an earlier call of an operator: what no order of
// launches can beat while each lane keeps its own order.
double without_waits_between_operators(const Step& step) {
  std::vector<nc::Instruction> record = step.record;
  std::array<std::uint32_t, nc::lane_count> issued{}, before{};
  std::array<bool, nc::lane_count> begun{};
  std::uint32_t call = 0;
  for (nc::Instruction& instruction : record) {
    if (instruction.call != call) {
      call = instruction.call;
      before = issued;
      begun.fill(false);
    }
    const nc::Position at = instruction.position;
    for (std::size_t lane = 0; lane < nc::lane_count; ++lane)
      if (instruction.after[lane] <= before[lane]) instruction.after[lane] = 0;
    if (!begun[at.lane]) instruction.reads_previous = false;
    begun[at.lane] = true;
    issued[at.lane] = at.number;
  }
  return nc::timeline(record, soma_test::at_once()).ns;
}

void compare(const Sizes& sizes) {
  const Step eager = record_step(RunMode::eager, sizes), lazy = record_step(RunMode::lazy, sizes);
  CHECK(eager.ends.size() == eager.operators);
  CHECK(lazy.operators + lazy.removed == eager.operators);
  REQUIRE(lazy.ends.size() < eager.ends.size() / 4);
  const double at_once = eager.ns(0), together = lazy.ns(0);
  const double least = without_waits_between_operators(eager);
  INFO("eager " << at_once * 1e-6 << " ms, lazy " << together * 1e-6 << " ms, nothing waits "
                << least * 1e-6 << " ms; " << eager.ends.size() << " and " << lazy.ends.size()
                << " launches");
  CHECK(together <= at_once);
  CHECK(least < at_once);
  CHECK(at_once - together >= 0.5 * (at_once - least));
  // Each launch that is saved saves its cost.
  for (const double launch : {1e3, 1e5}) {
    const double saved = eager.ns(launch) - lazy.ns(launch);
    CHECK(saved >= static_cast<double>(eager.ends.size() - lazy.ends.size()) * launch);
  }
}

}  // namespace

TEST_CASE("a lazy step is predicted no longer than an eager one, and saves its launches",
          "[unit][neuroncore]") {
  compare(
      {{.vocabulary = 100, .width = 256, .layers = 2, .heads = 4, .inner = 1024, .positions = 64},
       4,
       64});
}

TEST_CASE("two layers of BERT-base: a lazy step saves half of what waits between operators cost",
          "[slow][neuroncore]") {
  models::BertConfig config = models::BertConfig::base();
  config.layers = 2;
  config.vocabulary = 1000;
  config.positions = 128;
  compare({config, 8, 128});
}
