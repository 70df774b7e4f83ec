// Random programs keep the rules of the clock, and each rule is missed where it is left out.

#include "neuroncore/clock/records.hpp"

#include <set>
#include <string>

using namespace soma_test;
using Broken = std::set<std::string>;

namespace {

constexpr std::uint64_t programs = 500;

// The rules that any of 40 programs breaks whose clock went wrong.
template <class Wrong>
Broken broken_by(const Wrong& wrong) {
  Broken all;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const RecordBuilder record = random_record(seed, 150);
    all.merge(Rules(record.all).broken(wrong(record)));
  }
  return all;
}

}  // namespace

TEST_CASE("500 random programs keep the clock's rules", "[unit][neuroncore]") {
  for (std::uint64_t seed = 0; seed < programs; ++seed) {
    const RecordBuilder record = random_record(seed, 40 + seed % 120);
    INFO("seed " << seed);
    const nc::Timeline timeline = nc::timeline(record.all, at_once());
    CHECK(Rules(record.all).broken(timeline) == Broken{});
    // They began in the order that it says.
    double now = 0;
    for (const std::uint32_t index : timeline.order) {
      CHECK(timeline.instructions[index].start >= now);
      now = timeline.instructions[index].start;
    }
    CHECK(timeline.order.size() == record.all.size());
  }
}

TEST_CASE("a clock that forgets a rule is found", "[unit][neuroncore]") {
  CHECK(broken_by([](const RecordBuilder& record) {
          return nc::timeline(record.all, at_once(), {.ports = false});
        }) == Broken{"port"});
  CHECK(broken_by([](const RecordBuilder& record) {
          return nc::timeline(record.all, at_once(), {.own_lane_waits = false});
        }) == Broken{"result"});
  // Transfers in issue order begin later than anything that they wait for.
  const Broken in_order = broken_by([](const RecordBuilder& record) {
    return nc::timeline(record.all, at_once(), {.queues_overtake = false});
  });
  CHECK(in_order.count("late") == 1);
  const Broken barrier = broken_by([](const RecordBuilder& record) {
    std::vector<nc::Instruction> without = record.all;
    for (const std::size_t i : record.behind_barrier) without[i].after = {};
    return nc::timeline(without, at_once());
  });
  CHECK(barrier.count("dependency") == 1);
  const Broken passes = broken_by([](const RecordBuilder& record) {
    std::vector<nc::Instruction> without = record.all;
    for (nc::Instruction& instruction : without) instruction.cost.inputs.fill(soma::DType::bf16);
    return nc::timeline(without, at_once());
  });
  CHECK(passes.count("cost") == 1);
}
