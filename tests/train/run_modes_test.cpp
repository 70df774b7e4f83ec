// A training run on the NeuronCore model in each of its run modes: same weights, fewer launches.

#include <soma/neuroncore_clock.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/train/callbacks/status_publisher.hpp>

#include "train/small_run.hpp"

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/on_device.hpp"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <time.h>

using namespace soma;
using namespace soma_test;

namespace {

struct Run {
  std::uint64_t bits = 0;
  RunCounts runs;
  std::uint64_t operators = 0;
  // After each step: graphs that were compiled and launches so far.
  std::vector<std::uint64_t> compiled, graphs;
  std::vector<GraphMiss> misses;
  std::vector<Executable> executables;
};

class Watch final : public train::Callback {
 public:
  Watch(Run& run, NeuronCoreDevice& device) : run_(run), device_(device) {}
  void on_step(const train::StepInfo&) override {
    run_.compiled.push_back(device_.executables().compilations());
    run_.graphs.push_back(device_.runs().launches - device_.runs().apart);
  }

 private:
  Run& run_;
  NeuronCoreDevice& device_;
};

struct How {
  RunMode mode = RunMode::eager;
  std::vector<Executable> ahead{};  // compiled ahead of time: nothing else may be
  int threads = 1;
  neuroncore::CoreOptions core = strict;
  bool ragged = true;
};

Run train_small(const Precision& precision, const How& how) {
  auto context = make_context({.threads = how.threads});
  OnDevice on(context, how.core, {.mode = how.mode, .compile = how.ahead.empty()});
  for (const Executable& executable : how.ahead) on.device().executables().add(executable);
  Run run;
  SmallModel small(context);
  data::TokenSource source(context, token_lists(160, how.ragged ? 0 : 9),
                           {.batch_sequences = 8, .shuffle = true, .seed = 3});
  train::TrainerBase trainer(context, small.task,
                             {.epochs = 2,
                              .max_steps = 30,
                              .learning_rate = 2e-3,
                              .schedule = {.decay = optim::Decay::linear, .warmup = 3},
                              .seed = 5,
                              .precision = precision});
  Watch watch(run, on.device());
  trainer.add(watch);
  trainer.fit(source);
  run.bits = bits_of(context, small.task.parameters());
  run.runs = on.device().runs();
  run.misses = on.device().executables().misses();
  run.executables.assign(on.device().executables().executables().begin(),
                         on.device().executables().executables().end());
  for (const NeuronCoreDevice::Count& count : on.device().counts()) run.operators += count.programs;
  return run;
}

}  // namespace

TEST_CASE("weights do not depend on the run mode, on threads or on late transfers",
          "[unit][invariance]") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16_sr()}) {
    INFO(precision.name);
    const Run eager = train_small(precision, {});
    CHECK(eager.runs.launches == eager.operators);
    for (const RunMode mode : {RunMode::jit, RunMode::lazy})
      CHECK(train_small(precision, {.mode = mode}).bits == eager.bits);
    CHECK(train_small(precision, {.mode = RunMode::lazy, .threads = 2}).bits == eager.bits);
    CHECK(train_small(precision, {.mode = RunMode::lazy, .core = stressed(11)}).bits == eager.bits);
  }
}

TEST_CASE("a run goes on in another mode with the same bits", "[unit][invariance]") {
  const auto train = [](Context& context, RunMode mode, CheckpointStore* store, std::uint64_t steps,
                        bool resume) {
    OnDevice on(context, strict, {.mode = mode});
    SmallModel small(context);
    data::TokenSource source(context, token_lists(160),
                             {.batch_sequences = 8, .shuffle = true, .seed = 3});
    train::TrainerOptions options{.epochs = 2, .learning_rate = 2e-3, .seed = 5};
    options.max_steps = steps;
    options.checkpoints = store;
    options.resume = resume;
    train::TrainerBase trainer(context, small.task, options);
    trainer.fit(source);
    return bits_of(context, small.task.parameters());
  };
  auto context = make_context({.threads = 1});
  const std::uint64_t whole = train(context, RunMode::eager, nullptr, 12, false);
  for (const auto& [first, second] :
       {std::pair(RunMode::eager, RunMode::lazy), std::pair(RunMode::lazy, RunMode::jit)}) {
    MemoryStore store(context);
    class Stop final : public train::Callback {
      void on_step(const train::StepInfo& info) override {
        if (info.step == 5) stop_run();
      }
    };
    {
      OnDevice on(context, strict, {.mode = first});
      SmallModel small(context);
      data::TokenSource source(context, token_lists(160),
                               {.batch_sequences = 8, .shuffle = true, .seed = 3});
      train::TrainerOptions options{.epochs = 2, .learning_rate = 2e-3, .seed = 5};
      options.max_steps = 12;
      options.checkpoints = &store;
      train::TrainerBase trainer(context, small.task, options);
      Stop stop;
      trainer.add(stop);
      trainer.fit(source);
    }
    CHECK(train(context, second, &store, 12, true) == whole);
  }
}

