// Schedules of pipelines and partitions of models, against tables, closed forms and brute force.

#include <soma/parallel/placement.hpp>
#include <soma/parallel/plan.hpp>
#include <soma/parallel/schedule.hpp>

#include "support/errors.hpp"

#include "catch.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

using namespace soma;
using soma_test::id_of;

namespace {

Simulation simulated(const PipelineSchedule& schedule, double latency = 0) {
  validate(schedule);
  return simulate(schedule, {.stages = {{.forward = 1, .backward = 2}}, .latency = latency});
}

// The largest sum of a partition into so many runs, by trying all of them.
double smallest_largest(const std::vector<double>& costs, std::size_t begin, std::size_t parts) {
  double sum = 0, best = 1e300;
  if (parts == 1) {
    for (std::size_t i = begin; i < costs.size(); ++i) sum += costs[i];
    return sum;
  }
  for (std::size_t end = begin + 1; end + parts <= costs.size() + 1; ++end) {
    sum += costs[end - 1];
    best = std::min(best, std::max(sum, smallest_largest(costs, end, parts - 1)));
  }
  return best;
}

using Cuts = std::vector<std::size_t>;

Cuts cut(std::vector<double> costs, std::size_t partitions) {
  return partition_pieces({.weights = std::move(costs), .partitions = partitions});
}

}  // namespace

TEST_CASE("schedules are valid and hold as many micro-batches as the formula says", "[unit]") {
  for (std::size_t p = 1; p <= 8; ++p)
    for (std::size_t m = 1; m <= 16; ++m) {
      INFO("partitions " << p << ", micro-batches " << m);
      const Simulation simple = simulated(simple_schedule(p, m));
      const auto whole = static_cast<double>(3 * (m + p - 1));
      CHECK(simple.makespan == whole);
      CHECK(simple.in_flight == std::vector<std::size_t>(p, m));
      for (std::size_t extra = 0; extra < p + 2; ++extra) {
        const Simulation simulation = simulated(interleaved_schedule(p, m, extra));
        CHECK(simulation.makespan == whole);
        for (std::size_t s = 0; s < p; ++s)
          CHECK(simulation.in_flight[s] == std::min(m, p - s + std::min(p - 1 - s, extra)));
      }
      const Simulation bubble = simulated(zero_bubble_schedule(p, m));
      CHECK(bubble.makespan == static_cast<double>(m >= p ? 3 * m + p - 1 : 2 * p + 2 * m - 1));
      for (const std::size_t held : bubble.in_flight) CHECK(held <= std::min(p, m));
    }
}

TEST_CASE("makespans of schedules", "[unit]") {
  struct Row {
    std::size_t p, m;
    double makespan;
  };
  for (const Row& row :
       {Row{2, 2, 9}, {2, 4, 15}, {3, 5, 21}, {4, 1, 12}, {4, 2, 15}, {4, 8, 33}, {8, 64, 213}}) {
    CHECK(simulated(simple_schedule(row.p, row.m)).makespan == row.makespan);
    CHECK(simulated(interleaved_schedule(row.p, row.m)).makespan == row.makespan);
  }
  for (const Row& row : {Row{2, 4, 13}, {4, 8, 27}, {8, 32, 103}})
    CHECK(simulated(zero_bubble_schedule(row.p, row.m)).makespan == row.makespan);
  CHECK(simulated(interleaved_schedule(4, 16, 0), 0.5).makespan == 71);
  CHECK(simulated(interleaved_schedule(4, 16, 2), 0.5).makespan == 61);
  CHECK(simulated(simple_schedule(4, 16), 0.5).makespan == 60);
  // A slow cut: the time of its message, forward and back.
  const auto slow_cut =
      simulate(simple_schedule(2, 1), {.stages = {{}}, .latency = 9, .links = {0.5}});
  CHECK(slow_cut.makespan == 6 + 2 * 0.5);
  // A middle stage that is half as slow again.
  const auto uneven = simulate(interleaved_schedule(4, 16),
                               {.stages = {{}, {.forward = 1.5, .backward = 3}, {}, {}}});
  CHECK(uneven.makespan == 78);
}

TEST_CASE("schedules that cannot work are refused", "[unit]") {
  CHECK(to_text(interleaved_schedule(2, 2)) == "F0 F1 B0 B1\nF0 B0 F1 B1\n");
  const auto id = [](const PipelineSchedule& schedule) {
    return id_of([&] { validate(schedule); });
  };
  const PipelineSchedule good = interleaved_schedule(3, 4);
  CHECK_NOTHROW(validate(good));
  std::size_t refused = 0, tried = 0;
  for (std::size_t s = 0; s < 3; ++s)
    for (std::size_t i = 0; i < good.stages[s].size(); ++i) {
      PipelineSchedule bad = good;
      auto& stage = bad.stages[s];
      const auto at = stage.begin() + static_cast<std::ptrdiff_t>(i);
      const PipelineAction action = *at;
      stage.erase(at);
      CHECK(id(bad) == "parallel.argument");  // one is missing
      stage.push_back(action);
      stage.push_back(action);
      CHECK(id(bad) == "parallel.argument");  // one is there twice
      bad = good;
      bad.stages[s][i].microbatch = 4;
      CHECK(id(bad) == "parallel.argument");  // there is no such micro-batch
      bad = good;
      bad.stages[s][i].op = PipelineOp::weight_gradient;
      CHECK(id(bad) == "parallel.argument");
      if (i == 0) continue;
      bad = good;
      std::swap(bad.stages[s][i - 1], bad.stages[s][i]);
      ++tried;
      refused += id(bad) == "parallel.argument" ? std::size_t{1} : 0;
    }
  CHECK(refused >= tried / 4);   // other changes of places make schedules as well
  PipelineSchedule late = good;  // a backward of the last stage before what it is the gradient of
  std::swap(late.stages[2][0], late.stages[2][1]);
  CHECK(id(late) == "parallel.argument");
  // Each list alone is in order; together they wait for each other for ever.
  PipelineSchedule stuck{2, {}};
  const PipelineAction f0{PipelineOp::forward, 0}, f1{PipelineOp::forward, 1};
  const PipelineAction b0{PipelineOp::backward, 0}, b1{PipelineOp::backward, 1};
  stuck.stages = {{f0, b0, f1, b1}, {f0, f1, b0, b1}};
  CHECK(id(stuck) == "parallel.argument");
  CHECK(id({0, {{}}}) == "parallel.argument");
  CHECK(id({1, {}}) == "parallel.argument");
}

