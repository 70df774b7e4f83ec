// These tests check that a run that is asked to stop notices it wherever it is, loses nothing that
// it learnt, and goes on later as if nothing had happened.

#include <soma/data/token_source.hpp>
#include <soma/soma.hpp>
#include <soma/train/trainer.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "train/parallel_run.hpp"
#include "train/small_run.hpp"
#include "train/trainer_run.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace soma;
using namespace soma_test;
using train::Trainer;
using train::TrainerOptions;

namespace {

// Calls the host before each batch.
class WatchedSource final : public data::BatchSource {
 public:
  WatchedSource(data::BatchSource& inner, std::function<void()> before)
      : inner_(inner), before_(std::move(before)) {}
  bool next(data::Batch& batch) override {
    before_();
    return inner_.next(batch);
  }
  data::Position position() const override { return inner_.position(); }
  void seek(data::Position position) override { inner_.seek(position); }
  std::uint64_t batches(std::uint64_t epoch) const override { return inner_.batches(epoch); }
  std::uint64_t hash() const override { return inner_.hash(); }
  void describe(Record& record) const override { inner_.describe(record); }
  std::size_t largest_rows() const override { return inner_.largest_rows(); }
  std::size_t largest_sequences() const override { return inner_.largest_sequences(); }

 private:
  data::BatchSource& inner_;
  std::function<void()> before_;
};

// Remembers what it is told, and can throw or ask for a checkpoint at a step.
struct Recorder final : train::Callback {
  void on_step(const train::StepInfo& step) override {
    if (step.step == throws_at) throw std::runtime_error("no room for the log");
    if (step.step == saves_at) save_run();
  }
  void on_evaluation(const train::EvaluationInfo& info) override {
    evaluations.push_back(std::to_string(info.step) + " " + std::to_string(info.loss) +
                          (info.best ? " best" : ""));
  }
  void on_checkpoint(std::uint64_t step) override { checkpoints.push_back(step); }
  std::uint64_t throws_at = 0, saves_at = 0;
  std::vector<std::string> evaluations{};
  std::vector<std::uint64_t> checkpoints{};
};

struct Stopped {
  std::uint64_t bits = 0;
  train::Report report{};
};

// Fits once; `stop_at`: the batch of an evaluation, from 1 and over all evaluations, before which
// the stop is requested.
Stopped fit(Context& context, const TrainerOptions& options, Recorder& recorder,
            std::uint64_t stop_at) {
  SmallModel small(context);
  data::TokenSource source(context, token_lists(160), batching());
  data::TokenSource rows(context, token_lists(64), {.batch_sequences = 32, .shuffle = false});
  train::StopFlag stop;
  std::uint64_t batches = 0;
  WatchedSource held_out(rows, [&] {
    if (++batches == stop_at) stop.request();
  });
  Trainer trainer(context, small.task, options);
  trainer.add(recorder);
  Stopped result;
  result.report = trainer.fit(source, &held_out, &stop);
  result.bits = bits_of(context, small.task.parameters());
  return result;
}

}  // namespace

TEST_CASE("an evaluation that is cut short counts for nothing, and is made again", "[unit]") {
  auto context = make_context();
  for (const std::uint64_t every : {0, 7, 10}) {
    INFO("evaluate_every " << every);
    TrainerOptions options = options_of();
    options.evaluate_every = every;
    options.keep_best = true;
    options.best_metric = "accuracy";
    Recorder whole;
    const Stopped wanted = fit(context, options, whole, 0);
    // An evaluation asks three times: for two batches and for the end.
    for (std::uint64_t stop_at = 1; stop_at <= 3 * whole.evaluations.size(); ++stop_at) {
      if (stop_at % 3 == 0) continue;  // behind the last batch nothing is left to cut
      MemoryStore store(context);
      options.checkpoints = &store;
      options.resume = false;
      Recorder recorder;
      const Stopped cut = fit(context, options, recorder, stop_at);
      // Before its first batch an evaluation notices at once; before its second, behind that one.
      REQUIRE(cut.report.interrupted);
      REQUIRE(recorder.evaluations.size() == (stop_at - 1) / 3);
      REQUIRE(recorder.checkpoints == std::vector<std::uint64_t>{cut.report.steps});
      options.resume = true;
      const Stopped rest = fit(context, options, recorder, 0);
      REQUIRE(!rest.report.interrupted);
      REQUIRE(recorder.evaluations == whole.evaluations);
      REQUIRE(rest.bits == wanted.bits);
    }
    options.checkpoints = nullptr;
    options.resume = false;
  }
}

TEST_CASE("all steps made and the last evaluation cut: the run is complete", "[unit]") {
  auto context = make_context();
  TrainerOptions options = options_of();
  options.epochs = 1;
  Recorder recorder;
  const train::Report report = fit(context, options, recorder, 1).report;
  REQUIRE((report.interrupted && report.complete && !report.evaluated));
  options.epochs = 2;
  REQUIRE_FALSE(fit(context, options, recorder, 1).report.complete);
}

