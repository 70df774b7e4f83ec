// A training run on the NeuronCore model in each of its run modes: same weights, fewer launches.

#include <soma/data/bucketed_source.hpp>
#include <soma/neuroncore_clock.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/train/callbacks/status_publisher.hpp>

#include "train/small_run.hpp"

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/on_device.hpp"
#include "support/table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>
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
  std::vector<train::StepInfo> steps;
  std::uint64_t hits = 0, compilations = 0, evicted = 0;  // to the end of the run
  std::vector<GraphMiss> misses;
  std::vector<Executable> executables;
};

class Watch final : public train::Callback {
 public:
  Watch(Run& run, NeuronCoreDevice& device) : run_(run), device_(device) {}
  void on_step(const train::StepInfo& step) override {
    run_.steps.push_back(step);
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
  bool stop_at_non_finite = false;
  std::size_t batch = 8;
  std::vector<std::size_t> buckets{};  // lengths are rounded up to these
  std::uint64_t steps = 30;
  double clip = 1;
  CheckpointStore* store = nullptr;
  std::uint64_t stop_after = 0;  // 0: not before the end
  bool resume = false;
};

Run train_small(const Precision& precision, const How& how) {
  auto context = make_context({.threads = how.threads});
  OnDevice on(context, how.core,
              {.mode = how.mode,
               .compile = how.ahead.empty(),
               .stop_at_non_finite = how.stop_at_non_finite});
  for (const Executable& executable : how.ahead) on.device().executables().add(executable);
  Run run;
  SmallModel small(context);
  data::TokenSource source(context, token_lists(160, how.ragged ? 0 : 9),
                           {.batch_sequences = how.batch, .shuffle = true, .seed = 3});
  train::TrainerOptions options{.epochs = 2,
                                .max_steps = how.steps,
                                .learning_rate = 2e-3,
                                .schedule = {.decay = optim::Decay::linear, .warmup = 3},
                                .seed = 5,
                                .precision = precision};
  options.clip = how.clip;
  options.checkpoints = how.store;
  options.resume = how.resume;
  train::Trainer trainer(context, small.task, options);
  Watch watch(run, on.device());
  Follower follower(how.stop_after);
  trainer.add(watch);
  trainer.add(follower);
  if (how.buckets.empty()) {
    trainer.fit(source, nullptr, &follower.stop);
  } else {
    data::BucketedSource bucketed(context, source, how.buckets);
    trainer.fit(bucketed, nullptr, &follower.stop);
  }
  run.bits = bits_of(context, small.task.parameters());
  run.runs = on.device().runs();
  const ExecutableCache& cache = on.device().executables();
  run.misses = cache.misses();
  run.hits = cache.hits();
  run.compilations = cache.compilations();
  run.evicted = cache.evicted();
  run.executables.assign(cache.executables().begin(), cache.executables().end());
  for (const NeuronCoreDevice::Count& count : on.device().counts()) run.operators += count.programs;
  return run;
}

}  // namespace

// Compiled ahead of time, by a dry run.
std::vector<Executable> ahead_of_time(const Precision& precision, How how) {
  how.mode = RunMode::lazy;
  how.core.compute = false;
  how.core.record = true;
  return train_small(precision, how).executables;
}

static void bits_over_modes(Table table) {
  for (const Precision& precision :
       entries(table, {Precision::bf16_sr()}, {Precision::fp32(), Precision::bf16_sr()})) {
    INFO(precision.name);
    const Run eager = train_small(precision, {});
    CHECK(eager.runs.launches == eager.operators);
    const std::vector<Executable> ahead = ahead_of_time(precision, {});
    REQUIRE_FALSE(ahead.empty());
    const auto check = [&](How how) {
      INFO("mode " << static_cast<int>(how.mode) << ", " << how.threads << " threads, ahead "
                   << how.ahead.size() << ", late " << how.core.dma_stress_seed);
      const Run run = train_small(precision, how);
      CHECK(run.bits == eager.bits);
      if (!how.ahead.empty()) CHECK(run.compilations == 0);
    };
    check({.mode = RunMode::jit});
    check({.mode = RunMode::lazy});
    check({.mode = RunMode::eager, .threads = 2, .core = stressed(13)});
    check({.mode = RunMode::jit, .threads = 2, .core = stressed(12)});
    check({.mode = RunMode::lazy, .threads = 7, .core = stressed(11)});
    check({.mode = RunMode::lazy, .ahead = ahead, .threads = 2, .core = stressed(10)});
  }
}

TEST_CASE("weights do not depend on the run mode, on threads or on late transfers",
          "[unit][invariance]") {
  bits_over_modes(Table::part);
}
TEST_CASE("weights do not depend on the run mode, on threads or on late transfers: all",
          "[slow][invariance]") {
  bits_over_modes(Table::whole);
}

