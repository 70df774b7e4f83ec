// Random trainings: layers, presets, optimizers, and ways to run them. Every way gives the bits of
// one process: the weights, and each step's loss (docs/scaling.md).

#include <soma/nn.hpp>
#include <soma/parallel/in_process.hpp>
#include <soma/pipeline.hpp>
#include <soma/soma.hpp>
#include <soma/train.hpp>

#include "between/guard.hpp"
#include "between/lines.hpp"
#include "between/model.hpp"
#include "catch.hpp"
#include "train/small_run.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using soma_test::Lines;
using soma_test::NoProgram;
using soma_test::value_in;
using soma_test::Verdict;

struct Trained {
  std::uint64_t bits = 0;
  std::vector<std::pair<std::uint64_t, double>> losses{};  // of steps, then of evaluations
  Verdict verdict{};

  // Losses of the steps behind `step`.
  std::vector<std::pair<std::uint64_t, double>> losses_behind(std::uint64_t step) const {
    std::vector<std::pair<std::uint64_t, double>> behind;
    for (const auto& loss : losses)
      if (loss.first > step) behind.push_back(loss);
    return behind;
  }
};

// "way ranks 2 stages 2 microbatches 2 threads 3 shard resume 2": with stages, each has two ranks.
struct Way {
  explicit Way(const std::string& line = "") {
    const std::vector<std::string> words = soma_test::words_of(line);
    for (std::size_t i = 1; i < words.size(); ++i) {
      const auto number = [&] { return soma_test::number_in(words, i + 1); };
      if (words[i] == "ranks") ranks = number();
      if (words[i] == "stages") stages = number();
      if (words[i] == "microbatches") microbatches = number();
      if (words[i] == "threads") threads = number();
      if (words[i] == "buckets") buckets = number();
      if (words[i] == "resume") resume = number();
      if (words[i] == "shard") shard = true;
      if (words[i] == "recompute") recompute = true;
    }
  }
  std::size_t ranks = 1, stages = 1, microbatches = 1, threads = 1;
  std::size_t buckets = 0;  // bytes; 0: as by default
  std::size_t resume = 0;   // stopped after that many steps, and resumed, also in another way
  bool shard = false, recompute = false;
  bool pipeline() const { return stages > 1 || microbatches > 1; }
  std::size_t all() const { return ranks * stages; }
};

struct Evaluations final : soma::train::Callback {
  void on_evaluation(const soma::train::EvaluationInfo& info) override {
    losses.emplace_back(info.step, info.loss);
  }
  std::vector<std::pair<std::uint64_t, double>> losses;
};

Trained train_rank(const Lines& lines, const Way& way, std::size_t rank,
                   soma::Communicator* communicator, soma_test::MemoryStore* store,
                   std::uint64_t stop_after, bool resume) {
  using namespace soma;
  auto context = make_context({.threads = static_cast<int>(way.threads)});
  // Each rank begins with other weights: those of rank 0 are trained.
  const soma_test::RandomModel model =
      soma_test::model_of(nn::Scope{context, 7 + rank}, lines, way.recompute);
  nn::Sequential layers = model.layers;
  nn::ClassificationTask task(layers, model.classes);
  const auto number = [&](const char* key, const char* value) {
    return static_cast<std::size_t>(std::stoul(value_in(lines, key, value)));
  };
  const std::size_t count = number("samples", "24");
  data::ArraySource source(context, soma_test::inputs_of(context, model, count),
                           soma_test::classes_of(context, model, count),
                           {.batch_sequences = number("batch", "8"), .seed = 3});
  data::ArraySource evaluation(context, soma_test::inputs_of(context, model, 7),
                               soma_test::classes_of(context, model, 7), {.batch_sequences = 4});
  train::TrainerOptions options{
      .epochs = 50,
      .max_steps = number("steps", "3"),
      .accumulate = number("accumulate", "1"),
      .learning_rate = 0.02,
      .clip = value_in(lines, "clip", "0") == "0" ? 0.0 : 0.5,
      .seed = 5,
      .precision = soma_test::precision_in(lines),
      .communicator = communicator,
      .overlap = number("overlap", "1") != 0,
      .shard_optimizer = way.shard,
  };
  if (way.buckets != 0) options.reduce_bucket_bytes = way.buckets;
  const std::string optimizer = value_in(lines, "optimizer", "adamw");
  std::unique_ptr<optim::Optimizer> own;
  if (optimizer != "adamw") own = soma_test::optimizer_of(optimizer, context, task.parameters());
  options.optimizer = own.get();
  options.resume = resume;
  options.evaluate_every = number("evaluate", "0");
  if (rank == 0 || way.shard || way.pipeline()) options.checkpoints = store;
  options.pipeline.partitions = way.stages;
  options.pipeline.microbatches = way.microbatches;
  std::optional<train::PipelineTrainer> pipeline;
  std::optional<train::TrainerBase> plain;
  if (way.pipeline())
    pipeline.emplace(context, task, options);
  else
    plain.emplace(context, task, options);
  train::TrainerBase& trainer = way.pipeline() ? *pipeline : *plain;
  soma_test::Follower follower(rank == 0 ? stop_after : 0);
  Evaluations evaluations;
  trainer.add(follower);
  trainer.add(evaluations);
  trainer.fit(source, options.evaluate_every == 0 ? nullptr : &evaluation, &follower.stop);
  if (pipeline) pipeline->gather(true);
  Trained result;
  result.bits = soma_test::bits_of(context, task.parameters());
  for (const train::StepInfo& step : follower.steps)
    result.losses.emplace_back(step.step, step.loss);
  result.losses.insert(result.losses.end(), evaluations.losses.begin(), evaluations.losses.end());
  return result;
}