TEST_CASE("what a callback throws comes behind a checkpoint", "[unit]") {
  auto context = make_context();
  const TrainerOptions plain = options_of();
  const std::uint64_t wanted = run_whole(context, plain).bits;
  for (const std::uint64_t step : {1, 17, 30}) {
    MemoryStore store(context);
    TrainerOptions options = plain;
    options.checkpoints = &store;
    Recorder recorder;
    recorder.throws_at = step;
    REQUIRE_THROWS_AS(fit(context, options, recorder, 0), std::runtime_error);
    REQUIRE(recorder.checkpoints == std::vector<std::uint64_t>{step});
    options.resume = true;
    Recorder rest;
    REQUIRE(fit(context, options, rest, 0).bits == wanted);
  }
}

TEST_CASE("a callback can ask for a checkpoint", "[unit]") {
  auto context = make_context();
  MemoryStore store(context);
  TrainerOptions options = options_of();
  Recorder recorder;
  recorder.saves_at = 4;
  REQUIRE_FALSE(fit(context, options, recorder, 0).report.interrupted);
  REQUIRE(recorder.checkpoints.empty());  // there is no store
  options.checkpoints = &store;
  REQUIRE_FALSE(fit(context, options, recorder, 0).report.interrupted);
  REQUIRE(recorder.checkpoints == std::vector<std::uint64_t>{4, 30});
}

TEST_CASE("a stop while a batch is read keeps the last whole step", "[unit]") {
  auto context = make_context();
  for (const std::size_t accumulate : {1u, 3u}) {
    TrainerOptions options = options_of();
    options.accumulate = accumulate;
    const std::uint64_t wanted = run_whole(context, options).bits;
    for (const std::uint64_t batch : {1, 8, 12, 32}) {
      MemoryStore store(context);
      options.checkpoints = &store;
      options.resume = false;
      SmallModel small(context);
      data::TokenSource source(context, token_lists(160), batching());
      train::StopFlag stop;
      std::uint64_t batches = 0;
      WatchedSource slow(source, [&] {
        if (++batches != batch) return;
        stop.request();
        check_stop(&stop, "a file");
      });
      Trainer trainer(context, small.task, options);
      const train::Report report = trainer.fit(slow, nullptr, &stop);
      REQUIRE(report.interrupted);
      options.resume = true;
      Run rest = run_whole(context, options);
      REQUIRE(rest.bits == wanted);
      REQUIRE(rest.report.first_step == report.steps);
    }
    options.checkpoints = nullptr;
    options.resume = false;
  }
}

TEST_CASE("ranks cut an evaluation and stop reading at the same batch", "[unit]") {
  auto context = make_context();
  ParallelRun run;
  run.options = options_of();
  run.options.evaluate_every = 4;
  run.ranks = 2;
  run.evaluate = true;
  const std::uint64_t wanted = run_ranks(run).front().bits;
  MemoryStore store(context);
  run.store = &store;
  // The stop comes in the step before an evaluation: it is cut before its first batch.
  run.stop_after = 4;
  for (const RankRun& rank : run_ranks(run)) {
    REQUIRE(rank.error.empty());
    REQUIRE((rank.report.interrupted && rank.report.steps == 4 && !rank.report.evaluated));
  }
  run.stop_after = 0;
  run.options.resume = true;
  for (const RankRun& rank : run_ranks(run)) REQUIRE(rank.bits == wanted);
}

TEST_CASE("a rank that does not answer costs the others the step in hand at most", "[unit]") {
  auto context = make_context();
  MemoryStore store(context);
  ParallelRun run;
  run.options = options_of();
  run.ranks = 2;
  const std::uint64_t wanted = run_ranks(run).front().bits;
  run.store = &store;
  run.options.stop_patience = 0;
  run.stop_after = 5;
  // Rank 1 hangs behind its fifth step until rank 0 has given up.
  std::atomic<bool> over{false};
  run.on_step = [&](int rank, const train::StepInfo& step) {
    if (rank != 1 || step.step != 5) return;
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  InProcessGroup group(2);
  RankRun hanging, first;
  std::string error;
  std::thread other([&] {
    InProcessCommunicator communicator(group, 1);
    try {
      run_rank(run, 1, &communicator);
    } catch (const std::exception&) {
      // It finds the other one gone.
    }
  });
  {
    InProcessCommunicator communicator(group, 0);
    try {
      run_rank(run, 0, &communicator);
    } catch (const Error& stopped) {
      error = stopped.id().name;
    }
    over = true;
  }
  other.join();
  REQUIRE(error == "runtime.stopped");
  run.on_step = {};
  run.stop_after = 0;
  run.options.resume = true;
  for (const RankRun& rank : run_ranks(run)) {
    REQUIRE(rank.report.first_step == 5);
    REQUIRE(rank.bits == wanted);
  }
}

TEST_CASE("before the first step a stop ends the wait for ranks", "[unit]") {
  InProcessGroup group(2);
  InProcessCommunicator communicator(group, 0);
  StopFlag stop;
  communicator.give_up_after(&stop, 0);
  std::thread signal([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop.request();
  });
  REQUIRE(id_of([&] { communicator.barrier(); }) == "runtime.stopped");
  signal.join();
  // And without a flag only the time limit does.
  communicator.give_up_after(nullptr, 0);
  communicator.set_time_limit(0.02);
  REQUIRE(id_of([&] { communicator.barrier(); }) == "parallel.timeout");
}
