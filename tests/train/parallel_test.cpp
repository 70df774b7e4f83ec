// Several ranks train what one trains: the same weights, losses and norms, bit by bit.

#include <soma/train/report.hpp>

#include "train/parallel_run.hpp"

#include "catch.hpp"
#include "support/precisions.hpp"
#include "support/table.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace soma;
using namespace soma_test;
using train::TrainerOptions;

namespace {

ParallelRun run_of(const Precision& precision = {}) {
  return {.options = {.epochs = 1, .learning_rate = 2e-3, .seed = 5, .precision = precision}};
}

// All presets and group_recipes().
std::vector<Precision> precisions() {
  std::vector<Precision> all = group_recipes();
  for (const Precision& preset : precision_presets()) all.push_back(preset);
  return all;
}

// Every rank of a run against the one rank of another.
void check_same(const std::vector<RankRun>& ranks, const RankRun& one) {
  REQUIRE(one.error.empty());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    INFO("rank " << rank);
    REQUIRE(ranks[rank].error == "");
    CHECK(ranks[rank].bits == one.bits);
    REQUIRE(ranks[rank].steps.size() == one.steps.size());
    for (std::size_t i = 0; i < one.steps.size(); ++i) {
      const train::StepInfo &mine = ranks[rank].steps[i], &wanted = one.steps[i];
      CHECK(std::bit_cast<std::uint64_t>(mine.loss) == std::bit_cast<std::uint64_t>(wanted.loss));
      CHECK(std::bit_cast<std::uint64_t>(mine.gradient_norm) ==
            std::bit_cast<std::uint64_t>(wanted.gradient_norm));
      CHECK(mine.correct == wanted.correct);
      CHECK(mine.sequences == wanted.sequences);
      CHECK(mine.tokens == wanted.tokens);
      CHECK(mine.skipped == wanted.skipped);
    }
  }
}

}  // namespace

TEST_CASE("ranks end with the weights of one, in every precision", "[unit]") {
  for (const Precision& precision : precisions()) {
    ParallelRun run = run_of(precision);
    const RankRun one = run_ranks(run).front();
    for (const int ranks : {1, 2, 4, 8}) {
      INFO(precision.name << " on " << ranks << " ranks");
      run.ranks = ranks;
      check_same(run_ranks(run), one);
    }
  }
}

TEST_CASE("ranks and threads mixed, buckets of any size, overlap or not, sharded moments or not",
          "[unit]") {
  for (const Precision& precision :
       {Precision::fp32(), Precision::bf16_sr(), Precision::fp8_current()}) {
    ParallelRun run = run_of(precision);
    const RankRun one = run_ranks(run).front();
    for (const int ranks : {2, 4})
      for (const bool overlap : {false, true})
        for (const bool sharded : {false, true})
          for (const std::size_t bucket :
               {std::size_t{1}, std::size_t{3000}, std::size_t{1} << 22}) {
            INFO(precision.name << " on " << ranks << " ranks, overlap " << overlap << ", sharded "
                                << sharded << ", buckets of " << bucket);
            run.ranks = ranks;
            run.threads = {1, 3, 2};
            run.options.overlap = overlap;
            run.options.shard_optimizer = sharded;
            run.options.reduce_bucket_bytes = bucket;
            check_same(run_ranks(run), one);
          }
  }
}

TEST_CASE("batches that are gathered, and layers that are computed again", "[unit]") {
  for (const Precision& precision :
       {Precision::fp32(), Precision::bf16_sr(), Precision::fp8_delayed()})
    for (const bool recompute : {false, true})
      for (const std::size_t accumulate : {1u, 2u}) {
        ParallelRun run = run_of(precision);
        run.recompute = recompute;
        run.options.accumulate = accumulate;
        run.batch = 8;
        run.sequences = 45;  // the last step has one batch or two, of 5
        const RankRun one = run_ranks(run).front();
        for (const int ranks : {2, 8}) {
          INFO(precision.name << ", recompute " << recompute << ", accumulate " << accumulate);
          run.ranks = ranks;
          check_same(run_ranks(run), one);
        }
      }
}