// Errors that a rank reports because another one has ended.
bool is_echo(const std::string& id) {
  return id == "parallel.rank_lost" || id == "parallel.aborted" || id == "parallel.timeout";
}

Trained train_all(const Lines& lines, const Way& way, soma_test::MemoryStore* store,
                  std::uint64_t stop_after, bool resume) {
  std::vector<Trained> results(way.all());
  const auto run = [&](std::size_t rank, soma::Communicator* communicator) {
    try {
      results[rank] = train_rank(lines, way, rank, communicator, store, stop_after, resume);
    } catch (const soma::Error& error) {
      results[rank].verdict = soma_test::refused(error, "");
    } catch (const NoProgram& none) {
      results[rank].verdict = {"no program", none.why};
    }
  };
  if (way.all() == 1 && !way.pipeline()) {
    run(0, nullptr);
    return results[0];
  }
  soma::InProcessGroup group(static_cast<int>(way.all()));
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < way.all(); ++rank)
    threads.emplace_back([&, rank] {
      soma::InProcessCommunicator communicator(group, static_cast<int>(rank));
      communicator.set_time_limit(20);
      run(rank, &communicator);
    });
  for (std::thread& thread : threads) thread.join();
  for (const Trained& result : results)
    if (!result.verdict.kind.empty() && !is_echo(result.verdict.id)) return result;
  return results[0];
}

// 30 steps of one batch, without dropout: the loss falls.
Verdict check_fall(Lines lines) {
  std::erase_if(lines, [](const std::string& line) { return line.starts_with("layer drop"); });
  for (std::string& line : lines)  // its dropout goes, too
    if (line.starts_with("layer time_first")) line.replace(0, 16, "layer linear");
  for (const char* line : {"samples 7", "batch 7", "steps 30", "accumulate 1", "evaluate 0"})
    lines.push_back(line);
  const Trained trained = train_all(lines, Way(), nullptr, 0, false);
  if (!trained.verdict.kind.empty()) return trained.verdict;
  const double first = trained.losses.front().second, last = trained.losses.back().second;
  if (last < first || first == 0) return {};  // 0: one class
  return {"falls", "the loss is " + std::to_string(first) + " at first and " +
                       std::to_string(last) + " after 30 steps"};
}

// Runs the program one way: until it is stopped, and on in the way behind "to" (one process).
Trained train_way(const Lines& lines, const std::string& line) {
  const std::size_t to = line.find(" to ");
  const Way way(line.substr(0, to)), then(to == std::string::npos ? "" : line.substr(to));
  if (way.resume == 0) return train_all(lines, way, nullptr, 0, false);
  auto context = soma::make_context({.threads = 1});
  soma_test::MemoryStore store(context);
  const Trained begun = train_all(lines, way, &store, way.resume, false);
  return begun.verdict.kind.empty() ? train_all(lines, then, &store, 0, true) : begun;
}