TEST_CASE("steps of equal lengths share their graphs, ragged ones make new ones", "[unit]") {
  const Run fixed = train_small(Precision::fp32(), {.mode = RunMode::lazy, .ragged = false});
  REQUIRE(fixed.compiled.size() == 30);
  std::string causes;
  for (const RunCounts::Cut& cut : fixed.runs.cuts)
    causes += cut.cause + " " + std::to_string(cut.count) + "; ";
  for (const GraphMiss& miss : fixed.misses) causes += "\n" + miss.differs;
  INFO(causes);
  CHECK(fixed.compiled.back() == fixed.compiled[1]);  // nothing new from step 3 on
  for (std::size_t i = 2; i < fixed.graphs.size(); ++i)
    CHECK(fixed.graphs[i] - fixed.graphs[i - 1] <= 4);
}

TEST_CASE("executables of a dry run let a real one compile nothing", "[unit]") {
  neuroncore::CoreOptions dry = strict;
  dry.compute = false;
  dry.record = true;
  How how{.mode = RunMode::lazy, .core = dry, .ragged = false};
  const Run ahead = train_small(Precision::bf16(), how);
  REQUIRE_FALSE(ahead.executables.empty());
  for (const Executable& executable : ahead.executables) CHECK(executable.stream != 0);
  const Run eager = train_small(Precision::bf16(), {.ragged = false});
  const Run run = train_small(Precision::bf16(),
                              {.mode = RunMode::lazy, .ahead = ahead.executables, .ragged = false});
  CHECK(run.compiled.back() == 0);
  CHECK(run.bits == eager.bits);
  // Another length is another graph, which is not there.
  CHECK(id_of([&] {
          train_small(Precision::bf16(), {.mode = RunMode::lazy, .ahead = ahead.executables});
        }) == "executable.missing");
}

TEST_CASE("predicted times are those of all launches, whether compiled or known", "[unit]") {
  neuroncore::CoreOptions recorded = strict;
  recorded.record = true;
  // Calls of equal lengths, three times: in lazy mode only the first is compiled.
  const auto predicted = [&](RunMode mode, bool keep) {
    auto context = make_context({.threads = 1});
    OnDevice on(context, recorded,
                {.mode = mode, .predict = &neuroncore::predict_time, .keep_record = keep});
    const Tensor x = Tensor::full(context, {256, 256}, 0.5f);
    double of_reports = 0;
    on.device().after_program([&](std::string_view) {
      if (!keep) of_reports += neuroncore::report(on.device().core()).ns();
    });
    for (int i = 0; i < 3; ++i) {
      Tape tape(context, {.record = false});
      const Var a = tape.constant(x), sum = add(tape, matmul(tape, a, a), a);
      on.device().mark_step();
      CHECK(sum.value().data<float>()[0] == 64.5f);
    }
    const PredictedTime time = on.device().runs().predicted;
    if (!keep) {
      CHECK(on.device().core().recorded().empty());
      CHECK(std::fabs(time.ns / of_reports - 1) < 1e-12);
    }
    for (const double busy : time.busy_ns) CHECK((busy >= 0 && busy <= time.ns));
    CHECK(time.busy_ns[static_cast<std::size_t>(neuroncore::Engine::tensor)] > 0);
    CHECK(time.busy_ns[static_cast<std::size_t>(neuroncore::Engine::dma)] > 0);
    return time;
  };
  for (const RunMode mode : {RunMode::eager, RunMode::jit, RunMode::lazy}) {
    INFO(static_cast<int>(mode));
    CHECK(std::fabs(predicted(mode, true).ns / predicted(mode, false).ns - 1) < 1e-12);
  }
  const double eager = predicted(RunMode::eager, false).ns;
  CHECK(std::fabs(predicted(RunMode::jit, false).ns / eager - 1) < 1e-12);
  CHECK(predicted(RunMode::lazy, false).ns < eager);
}