TEST_CASE("a run goes on in another mode with the same bits", "[unit][invariance]") {
  struct Way {
    RunMode mode;
    bool ahead = false;
  };
  constexpr Way eager{RunMode::eager}, jit{RunMode::jit}, lazy{RunMode::lazy},
      compiled{RunMode::lazy, true};
  const auto check = [&](const Precision& precision, bool ragged,
                         std::initializer_list<std::pair<Way, Way>> ways) {
    const How usual{.ragged = ragged, .steps = 12};
    const std::uint64_t whole = train_small(precision, usual).bits;
    for (const auto& [first, second] : ways) {
      INFO(precision.name << ": " << static_cast<int>(first.mode) << " to "
                          << static_cast<int>(second.mode));
      auto context = make_context({.threads = 1});
      MemoryStore store(context);
      const auto run = [&](const Way& way, bool resume) {
        How how = usual;
        how.mode = way.mode;
        if (way.ahead) how.ahead = ahead_of_time(precision, usual);
        how.store = &store;
        how.stop_after = resume ? 0 : 5;
        how.resume = resume;
        return train_small(precision, how);
      };
      CHECK(run(first, false).steps.size() == 5);
      const Run resumed = run(second, true);
      CHECK(resumed.steps.size() == 7);
      CHECK(resumed.bits == whole);
    }
  };
  check(Precision::bf16_sr(), true, {{eager, lazy}, {lazy, jit}});
  // A run that goes on begins with the graph of a first step: those of a dry run hold it where all
  // lengths are equal and no weights have to be cast.
  check(Precision::fp32(), false, {{jit, compiled}, {compiled, eager}});
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

  // Ragged lengths: each graph is compiled once.
  const Run ragged = train_small(Precision::fp32(), {.mode = RunMode::lazy});
  std::set<std::string> keys;
  for (const Executable& executable : ragged.executables) keys.insert(executable.key.bytes());
  CHECK(ragged.evicted == 0);
  CHECK(ragged.compilations == keys.size());
  CHECK(ragged.hits + keys.size() == ragged.runs.launches - ragged.runs.apart);
  CHECK(keys.size() > fixed.compilations);
}

TEST_CASE("lengths that are rounded up need a graph for each length, and give the same losses",
          "[unit]") {
  const std::vector<std::size_t> buckets{8, 11, 15};
  // No clipping: programs leave the factor out where it is 1, which is a graph of its own.
  How how{.mode = RunMode::lazy, .batch = 2, .clip = 0};
  const Run ragged = train_small(Precision::fp32(), how);
  how.buckets = buckets;
  const Run bucketed = train_small(Precision::fp32(), how);
  std::set<std::size_t> used;
  for (const train::StepInfo& step : bucketed.steps)
    used.insert(*std::lower_bound(buckets.begin(), buckets.end(), step.longest));
  REQUIRE(used.size() == buckets.size());
  // The graphs of a step, once for each length. The forward graph begins with the optimizer's step
  // before it: the first one has none, and the last optimizer's step is a graph by itself.
  how.buckets = {15};
  const Run equal = train_small(Precision::fp32(), how);
  CHECK(equal.compilations > 2);
  CHECK(bucketed.compilations - 2 == used.size() * (equal.compilations - 2));
  CHECK(bucketed.compilations < ragged.compilations / 2);
  REQUIRE(bucketed.steps.size() == ragged.steps.size());
  for (std::size_t i = 0; i < ragged.steps.size(); ++i) {
    INFO("step " << i);
    CHECK(bucketed.steps[i].tokens == ragged.steps[i].tokens);
    // Sums over rows are cut elsewhere, which is a few roundings of 2^-24 a step.
    CHECK(std::abs(bucketed.steps[i].loss - ragged.steps[i].loss) <= 1e-5);
  }
}

TEST_CASE("a run whose numbers are finite is the same while they are looked at", "[unit]") {
  const How how{.stop_at_non_finite = true, .steps = 5};
  for (const Precision& precision : {Precision::fp32(), Precision::bf16_sr()}) {
    const Run watched = train_small(precision, how);
    CHECK(watched.bits == train_small(precision, {.steps = 5}).bits);
    CHECK(watched.runs.launches == watched.operators);
  }
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
    page.show_engines([&] { return so_far; }, [] { return std::uint64_t{4096}; });
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
    CHECK(engines.device_bytes == 4096);
    // Nothing ran on the core meanwhile: threads are shown.
    CHECK(later().predicted == 0);
  }
  fs::remove_all(folder);
}