Verdict check_training(const Lines& lines) {
  const Trained one = train_all(lines, Way(), nullptr, 0, false);
  if (!one.verdict.kind.empty()) {
    Verdict verdict = one.verdict;
    if (verdict.kind != "no program") verdict.kind += " in one process";
    return verdict;
  }
  for (const auto& [step, loss] : one.losses)
    if (!std::isfinite(loss)) return {"loss", "a loss is " + std::to_string(loss)};
  for (const std::string& line : lines) {
    if (line.starts_with("falls")) {
      if (const Verdict verdict = check_fall(lines); !verdict.kind.empty()) return verdict;
    }
    if (!line.starts_with("way")) continue;
    const Trained other = train_way(lines, line);
    if (!other.verdict.kind.empty()) {
      if (soma_test::is_named(other.verdict)) continue;
      Verdict verdict = other.verdict;
      verdict.what = line + ": " + verdict.what;
      return verdict;
    }
    if (other.bits != one.bits) return {"bits", line + " has other weights than one process"};
    // A run that stopped before an evaluation begins again with it.
    const std::size_t resume = Way(line.substr(0, line.find(" to "))).resume;
    if (other.losses_behind(resume) != one.losses_behind(resume))
      return {"losses", line + " has other losses than one process"};
  }
  return {};
}

Lines training(std::uint64_t seed, std::uint32_t number) {
  soma::DrawSequence draws({.seed = seed, .stream = 2, .step = number});
  const auto of = [&](auto... values) {
    const char* const all[] = {values...};
    return std::string(all[draws.below(sizeof...(values))]);
  };
  Lines lines = soma_test::random_layers(draws);
  lines.push_back("precision " + of("fp32", "fp32", "tf32", "bf16", "bf16_sr", "bf16_nearest",
                                    "fp16", "fp8_delayed", "fp8_current", "fp8_rowwise",
                                    "fp8_block", "mxfp8", "mxfp8_up", "mxfp8_trn3", "mxfp6",
                                    "mxfp4", "nvfp4", "cfp8", "mxfp4_rotated", "nvfp4_rotated",
                                    "wide_gradient", "three_formats"));
  const std::string optimizer =
      draws.below(2) == 0 ? "adamw" : of("sgd", "lamb", "adafactor", "rmsprop", "adagrad", "adam");
  lines.push_back("optimizer " + optimizer);
  // The last batch of an epoch may be smaller than the ranks.
  lines.push_back("samples " + of("24", "17", "9", "20"));
  lines.push_back("batch " + of("8", "16", "5", "3", "1"));
  lines.push_back("steps " + of("2", "3", "4"));
  if (draws.below(4) == 0) lines.push_back("accumulate 2");
  if (draws.below(3) == 0) lines.push_back("clip 1");
  if (draws.below(4) == 0) lines.push_back("overlap 0");
  if (draws.below(4) == 0) lines.push_back("evaluate " + of("1", "2"));
  if (draws.below(10) == 0) lines.push_back("falls");
  const bool default_one = optimizer == "adamw";
  const auto topology = [&] {
    const std::uint32_t which = draws.below(default_one ? 7 : 3);
    if (which == 0) return " threads " + of("2", "3", "7");
    if (which == 1) return " ranks " + of("2", "4") + " buckets " + of("64", "1024");
    if (which == 2) return " ranks " + of("2", "4");
    if (which == 3) return " ranks " + of("2", "4") + " shard";
    // Of three or four stages, one may have nothing to step or to differentiate.
    if (which == 4) return " stages " + of("2", "3", "4") + " microbatches " + of("1", "2", "4");
    if (which == 5) return " microbatches " + of("2", "4");
    return " ranks 2 stages " + of("1", "2") + " microbatches " + of("1", "2");
  };
  for (std::uint32_t i = 2; i-- > 0;) {
    std::string way = "way" + topology();
    const bool cut = way.find("stages") != way.npos || way.find("microbatches") != way.npos;
    if (number % 2 == i && !cut) way += " recompute";
    if (draws.below(3) == 0) {
      way += " resume 1";
      if (draws.below(2) == 0) way += " to" + topology();
    }
    lines.push_back(way);
  }
  return lines;
}

std::string run_trainings(std::uint64_t seed, std::uint32_t count) {
  soma_test::Guard guard(60);
  std::string failures;
  int failed = 0;
  for (std::uint32_t i = 0; i < count && failed < soma_test::most_failures(); ++i) {
    const Lines lines = training(seed, i);
    guard.begins(soma_test::text_of(lines));
    const Verdict verdict = check_training(lines);
    if (verdict.kind.empty() || verdict.kind == "no program" || soma_test::is_named(verdict))
      continue;
    ++failed;
    failures += soma_test::failure_text(&check_training, "check_training", lines, verdict);
  }
  return failures;
}

}  // namespace

TEST_CASE("between: 400 trainings of a fixed seed", "[between][fixed][trainings]") {
  CHECK(run_trainings(1, 400) == "");
}

TEST_CASE("between: trainings of today's seed", "[between][slow]") {
  const std::uint64_t seed = soma_test::slow_seed();
  INFO("seed " << seed);
  CHECK(run_trainings(seed, soma_test::slow_programs(6000)) == "");
}