TEST_CASE("a factor of gradients is part of a key only by whether it is 1", "[unit]") {
  neuroncore::CoreOptions recorded = strict;
  recorded.record = true;  // instructions of one key are compared
  auto context = make_context({.threads = 1});
  OnDevice on(context, recorded, {.mode = RunMode::lazy});
  const Tensor weight = Tensor::full(context, {128, 4}, 1.0f);
  const Tensor gradient = Tensor::full(context, {128, 4}, 1.0f);
  const auto compiled = [&](float factor) {
    const SgdSetting setting{.rate = 0.5f, .gradient_factor = factor};
    (void)run(context, *context.built_in().sgd_step, setting, {weight, gradient});
    on.device().mark_step();
    return on.device().executables().compilations();
  };
  CHECK(compiled(1) == 1);
  CHECK(compiled(0.5f) == 2);  // a multiplication more
  CHECK(compiled(0.25f) == 2);
  CHECK(compiled(1) == 2);
  CHECK(weight.data<float>()[0] == 1 - 0.5f - 0.25f - 0.125f - 0.5f);
}

TEST_CASE("numbers for event files are of a step, counts of all that ran", "[unit]") {
  neuroncore::CoreOptions recorded = strict;
  recorded.record = true;
  auto context = make_context({.threads = 1});
  OnDevice on(context, recorded, {.mode = RunMode::lazy, .predict = &neuroncore::predict_time});
  const Tensor x = Tensor::full(context, {128, 64}, 0.5f);
  DeviceScalars scalars(on.device());
  const auto ran = [&](bool skipped) {
    Tape tape(context, {.record = false});
    const Var sum = add(tape, tape.constant(x), tape.constant(x));
    on.device().mark_step();
    if (skipped) scalars.skip();
    std::map<std::string, double> written;
    scalars.write([&](const std::string& name, double value) { written[name] = value; });
    return written;
  };
  const auto first = ran(false), second = ran(false), third = ran(true);
  CHECK(first.at("device/launches") == 1);
  CHECK(first.at("device/compilations") == 1);
  CHECK(first.at("device/hits") == 0);
  CHECK(second.at("device/hits") == 1);
  CHECK(second.at("device/cuts") == 2);
  CHECK(first.at("device/predicted_ms") > 0);
  CHECK(std::fabs(second.at("device/predicted_ms") / first.at("device/predicted_ms") - 1) < 1e-9);
  CHECK(first.at("device/busy/dma") > 0);
  CHECK(first.at("device/busy/dma") <= 1);
  CHECK(third.count("device/predicted_ms") == 0);
  CHECK(third.at("device/launches") == 3);
}

TEST_CASE("a run publishes how busy the engines of its core are predicted to be", "[unit]") {
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "soma_engines.XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  {
    train::StatusPublisher page("test", "none", folder);
    PredictedTime so_far{.ns = 1000, .busy_ns = {900, 0, 0, 0, 100}};  // before the run began
    page.show_engines([&] { return so_far; });
    page.on_start({});
    const auto later = [&] {
      const timespec pause{0, 210'000'000};  // pages are written every 0.2 s at most
      ::nanosleep(&pause, nullptr);
      page.on_step({.step = 1});
      const RunsFound found = runs_in(folder);
      REQUIRE(found.runs.size() == 1);
      return found.runs[0];
    };
    so_far += {.ns = 200, .busy_ns = {100, 50, 20, 0, 150}};
    const RunStatus engines = later();
    CHECK(engines.predicted == 1);
    REQUIRE(engines.busy_count == neuroncore::engine_count);
    CHECK(engines.busy[0] == 0.5);
    CHECK(engines.busy[1] == 0.25);
    CHECK(engines.busy[4] == 0.75);
    // Nothing ran on the core meanwhile: threads are shown.
    CHECK(later().predicted == 0);
  }
  fs::remove_all(folder);
}