TEST_CASE("classes that weigh differently: the normaliser is the whole batch's", "[unit]") {
  ParallelRun run = run_of();
  run.class_weights = {0.3f, 1.7f};
  run.sequences = 75;  // the last batch is short, its shards ragged
  for (const std::size_t accumulate : {1u, 2u}) {
    run.options.accumulate = accumulate;
    run.ranks = 0;
    run.threads = {1};
    const RankRun one = run_ranks(run).front();
    for (const int ranks : {1, 2, 8}) {
      INFO(ranks << " ranks, accumulate " << accumulate);
      run.ranks = ranks;
      run.threads = {1, 3};
      check_same(run_ranks(run), one);
    }
    ParallelRun plain = run;
    plain.ranks = 0;
    plain.class_weights.clear();
    CHECK(run_ranks(plain).front().bits != one.bits);
  }
}

TEST_CASE("batches that are gathered take the memory of one, and of its gradients", "[unit]") {
  ParallelRun run = run_of();
  run.ranks = 2;
  run.batch = 8;
  run.sequences = 128;
  const std::vector<RankRun> one_by_one = run_ranks(run);
  run.options.accumulate = 16;
  const std::vector<RankRun> gathered = run_ranks(run);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    INFO("rank " << rank);
    REQUIRE(gathered[rank].error == "");
    REQUIRE(gathered[rank].steps.size() == 1);
    // The gradients of earlier batches, while the sums of one more are in transit.
    const std::size_t gradients = gathered[rank].parameters * sizeof(float);
    CHECK(gathered[rank].peak_bytes < one_by_one[rank].peak_bytes + 2 * gradients);
  }
}

static void few_sequences(Table table) {
  const auto all = precision_presets();
  std::vector<Precision> precisions{Precision::fp32(), Precision::fp8_delayed()};
  if (table == Table::whole) precisions.assign(all.begin(), all.end());
  for (const Precision& precision : precisions)
    for (const std::size_t batch : {1u, 3u})
      for (const std::size_t shards : {8u, 16u}) {
        ParallelRun run = run_of(precision);
        run.batch = batch;
        run.shards = shards;
        run.sequences = 13;
        run.options.shard_optimizer = true;
        const RankRun one = run_ranks(run).front();
        for (const int ranks : {4, 8}) {
          INFO(precision.name << ", batches of " << batch << ", " << shards << " shards");
          run.ranks = ranks;
          check_same(run_ranks(run), one);
        }
      }
}

namespace {

// Stops a run on some ranks after `step` and resumes it on others; `sharded`: before, and after.
void check_resumed(const ParallelRun& run, const RankRun& one, std::pair<int, int> ranks,
                   std::pair<bool, bool> sharded, std::uint64_t step) {
  auto context = make_context();
  MemoryStore store(context);
  ParallelRun first = run;
  first.ranks = ranks.first;
  first.store = &store;
  first.stop_after = step;
  first.options.shard_optimizer = sharded.first;
  for (const RankRun& rank : run_ranks(first)) {
    REQUIRE(rank.error == "");
    CHECK(rank.report.interrupted);
    CHECK(rank.report.steps == step);
  }
  ParallelRun second = run;
  second.ranks = ranks.second;
  second.store = &store;
  second.model_seed = 99;
  second.options.resume = true;
  second.options.shard_optimizer = sharded.second;
  for (const RankRun& rank : run_ranks(second)) {
    REQUIRE(rank.error == "");
    CHECK(rank.report.first_step == step);
    CHECK(rank.bits == one.bits);
  }
}

}  // namespace

TEST_CASE("batches with fewer sequences than ranks, and more shards", "[unit]") {
  few_sequences(Table::part);
}
TEST_CASE("batches with fewer sequences than ranks, and more shards: all", "[slow]") {
  few_sequences(Table::whole);
}