TEST_CASE("the largest stage is as small as it can be", "[unit]") {
  CHECK(cut({1, 2, 3, 4, 5, 6, 7, 8, 9}, 3) == Cuts{5, 7});
  CHECK(cut({2, 3, 1, 4, 4, 2, 6, 1}, 4) == Cuts{2, 4, 6});  // the leftmost of two
  CHECK(cut({10, 1, 1, 1, 1, 10}, 3) == Cuts{1, 5});
  CHECK(cut({5, 5, 5, 5}, 2) == Cuts{2});
  CHECK(cut({1, 1, 1}, 1).empty());
  CHECK(id_of([] { cut({1, 1, 1}, 4); }) == "parallel.plan");
  CHECK(id_of([] { cut({1, 1, 1}, 0); }) == "parallel.plan");
  std::mt19937 random(5);
  for (std::size_t n = 1; n <= 10; ++n)
    for (std::size_t p = 1; p <= n; ++p) {
      std::vector<double> costs;
      for (std::size_t i = 0; i < n; ++i) costs.push_back(static_cast<double>(random() % 8));
      const Cuts cuts = cut(costs, p);
      REQUIRE(cuts.size() + 1 == p);
      double largest = 0;
      for (std::size_t k = 0; k < p; ++k) {
        double sum = 0;
        for (std::size_t i = k == 0 ? 0 : cuts[k - 1]; i < (k < cuts.size() ? cuts[k] : n); ++i)
          sum += costs[i];
        largest = std::max(largest, sum);
      }
      CHECK(largest == smallest_largest(costs, 0, p));
    }
}

TEST_CASE("pieces that share a variable stay together", "[unit]") {
  PartitionProblem problem{.weights = {4, 1, 1, 4}, .partitions = 2, .joined = {0, 0, 1, 0}};
  CHECK(partition_pieces(problem) == Cuts{1});  // 2 would be as good, but 1 and 2 are joined
  problem.weights = {1, 1, 4, 4};
  CHECK(partition_pieces(problem) == Cuts{3});
  problem.partitions = 4;
  CHECK(id_of([&] { partition_pieces(problem); }) == "parallel.plan");
}

TEST_CASE("costs of pieces, and a decision that is kept", "[unit]") {
  PipelinePlan plan{.fingerprint = "abc", .partitions = 2, .microbatches = 4, .cuts = {1}};
  plan.pieces = {{"first", 0.25, 0.5, 100, 10, 300}, {"second", 0.125, 0.125, 500, 20, 100}};
  const Record record = to_record(plan);
  PipelinePlan wanted = plan;
  wanted.microbatches = 8;
  wanted.cuts.clear();
  for (PieceCost& piece : wanted.pieces)
    piece = {.name = piece.name, .parameter_bytes = piece.parameter_bytes};
  const PipelinePlan read = plan_from_record(record, wanted);
  CHECK(read.cuts == plan.cuts);
  CHECK(read.microbatches == 4);
  CHECK(read.pieces[1].forward_seconds == 0.125);
  CHECK(read.pieces[1].saved_bytes == 500);
  const auto refused = [&](const std::string& name, auto value) {
    Record changed = record;
    changed.set(name, value);
    return id_of([&] { plan_from_record(changed, wanted); });
  };
  CHECK(refused("fingerprint", "abd") == "parallel.plan");
  CHECK(refused("partitions", 3) == "parallel.plan");
  CHECK(refused("microbatches", 0) == "parallel.plan");
  CHECK(refused("cut.1", "third") == "parallel.plan");
  CHECK(refused("cut.1", "first") == "parallel.plan");
  CHECK(refused("cut.1", 1) == "record.type");
  CHECK(refused("piece.first.forward_seconds", -1.0) == "parallel.plan");
  CHECK(refused("piece.first.forward_seconds", "NaN") == "parallel.plan");
  CHECK(refused("piece.first.parameter_bytes", 301) == "parallel.plan");
  CHECK(id_of([&] { plan_from_record(Record("empty"), wanted); }) == "record.missing");
  CHECK(cuts_by_name(plan.pieces, {"second"}, 2) == Cuts{1});
  CHECK(id_of([&] { cuts_by_name(plan.pieces, {}, 2); }) == "parallel.plan");
}

TEST_CASE("four ranks as two stages", "[unit]") {
  const auto stages_of = [](Placement placement) {
    std::vector<std::vector<std::size_t>> pipelines(2);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const PipelinePosition position = pipeline_position(rank, 4, 2, placement);
      CHECK(pipeline_rank(position, 4, 2, placement) == rank);
      CHECK(position.stage == pipelines[position.replica].size());
      pipelines[position.replica].push_back(rank);
    }
    return pipelines;
  };
  CHECK(stages_of(Placement::cluster) == std::vector<std::vector<std::size_t>>{{0, 1}, {2, 3}});
  CHECK(stages_of(Placement::spread) == std::vector<std::vector<std::size_t>>{{0, 2}, {1, 3}});
}
