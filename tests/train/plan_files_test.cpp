// Plans of trainings: cuts against brute force, limits, the decision file, bits that do not depend
// on the plan.

#include <soma/io/record_json.hpp>
#include <soma/pipeline.hpp>

#include "support/errors.hpp"
#include "train/small_run.hpp"

#include "catch.hpp"

#include <soma/parallel/in_process.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using namespace soma;
using soma_test::id_of;

namespace {

// Pieces of random sizes and times, for batches in up to 4 parts.
train::PlanCosts random_costs(std::size_t pieces, unsigned seed) {
  std::mt19937 random(seed);
  const auto some = [&](std::uint64_t most) { return 64 * (1 + random() % (most / 64)); };
  std::vector<PieceCost> costs(pieces);
  std::vector<std::vector<train::ParameterMemory>> parameters(pieces);
  std::vector<train::PieceProfile> profiles(pieces);
  for (std::size_t i = 0; i < pieces; ++i) {
    costs[i].name = "piece" + std::to_string(i);
    costs[i].joined = i != 0 && random() % 6 == 0;
    const std::uint64_t bytes = some(1 << 16);
    parameters[i].push_back({bytes, 2 * bytes, Shape{bytes / 64, 16}});
    const std::uint64_t saved = some(1 << 16), result = some(1 << 14);
    const double time = 1e-3 * static_cast<double>(1 + random() % 9);
    for (std::size_t parts = 1; parts <= 4; parts *= 2) {
      train::PieceMemory& size = profiles[i].sizes.emplace_back();
      size.rows = 64 / parts;
      size.saved = size.forward = size.kept = saved / parts;
      size.result = result / parts;
      size.forward_seconds = time / static_cast<double>(parts);
      size.backward_seconds = 2 * size.forward_seconds;
      size.backward = {{.working = size.saved + bytes, .bytes = bytes, .stored = bytes},
                       {.working = size.saved / 2, .gradient = false}};
      size.backward[0].shape = Shape{bytes / 64, 16};
    }
  }
  train::BatchSizes batches{.batches = 1, .shards = 4, .most_rows = {0, 16, 32, 48, 64}};
  train::PlanCosts result(costs, parameters, batches,
                          {.bucket_bytes = 1 << 12, .network = 1e8, .one_machine = false});
  result.set_profiles(profiles, false);
  return result;
}

// A run that is planned, on ranks that are threads.
struct Planned {
  std::string error{}, id{}, layout{}, log{};
  std::uint64_t bits = 0;
  std::size_t from_host = 0;
  train::PlanLayout row{};
  bool measured_again = false;  // by the pipeline's trainer
};

struct PlannedRun {
  int ranks = 2;
  std::uint64_t limit = 0;
  std::string decision{};
  std::size_t batch = 16;
  std::function<void(train::TrainerOptions&)> change{};
  bool planned = true;
};

void run_planned(const PlannedRun& run, Communicator* ranks, Planned& result) {
  auto context =
      make_context({.log = {&result.log,
                            [](void* log, LogLevel level, std::string_view message) {
                              if (level >= LogLevel::warning)
                                static_cast<std::string*>(log)->append(message).append("\n");
                            }},
                    .threads = 1});
  nn::Later later;
  models::BertConfig config = soma_test::small_config();
  config.layers = 3;
  const models::BertClassifier model(nn::Scope{context, 7, "", &later}, config, 2);
  nn::ClassificationTask task(model, 2);
  data::TokenSource source(context, soma_test::token_lists(48),
                           {.batch_sequences = run.batch, .seed = 3});
  train::TrainerOptions options{
      .max_steps = 3, .learning_rate = 1e-3, .seed = 5, .communicator = ranks};
  options.pipeline.memory_limit = run.limit;
  options.pipeline.decision = run.decision;
  options.pipeline.later = &later;
  if (run.change) run.change(options);
  if (run.planned) result.layout = train::choose_plan(context, task, source, options);
  result.row = {.partitions = options.pipeline.partitions,
                .microbatches = options.pipeline.microbatches};
  if (options.pipeline.partitions == 1 && options.pipeline.microbatches == 1) {
    later.make(context, task.parameters());
    options.pipeline = {};
    train::TrainerBase(context, task, options).fit(source);
  } else {
    train::PipelineTrainer trainer(context, task, options);
    trainer.fit(source);
    if (!options.pipeline.decided.empty()) {
      // Times that were measured twice are never equal.
      const PipelinePlan decided =
          plan_from_record(record_from_json(options.pipeline.decided, "decision"), trainer.plan());
      for (std::size_t i = 0; i < decided.pieces.size(); ++i)
        result.measured_again |=
            decided.pieces[i].backward_seconds != trainer.plan().pieces[i].backward_seconds;
    }
    result.from_host = context.memory_use().peak_bytes;
    trainer.gather(true);
  }
  if (result.from_host == 0) result.from_host = context.memory_use().peak_bytes;
  result.bits = soma_test::bits_of(context, task.parameters());
}

std::vector<Planned> run_planned(const PlannedRun& run) {
  std::vector<Planned> results(static_cast<std::size_t>(run.ranks));
  if (run.ranks == 1) {
    run_planned(run, nullptr, results[0]);
    return results;
  }
  InProcessGroup group(run.ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < run.ranks; ++rank)
    threads.emplace_back([&, rank] {
      Planned& result = results[static_cast<std::size_t>(rank)];
      try {
        InProcessCommunicator communicator(group, rank);
        communicator.set_time_limit(60);
        run_planned(run, &communicator, result);
      } catch (const Error& error) {
        result.error = error.what();
        result.id = std::string(error.id().name);
      }
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace

TEST_CASE("no other cut has a smaller rank or a faster step", "[unit]") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const std::size_t pieces = 3 + seed % 8;
    const train::PlanCosts costs = random_costs(pieces, seed);
    for (std::size_t partitions = 2; partitions <= 4; ++partitions) {
      const auto all = train::all_cuts(costs.pieces(), partitions, 10000);
      for (const train::Optimize aim : {train::Optimize::memory, train::Optimize::speed}) {
        const train::PlanLayout layout{
            .partitions = partitions, .microbatches = 4, .optimize = aim};
        if (all.empty()) {
          CHECK(id_of([&] { costs.choose(layout, 0); }) == "parallel.plan");
          continue;
        }
        const std::vector<std::size_t> chosen = costs.choose(layout, 0);
        INFO("seed " << seed << ", " << pieces << " pieces, " << partitions << " stages");
        for (const std::vector<std::size_t>& other : all) {
          if (aim == train::Optimize::memory) {
            CHECK(costs.largest(layout, chosen) <= costs.largest(layout, other));
            if (costs.largest(layout, chosen) == costs.largest(layout, other))
              CHECK(costs.sent(layout, chosen) <= costs.sent(layout, other));
          } else {
            CHECK(costs.seconds(layout, chosen) <= costs.seconds(layout, other));
          }
        }
        // The fastest cut within a limit, and the smallest limit.
        const train::PlanLayout small{.partitions = partitions, .microbatches = 4};
        const std::uint64_t least = costs.largest(small, costs.choose(small, 0));
        CHECK(costs.largest(small, costs.choose(small, least)) == least);
        CHECK(id_of([&] { costs.choose(small, least - 1); }) == "parallel.plan");
      }
    }
  }
}

TEST_CASE("a step takes the seconds of its pieces, sums, exchange and optimizer", "[unit]") {
  // Two pieces. A whole batch takes each 1 s forward and 2 s backward, a part of it a part of that.
  const auto seconds = [](const train::PlanLayout& layout, const train::PlanBasis& basis) {
    std::vector<PieceCost> costs(2);
    std::vector<std::vector<train::ParameterMemory>> parameters(2);
    std::vector<train::PieceProfile> profiles(2);
    for (std::size_t i = 0; i < 2; ++i) {
      costs[i].name = "piece" + std::to_string(i);
      parameters[i].push_back({1000, 2000, Shape{250}});  // value, moments
      for (std::size_t parts = 1; parts <= 4; parts *= 2) {
        train::PieceMemory& size = profiles[i].sizes.emplace_back();
        size.rows = 64 / parts;
        size.result = 500 / parts;
        size.forward_seconds = 1.0 / static_cast<double>(parts);
        size.backward_seconds = 2.0 / static_cast<double>(parts);
        size.backward = {{.bytes = 1000, .stored = 1000, .shape = Shape{250}}};
      }
    }
    const train::BatchSizes batches{.batches = 1, .shards = 4, .most_rows = {0, 16, 32, 48, 64}};
    train::PlanCosts result(costs, parameters, batches, basis);
    result.set_profiles(profiles, false);
    const std::vector<std::size_t> cuts(layout.partitions - 1, 1);
    return result.seconds(layout, cuts);
  };
  const auto is = [](double expected) { return Catch::Matchers::WithinRel(expected, 1e-12); };
  const train::PlanBasis basis{
      .bucket_bytes = 100, .network = 1e3, .memory = 1e4, .one_machine = false};
  // The optimizer reads and writes 7000 bytes of each piece.
  CHECK_THAT(seconds({}, basis), is(6 + 1.4));
  // The second batch's 2000 bytes of gradients are read, added and written.
  train::PlanBasis two_batches = basis;
  two_batches.accumulate = 2;
  CHECK_THAT(seconds({}, two_batches), is(12 + 0.6 + 1.4));
  // The 2 s of an exchange are behind the backward's 2 s, but for the last bucket.
  const train::PlanLayout replicas{.replicas = 2};
  CHECK_THAT(seconds(replicas, basis), is(3 + 1.4 + 0.2));
  CHECK_THAT(seconds({.replicas = 2, .shard_optimizer = true}, basis), is(3 + 0.7 + 0.2));
  train::PlanBasis slow = basis;
  slow.network = 500;
  CHECK_THAT(seconds(replicas, slow), is(3 + 1.4 + 2));
  // Cores that are idle hide an exchange within a machine, busy ones do not, and ranks share them.
  train::PlanBasis machine = basis;
  machine.one_machine = true;
  machine.cores = 4;
  CHECK_THAT(seconds(replicas, machine), is(3 + 1.4 + 0.2));
  machine.cores = 2;
  CHECK_THAT(seconds(replicas, machine), is(3 + 1.4 + 2));
  machine.cores = 1;
  CHECK_THAT(seconds(replicas, machine), is(2 * (3 + 1.4)));
  // Two stages: forwards to 1.75 s with a message of 0.25 s, the last stage's backwards of 1.15 s
  // to 4.05 s, one more of the first stage behind another message.
  CHECK_THAT(
      seconds({.partitions = 2, .microbatches = 2, .schedule = train::Pipeline::simple}, basis),
      is(1.75 + 2 * 1.15 + 0.25 + 1.15 + 0.7));
}

TEST_CASE("a plan changes no bit", "[unit]") {
  const std::uint64_t alone = run_planned({.ranks = 1, .planned = false}).front().bits;
  for (const int ranks : {1, 2, 4})
    for (const Planned& rank : run_planned({.ranks = ranks})) {
      REQUIRE(rank.error == "");
      INFO(rank.layout);
      CHECK(rank.bits == alone);
    }
}

TEST_CASE("a plan is held to its limit", "[unit]") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  SOMA_TEST_SKIP("a sanitizer keeps memory of its own beside the heap, more with every call.");
#endif
  const std::uint64_t alone = run_planned({.ranks = 1, .planned = false}).front().bits;
  // The refusal names the smallest limit; one mebibyte less is refused too.
  const std::vector<Planned> refused = run_planned({.limit = 1000});
  REQUIRE(refused[0].id == "parallel.plan");
  CHECK(refused[1].id == "parallel.rank_lost");
  const std::size_t at = refused[0].error.find("at least ");
  REQUIRE(at != std::string::npos);
  // Memory beside the heap differs a little from call to call.
  const std::uint64_t least = std::stoull(refused[0].error.substr(at + 9));
  constexpr std::uint64_t mebibyte = 1 << 20;
  CHECK(run_planned({.limit = least - 4 * mebibyte})[0].id == "parallel.plan");
  const std::vector<Planned> held = run_planned({.limit = least + 4 * mebibyte});
  for (const Planned& rank : held) {
    REQUIRE(rank.error == "");
    CHECK(rank.bits == alone);
    CHECK(rank.from_host < least);
  }
  CHECK_FALSE(held[0].measured_again);
}

TEST_CASE("a decision is made anew when what it depends on changes", "[unit]") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("soma_plan_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string file = (folder / "cut.json").string();
  const auto read = [&] {
    std::ifstream stream(file);
    std::stringstream text;
    text << stream.rdbuf();
    return text.str();
  };
  const auto stages = [](train::TrainerOptions& options) {
    options.pipeline.partitions = 2;
    options.pipeline.microbatches = 2;
  };
  const auto run_with = [&](const std::function<void(train::TrainerOptions&)>& change,
                            std::size_t batch = 16) {
    const std::vector<Planned> ranks = run_planned({.decision = file,
                                                    .batch = batch,
                                                    .change =
                                                        [&](train::TrainerOptions& options) {
                                                          stages(options);
                                                          change(options);
                                                        },
                                                    .planned = false});
    REQUIRE(ranks[0].error == "");
    return ranks[0].log;
  };
  struct Change {
    std::string name;
    std::function<void(train::TrainerOptions&)> change;
    std::size_t batch = 16;
  };
  const std::vector<Change> changes = {
      {"optimize", [](auto& o) { o.pipeline.optimize = train::Optimize::speed; }},
      {"schedule", [](auto& o) { o.pipeline.schedule = train::Pipeline::simple; }},
      {"microbatches", [](auto& o) { o.pipeline.microbatches = 4; }},
      {"memory_limit", [](auto& o) { o.pipeline.memory_limit = std::uint64_t{1} << 40; }},
      {"network", [](auto& o) { o.pipeline.network = 1e9; }},
      {"accumulate", [](auto& o) { o.accumulate = 2; }},
      {"precision", [](auto& o) { o.precision = Precision::bf16_sr(); }},
      {"moment_bytes", [](auto& o) { o.precision = Precision::bf16_sr(); }},
      {"shard_optimizer", [](auto& o) { o.shard_optimizer = true; }},
      {"evaluates_between", [](auto& o) { o.evaluate_every = 2; }},
      {"average", [](auto& o) { o.average = train::AverageOptions{.decay = 0.9}; }},
      {"keeps_best", [](auto& o) { o.keep_best = true; }},
      {"lengths", [](auto&) {}, 8},
  };
  CHECK(run_with([](auto&) {}).empty());
  const std::string first = read();
  CHECK(run_with([](auto&) {}).empty());
  CHECK(read() == first);  // used as it is
  // As choose_plan() gives it to the trainer: without a file.
  const std::vector<Planned> decided = run_planned({.change =
                                                        [&](train::TrainerOptions& options) {
                                                          stages(options);
                                                          options.pipeline.decided = first;
                                                        },
                                                    .planned = false});
  REQUIRE(decided[0].error == "");
  CHECK(decided[0].log.empty());
  CHECK_FALSE(decided[0].measured_again);
  for (const Change& change : changes) {
    std::ofstream(file) << first;
    const std::string log = run_with(change.change, change.batch);
    INFO(change.name << ": " << log);
    CHECK(log.find(change.name) != std::string::npos);
    CHECK(log.find("made anew") != std::string::npos);
    CHECK(read() != first);
    CHECK(run_with(change.change, change.batch).empty());
  }
  // A planned layout is kept in the file, too.
  std::filesystem::remove(file);
  const PlannedRun planned{.decision = file};
  const std::vector<Planned> made = run_planned(planned);
  REQUIRE(made[0].error == "");
  const std::string kept = read();
  const std::vector<Planned> again = run_planned(planned);
  CHECK(again[0].log.empty());
  CHECK(again[0].layout == made[0].layout);
  CHECK(read() == kept);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a table marks rows and says why rows cannot be used", "[unit]") {
  auto context = make_context({.threads = 1});
  soma_test::SmallModel small(context);
  data::TokenSource source(context, soma_test::token_lists(48),
                           {.batch_sequences = 16, .shuffle = false, .shards = 4});
  const std::uint64_t before = soma_test::bits_of(context, small.task.parameters());
  const train::PlanTable table =
      train::plan(context, small.task, source, {.max_steps = 2}, {.ranks = 8});
  CHECK(soma_test::bits_of(context, small.task.parameters()) == before);
  CHECK(source.position() == data::Position{});
  REQUIRE(table.best != train::PlanTable::none);
  bool few_pieces = false, few_shards = false;
  for (const train::PlanRow& row : table.rows) {
    few_pieces |= row.reason.find("pieces") != std::string::npos;
    few_shards |= row.reason.find("shards") != std::string::npos;
    if (!row.reason.empty()) continue;
    CHECK(row.bytes > 0);
    CHECK(row.seconds >= table.rows[table.best].seconds);
    CHECK(row.bytes >= table.rows[table.smallest].bytes);
  }
  CHECK(few_pieces);
  CHECK(few_shards);
  const std::uint64_t limit = table.rows[table.smallest].bytes;
  train::PlanTable limited = table;
  for (train::PlanRow& row : limited.rows)
    if (row.reason.empty() && row.bytes > limit) row.reason = "above the limit";
  limited.mark();
  CHECK(limited.rows[limited.best].bytes == limit);
  CHECK(to_string(table).find("fastest") != std::string::npos);
}