static void other_ranks(Table table) {
  for (const Precision& precision : entries(table, {Precision::bf16_sr(), Precision::fp8_delayed()},
                                            {Precision::fp32(), Precision::bf16_sr(),
                                             Precision::fp8_delayed(), Precision::fp16()})) {
    ParallelRun run = run_of(precision);
    run.options.epochs = 2;
    const RankRun one = run_ranks(run).front();
    for (const auto& [before, after] : {std::pair{1, 4}, {4, 1}, {8, 2}, {2, 0}, {0, 8}, {4, 8}})
      for (const auto& [sharded, then] : {std::pair{false, true}, {true, false}, {true, true}}) {
        INFO(precision.name << " from " << before << " to " << after << ", sharded " << sharded
                            << ", then " << then);
        check_resumed(run, one, {before, after}, {sharded, then}, 4);
      }
  }
}

TEST_CASE("interrupted on so many ranks and resumed on others", "[unit]") {
  other_ranks(Table::part);
}
TEST_CASE("interrupted on so many ranks and resumed on others: all", "[slow]") {
  other_ranks(Table::whole);
}

TEST_CASE("recipes of groups: ragged batches, and other ranks behind a stop", "[unit]") {
  for (const Precision& precision : group_recipes()) {
    ParallelRun run = run_of(precision);
    run.batch = 3;
    run.sequences = 8;
    const RankRun one = run_ranks(run).front();
    INFO(precision.name);
    check_resumed(run, one, {1, 4}, {false, true}, 2);
    check_resumed(run, one, {4, 2}, {true, false}, 1);
  }
}

TEST_CASE("every rank has the evaluation of one", "[unit]") {
  for (const Precision& precision :
       {Precision::fp32(), Precision::fp8_delayed(), Precision::mxfp8()})
    for (const bool with_store : {false, true}) {
      auto context = make_context();
      MemoryStore store(context);
      ParallelRun run = run_of(precision);
      run.evaluate = true;
      run.store = with_store ? &store : nullptr;
      run.options.epochs = 6;
      run.options.evaluate_every = 3;
      run.options.patience = 2;
      run.options.keep_best = true;
      const RankRun one = run_ranks(run).front();
      REQUIRE(one.report.evaluated);
      for (const int ranks : {1, 2, 8}) {  // seven batches: one rank of eight has none
        INFO(precision.name << " on " << ranks << " ranks");
        run.ranks = ranks;
        const std::vector<RankRun> all = run_ranks(run);
        check_same(all, one);
        for (const RankRun& rank : all) {
          CHECK(rank.report.stopped_early == one.report.stopped_early);
          CHECK(rank.report.evaluation_loss == one.report.evaluation_loss);
          CHECK(rank.report.metrics.cases() == 50);
          CHECK(rank.report.metrics.accuracy() == one.report.metrics.accuracy());
          CHECK(rank.report.metrics.area_under_curve() == one.report.metrics.area_under_curve());
        }
      }
    }
}

TEST_CASE("ranks that were not given the same end before the first step", "[unit]") {
  ParallelRun run = run_of();
  run.ranks = 4;
  run.change = [](int rank, TrainerOptions& options) {
    if (rank == 1) options.seed = 6;
  };
  for (const RankRun& rank : run_ranks(run)) {
    CHECK(rank.error.find("\"seed\" of rank 1 is 6, wanted 5 as on rank 0") != std::string::npos);
    CHECK(rank.error.find("[parallel.mismatch]") != std::string::npos);
  }
  run.change = [](int rank, TrainerOptions& options) {
    if (rank == 3) options.shard_optimizer = true;
  };
  for (const RankRun& rank : run_ranks(run))
    CHECK(rank.error.find("\"shard_optimizer\" of rank 3 is true") != std::string::npos);
}

TEST_CASE("what ends one rank ends all, by name", "[unit]") {
  for (const bool overlap : {false, true}) {
    ParallelRun run = run_of();
    run.ranks = 4;
    run.options.overlap = overlap;
    run.on_step = [](int rank, const train::StepInfo& step) {
      if (rank == 2 && step.step == 3) fail(error_id::file_write, "test", "disk", "full", "room");
    };
    const std::vector<RankRun> all = run_ranks(run);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      INFO("rank " << rank << ": " << all[rank].error);
      if (rank == 2) {
        CHECK(all[rank].error.find("[file.write]") != std::string::npos);
      } else {
        CHECK(all[rank].error.find("[parallel.rank_lost]") != std::string::npos);
        CHECK(all[rank].error.find("rank 2") != std::string::npos);
        CHECK(all[rank].error.find("disk is full") != std::string::npos);
      }
    }
  }
}

TEST_CASE("numbers of ranks that have no tree are refused", "[unit]") {
  ParallelRun run = run_of();
  for (const int ranks : {3, 16}) {
    run.ranks = ranks;
    for (const RankRun& rank : run_ranks(run))
      CHECK((rank.error.find("[parallel.ranks]") != std::string::npos ||
             rank.error.find("[parallel.rank_lost]") != std::string::npos));
  }
}

TEST_CASE("the reduction is measured", "[unit]") {
  ParallelRun run = run_of();
  run.ranks = 2;
  for (const RankRun& rank : run_ranks(run)) {
    CHECK(rank.report.reduction_seconds > 0);
    CHECK(rank.report.reduction_wait_seconds <= rank.report.reduction_seconds);
    CHECK(train::to_string(rank.report).find(" % hidden") != std::string::npos);
  }
  run.ranks = 0;
  CHECK(run_ranks(run).front().report.reduction_seconds == 0);
}

TEST_CASE("a narrow reduction: the number of ranks decides the bits, and nothing else", "[unit]") {
  const auto bits_of_run = [](const ParallelRun& run) {
    const std::vector<RankRun> ranks = run_ranks(run);
    for (const RankRun& rank : ranks) {
      REQUIRE(rank.error == "");
      CHECK(rank.bits == ranks.front().bits);
    }
    return ranks.front().bits;
  };
  for (Precision precision : {Precision::fp32(), Precision::bf16_sr()}) {
    const std::uint64_t plain = bits_of_run(run_of(precision));
    precision.reduction = {.format = formats::bf16, .rounding = Rounding::stochastic};
    ParallelRun run = run_of(precision);
    CHECK(bits_of_run(run) == plain);
    run.ranks = 1;
    CHECK(bits_of_run(run) == plain);
    std::vector<std::uint64_t> seen{plain};
    for (const int ranks : {2, 4}) {
      run = run_of(precision);
      run.ranks = ranks;
      const std::uint64_t wanted = bits_of_run(run);
      INFO(precision.name << " on " << ranks << " ranks");
      CHECK(std::count(seen.begin(), seen.end(), wanted) == 0);
      seen.push_back(wanted);
      for (const bool sharded : {false, true}) {
        ParallelRun other = run;
        other.threads = {1, 3, 2};
        other.options.overlap = sharded;
        other.options.shard_optimizer = sharded;
        other.options.reduce_bucket_bytes = sharded ? 5000 : 1;
        CHECK(bits_of_run(other) == wanted);
      }
      // Interrupted and resumed on as many.
      auto context = make_context();
      MemoryStore store(context);
      ParallelRun first = run;
      first.store = &store;
      first.stop_after = 2;
      for (const RankRun& rank : run_ranks(first)) REQUIRE(rank.report.interrupted);
      ParallelRun second = run;
      second.store = &store;
      second.options.resume = true;
      CHECK(bits_of_run(second) == wanted);
    }
  }
}

TEST_CASE("a narrow reduction keeps the mapping of draws of its checkpoint", "[unit]") {
  const auto bits_of_run = [](DrawMapping mapping, MemoryStore* store, std::uint64_t steps,
                              bool resume) {
    ParallelRun run = run_of();
    run.options.precision.reduction = {
        .format = formats::bf16, .rounding = {.mode = RoundingMode::stochastic, .draws = mapping}};
    run.options.schedule.decay = optim::Decay::constant;
    run.options.max_steps = steps;
    run.options.resume = resume;
    run.ranks = 2;
    run.store = store;
    const std::vector<RankRun> ranks = run_ranks(run);
    for (const RankRun& rank : ranks) REQUIRE(rank.error == "");
    return ranks.front().bits;
  };
  const std::uint64_t philox = bits_of_run(DrawMapping::philox, nullptr, 4, false),
                      ars = bits_of_run(DrawMapping::ars, nullptr, 4, false);
  CHECK(philox != ars);
  CHECK(bits_of_run(DrawMapping::automatic, nullptr, 4, false) == ars);
  auto context = make_context();
  MemoryStore store(context), old(context);
  bits_of_run(DrawMapping::philox, &store, 2, false);
  Checkpoint checkpoint;
  REQUIRE(store.load_latest(context, checkpoint));
  Precision precision = run_of().options.precision;
  precision.reduction = {.format = formats::bf16, .rounding = Rounding::stochastic};
  checkpoint.identity.set("precision", to_string(precision));
  old.save(2, checkpoint);
  CHECK(bits_of_run(DrawMapping::automatic, &old, 4, true) == philox);
}

TEST_CASE("a narrow reduction draws anew for each step", "[unit]") {
  // A step that changes nothing, over and over: only what is drawn can differ.
  ParallelRun run = run_of();
  run.repeat = true;
  run.options.learning_rate = 0;
  run.options.epochs = 4;
  run.sequences = run.batch;
  run.ranks = 2;
  for (const bool narrow : {false, true}) {
    if (narrow)
      run.options.precision.reduction = {.format = formats::bf16, .rounding = Rounding::stochastic};
    const std::vector<train::StepInfo> steps = run_ranks(run).front().steps;
    REQUIRE(steps.size() == 4);
    for (std::size_t i = 1; i < 4; ++i)
      CHECK((steps[i].gradient_norm == steps[i - 1].gradient_norm) == !narrow);
  }
}

TEST_CASE("what ranks that share rows save is what they do not keep", "[unit]") {
  // Elements of the parameters, and of the rows that a rank keeps.
  auto context = make_context();
  models::BertConfig config = small_config();
  config.vocabulary = 300;
  config.inner = 256;
  models::BertClassifier model(nn::Scope{context, 1}, config, 2);
  nn::ClassificationTask task(model, 2);
  std::size_t parameters = 0;
  const auto kept = [&](int rank, int ranks) {
    std::size_t elements = 0;
    parameters = 0;
    for (const Parameter& parameter : task.parameters()) {
      const RowPartition rows(parameter.var.shape(), parameter.first_row, parameter.last_row);
      elements += rows.part(rank, ranks).count * rows.row_elements();
      ++parameters;
    }
    return static_cast<double>(elements);
  };
  const double all = kept(0, 1);
  for (const int ranks : {1, 2, 4, 8}) {
    ParallelRun run = run_of();
    run.ranks = ranks;
    const std::vector<RankRun> whole = run_ranks(run);
    run.options.shard_optimizer = true;
    const std::vector<RankRun> shared = run_ranks(run);
    double together = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto i = static_cast<std::size_t>(rank);
      const double saved =
          static_cast<double>(whole[i].bytes) - static_cast<double>(shared[i].bytes);
      // Gradient and two moments of fp32. Blocks of memory are rounded up to 64 bytes and have a
      // header of 64; the gradients of the embeddings' rows that no token has were never there.
      const double computed = 12 * (all - kept(rank, ranks));
      const double blocks = 3 * static_cast<double>(parameters) * 128;
      const double embeddings = 4.0 * (300 + 32 + 2) * 32;
      INFO("rank " << rank << " of " << ranks << ": saved " << saved << ", computed " << computed);
      CHECK(saved <= computed + blocks);
      CHECK(saved >= computed - blocks - embeddings);
      together += kept(rank, ranks);
    }
    CHECK(together == all);
  }
}
